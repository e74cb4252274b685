package engine

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// notePluginFailure remembers an error of a query if a plugin is to blame, which it calls by the
// name that the node has for it.
func (e *Engine) notePluginFailure(q *record.Query, err error) {
	var guest *wasmhost.Error
	if !errors.As(err, &guest) || guest.Kind == wasmhost.Busy {
		return
	}
	for _, call := range append(slices.Clip(q.Filters), q.Aggregate) {
		digest := ""
		if v, unknown := e.plugins.Find(call.Name); unknown == nil {
			digest = v.SHA256
		}
		if call.Module != nil {
			digest = registry.Digest(call.Module)
		}
		if digest == hex.EncodeToString(guest.Digest[:]) {
			guest.Plugin, _, _ = strings.Cut(call.Name, "@")
		}
	}
	said := nodeerror.ToWire(err)
	fault, _ := said.Fault()
	e.failures.Add(api.PluginFailure{TimeNs: time.Now().UnixNano(), Plugin: guest.Plugin,
		Code: said.Kind.String(), Message: said.Message, Query: QueryText(q), Fault: fault})
}

// PluginFailures returns the last failures of a plugin, or with an empty name of all, the newest
// first. They are forgotten when the node ends.
func (e *Engine) PluginFailures(name string) []api.PluginFailure { return e.failures.Of(name) }
