// Package nodeerror converts the errors of a node's packages into those of the protocol: their
// kind, and what else clients are told.
//
// It knows nothing of HTTP nor of where errors are raised. Its main function is [ToWire]; it starts
// no goroutines.
package nodeerror

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// RetryAfterMs is the retry advice of temporary errors.
const RetryAfterMs = 200

// Sentinel is an error that knows its kind. Two with the same text are the same error.
type Sentinel struct {
	Kind wire.Kind
	Text string
}

func (e Sentinel) Error() string { return e.Text }

// Converter is an error that says by itself how it is converted.
type Converter interface {
	error
	ToWire() *wire.Error
}

// ToWire converts an error for the protocol.
func ToWire(err error) *wire.Error {
	var own Converter
	if errors.As(err, &own) {
		return own.ToWire()
	}
	var known *wire.Error
	if errors.As(err, &known) {
		return known
	}
	var invalid *record.InvalidError
	if errors.As(err, &invalid) {
		kind := wire.KindInvalid
		if invalid.Reason == record.TooLarge || invalid.Reason == record.TooMany {
			kind = wire.KindTooLarge
		}
		return &wire.Error{Kind: kind, Message: err.Error(), Part: invalid.Part,
			Reason: string(invalid.Reason)}
	}
	if errors.Is(err, store.ErrNotCopied) {
		return &wire.Error{Kind: wire.KindInvalid, Message: err.Error(), Part: "range",
			Reason: string(record.Inconsistent)}
	}
	if refused := catalogError(err); refused != nil {
		return refused
	}
	var guest *wasmhost.Error
	if errors.As(err, &guest) && guest.Kind == wasmhost.Busy {
		return &wire.Error{Kind: wire.KindOverloaded, Message: err.Error(),
			RetryAfterMs: RetryAfterMs}
	}
	if errors.As(err, &guest) {
		return wire.NewFault(guestKind(guest.Kind), err.Error(), Fault(guest))
	}
	var gap *writers.GapError
	if errors.As(err, &gap) {
		return wire.NewGap(err.Error(), gap.Newest)
	}
	out := &wire.Error{Kind: kindOf(err), Message: err.Error()}
	if out.Kind.Temporary() {
		out.RetryAfterMs = RetryAfterMs
	}
	return out
}

func kindOf(err error) wire.Kind {
	if kind, ok := cursorKind(err); ok {
		return kind
	}
	var own Sentinel
	var damage *durable.CorruptError
	switch {
	case errors.As(err, &damage):
		return wire.KindDamaged
	case errors.Is(err, cluster.ErrRefused):
		return wire.KindForbidden
	case errors.Is(err, cluster.ErrUnknown):
		return wire.KindNotFound
	case errors.As(err, &own):
		return own.Kind
	case errors.Is(err, manifest.ErrTooManyEvents),
		errors.Is(err, store.ErrTooManyVersions), errors.Is(err, replica.ErrTooLarge),
		errors.Is(err, spill.ErrNoSpace):
		return wire.KindTooLarge
	case errors.Is(err, store.ErrOverloaded),
		errors.Is(err, registry.ErrBusy),
		errors.Is(err, admission.ErrFull), errors.Is(err, admission.ErrTimeout),
		errors.Is(err, budget.ErrFull),
		errors.Is(err, replica.ErrOverloaded),
		errors.Is(err, writers.ErrTooMany):
		return wire.KindOverloaded
	case errors.Is(err, store.ErrClosed),
		errors.Is(err, admission.ErrDrained),
		errors.Is(err, store.ErrFailed),
		errors.Is(err, wal.ErrFailed), durable.IsNoSpace(err),
		errors.Is(err, catalog.ErrFailed),
		errors.Is(err, member.ErrUnavailable), errors.Is(err, member.ErrCutOff),
		errors.Is(err, member.ErrUndecided),
		errors.Is(err, replica.ErrClosed),
		errors.Is(err, member.ErrNoModule), errors.Is(err, store.ErrOtherSlots),
		errors.Is(err, replica.ErrUnknown), errors.Is(err, replica.ErrLogFailed),
		errors.Is(err, replica.ErrStopped),
		errors.Is(err, replica.ErrNotLeader), errors.Is(err, replica.ErrGroupUnknown):
		return wire.KindUnavailable
	case errors.Is(err, retention.ErrNoPolicy):
		return wire.KindNotFound
	case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrAhead),
		errors.Is(err, cluster.ErrStale),
		errors.Is(err, store.ErrNoCopy), errors.Is(err, store.ErrOtherPayload),
		errors.Is(err, store.ErrBelow):
		return wire.KindInvalid
	case errors.Is(err, store.ErrIsCopy), errors.Is(err, store.ErrReplicated):
		return wire.KindForbidden
	case errors.Is(err, store.ErrConflict):
		return wire.KindConflict
	case errors.Is(err, writers.ErrTooOld):
		return wire.KindSequenceTooOld
	case errors.Is(err, context.DeadlineExceeded):
		return wire.KindTimeout
	case errors.Is(err, context.Canceled):
		return wire.KindCanceled
	default:
		return wire.KindInternal
	}
}

func guestKind(k wasmhost.ErrorKind) wire.Kind {
	switch k {
	case wasmhost.Refused:
		return wire.KindBadModule
	case wasmhost.Fuel, wasmhost.Memory, wasmhost.Limit:
		return wire.KindPluginLimit
	default:
		return wire.KindPluginFailed
	}
}

// cursorKind gives errors of cursors the kind under which they cross the network.
func cursorKind(err error) (wire.Kind, bool) {
	switch {
	case errors.Is(err, cursors.ErrUnknown):
		return wire.KindNotFound, true
	case errors.Is(err, cursors.ErrBehind):
		return wire.KindInvalid, true
	case errors.Is(err, cursors.ErrQuestion):
		return wire.KindConflict, true
	case errors.Is(err, cursors.ErrFull):
		return wire.KindTooLarge, true
	case errors.Is(err, cursors.ErrFailed):
		return wire.KindUnavailable, true
	}
	return 0, false
}

// catalogError gives refusals of a catalogue the form in which they cross the network, else nil.
func catalogError(err error) *wire.Error {
	switch {
	case errors.Is(err, catalog.ErrFull), errors.Is(err, catalog.ErrFullQuantities):
		return &wire.Error{Kind: wire.KindTooLarge, Message: err.Error()}
	case errors.Is(err, catalog.ErrUnknown):
		return &wire.Error{Kind: wire.KindUnknownPlugin, Message: err.Error()}
	case errors.Is(err, catalog.ErrCurrent):
		return &wire.Error{Kind: wire.KindInvalid, Part: "plugin", Message: err.Error()}
	}
	return nil
}

// Fault converts the error of a guest for the protocol.
func Fault(e *wasmhost.Error) api.Fault {
	f := api.Fault{Plugin: e.Plugin, SHA256: hex.EncodeToString(e.Digest[:]), Export: e.Export,
		What: e.Kind.String(), Status: e.Status, FuelUsed: e.FuelUsed, MemoryBytes: e.MemoryBytes,
		Message: e.Message, Records: e.Rows, Exact: e.Exact}
	if e.Rows > 0 {
		f.First, f.Last = api.KeyOfFault(e.First), api.KeyOfFault(e.Last)
	}
	return f
}
