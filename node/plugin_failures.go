package node

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// Limits of recorded failures: enough of each plugin to see what is wrong with it, and not all
// of a plugin that fails with every query.
const (
	maxFailures       = 1024
	maxPluginFailures = 32
)

// failures remembers the last ones, the oldest first.
type failures struct {
	mu   sync.Mutex // guards list
	list []api.PluginFailure
}

func (f *failures) add(one api.PluginFailure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	count, oldest := 0, -1
	for i := range f.list {
		if f.list[i].Plugin == one.Plugin {
			if count++; oldest < 0 {
				oldest = i
			}
		}
	}
	switch {
	case count >= maxPluginFailures:
		f.list = slices.Delete(f.list, oldest, oldest+1)
	case len(f.list) >= maxFailures:
		f.list = slices.Delete(f.list, 0, 1)
	}
	f.list = append(f.list, one)
}

// of returns the failures of a plugin, or of all, the newest first.
func (f *failures) of(name string) []api.PluginFailure {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []api.PluginFailure{}
	for i := range slices.Backward(f.list) {
		if name == "" || f.list[i].Plugin == name {
			out = append(out, f.list[i])
		}
	}
	return out
}

// failed remembers an error of a query if a plugin is to blame, which it calls by the name that
// the node has for it.
func (n *Node) failed(q *record.Query, err error) {
	var guest *wasmhost.Error
	if !errors.As(err, &guest) || guest.Kind == wasmhost.Busy {
		return
	}
	for _, call := range append(slices.Clip(q.Filters), q.Aggregate) {
		digest := ""
		if v, unknown := n.plugins.find(call.Name); unknown == nil {
			digest = v.SHA256
		}
		if call.Module != nil {
			digest = digestOf(call.Module)
		}
		if digest == hex.EncodeToString(guest.Digest[:]) {
			guest.Plugin, _, _ = strings.Cut(call.Name, "@")
		}
	}
	e := toWire(err)
	fault, _ := e.Fault()
	n.failures.add(api.PluginFailure{TimeNs: time.Now().UnixNano(), Plugin: guest.Plugin,
		Code: e.Kind.String(), Message: e.Message, Query: queryText(q), Fault: fault})
}

// PluginFailures returns the last failures of a plugin, or with an empty name of all, the newest
// first. They are forgotten when the node ends.
func (n *Node) PluginFailures(name string) []api.PluginFailure { return n.failures.of(name) }

// faultOf converts the error of a guest for the protocol.
func faultOf(e *wasmhost.Error) api.Fault {
	f := api.Fault{Plugin: e.Plugin, SHA256: hex.EncodeToString(e.Digest[:]), Export: e.Export,
		What: e.Kind.String(), Status: e.Status, FuelUsed: e.FuelUsed, MemoryBytes: e.MemoryBytes,
		Message: e.Message, Records: e.Rows, Exact: e.Exact}
	if e.Rows > 0 {
		f.First, f.Last = api.KeyOfFault(e.First), api.KeyOfFault(e.Last)
	}
	return f
}
