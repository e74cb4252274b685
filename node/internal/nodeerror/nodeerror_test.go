package nodeerror

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// own is an error that converts itself.
type own struct{ error }

func (own) ToWire() *wire.Error { return &wire.Error{Kind: wire.KindForbidden, Message: "own"} }

func TestToWire(t *testing.T) {
	busy := Sentinel{Kind: wire.KindOverloaded, Text: "busy"}
	f := func(err error, kind wire.Kind, retries bool) {
		t.Helper()
		for _, e := range []error{err, fmt.Errorf("wrapped: %w", err)} {
			if got := ToWire(e); got.Kind != kind || (got.RetryAfterMs > 0) != retries {
				t.Errorf("%v: %+v", e, got)
			}
		}
	}
	f(busy, wire.KindOverloaded, true)
	f(own{errors.New("x")}, wire.KindForbidden, false)
	f(&wire.Error{Kind: wire.KindNotFound}, wire.KindNotFound, false)
	f(&record.InvalidError{Part: "cid", Reason: record.TooLarge}, wire.KindTooLarge, false)
	f(store.ErrClosed, wire.KindUnavailable, true)
	f(&os.PathError{Op: "write", Path: "a.wasm", Err: syscall.ENOSPC}, wire.KindUnavailable, true)
	f(&os.LinkError{Op: "link", Old: "1.seg", New: "s/1.seg", Err: syscall.EDQUOT},
		wire.KindUnavailable, true)
	f(cursors.ErrBehind, wire.KindInvalid, false)
	f(&wasmhost.Error{Kind: wasmhost.Busy}, wire.KindOverloaded, true)
	f(&wasmhost.Error{Kind: wasmhost.Fuel}, wire.KindPluginLimit, false)
	f(errors.Join(busy, &durable.CorruptError{}), wire.KindDamaged, false)
	f(errors.New("x"), wire.KindInternal, false)
	if !errors.Is(fmt.Errorf("wrapped: %w", busy), busy) {
		t.Error("a sentinel is not itself")
	}
}
