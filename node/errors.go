package node

import (
	"context"
	"errors"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// retryAfterMs is the retry advice of temporary errors.
const retryAfterMs = 200

// Kind returns the protocol's kind of an error of a method of Node.
func (n *Node) Kind(err error) wire.Kind { return toWire(err).Kind }

// toWire converts an error for the protocol.
func toWire(err error) *wire.Error {
	var at *SourceError
	if errors.As(err, &at) {
		out := *toWire(at.Err)
		out.Message = at.Source + ": " + out.Message
		return &out
	}
	var put *PutError
	if errors.As(err, &put) {
		return put.toWire(func(row int) int { return row + 1 })
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
			RetryAfterMs: retryAfterMs}
	}
	if errors.As(err, &guest) {
		return wire.NewFault(guestKind(guest.Kind), err.Error(), faultOf(guest))
	}
	var gap *store.GapError
	if errors.As(err, &gap) {
		return wire.NewGap(err.Error(), gap.Newest)
	}
	out := &wire.Error{Kind: kindOf(err), Message: err.Error()}
	if out.Kind.Temporary() {
		out.RetryAfterMs = retryAfterMs
	}
	return out
}

func kindOf(err error) wire.Kind {
	if kind, ok := cursorKind(err); ok {
		return kind
	}
	var damage *segment.CorruptError
	switch {
	case errors.As(err, &damage):
		return wire.KindDamaged
	case errors.Is(err, cluster.ErrRefused):
		return wire.KindForbidden
	case errors.Is(err, cluster.ErrUnknown):
		return wire.KindNotFound
	case errors.Is(err, errTooLarge), errors.Is(err, store.ErrTooManyEvents),
		errors.Is(err, store.ErrTooManyVersions), errors.Is(err, replica.ErrTooLarge),
		errors.Is(err, spill.ErrNoRoom):
		return wire.KindTooLarge
	case errors.Is(err, store.ErrOverloaded), errors.Is(err, errTooBusy),
		errors.Is(err, registry.ErrBusy),
		errors.Is(err, admission.ErrFull), errors.Is(err, admission.ErrLate),
		errors.Is(err, budget.ErrFull),
		errors.Is(err, replica.ErrOverloaded),
		errors.Is(err, store.ErrTooManyWriters):
		return wire.KindOverloaded
	case errors.Is(err, store.ErrClosed), errors.Is(err, errClosing),
		errors.Is(err, admission.ErrDrained),
		errors.Is(err, store.ErrFailed),
		errors.Is(err, segment.ErrLogFailed), errors.Is(err, durable.ErrNoSpace),
		errors.Is(err, catalog.ErrFailed), errors.Is(err, errNoView),
		errors.Is(err, member.ErrUnavailable), errors.Is(err, member.ErrCutOff),
		errors.Is(err, member.ErrUndecided),
		errors.Is(err, replica.ErrClosed),
		errors.Is(err, member.ErrNoModule), errors.Is(err, store.ErrOtherSlots),
		errors.Is(err, replica.ErrUnknown), errors.Is(err, replica.ErrLogFailed),
		errors.Is(err, replica.ErrStopped),
		errors.Is(err, replica.ErrNotLeader), errors.Is(err, replica.ErrGroupUnknown):
		return wire.KindUnavailable
	case errors.Is(err, errNoSnapshot), errors.Is(err, retention.ErrNoPolicy):
		return wire.KindNotFound
	case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrAhead),
		errors.Is(err, cluster.ErrStale),
		errors.Is(err, store.ErrNoCopy), errors.Is(err, store.ErrKnown),
		errors.Is(err, store.ErrBelow):
		return wire.KindInvalid
	case errors.Is(err, store.ErrIsCopy), errors.Is(err, store.ErrReplicated):
		return wire.KindForbidden
	case errors.Is(err, store.ErrSequenceTooOld):
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
