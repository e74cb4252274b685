// Package verify reads everything that a node stores, and reports damage: its store, or in a
// cluster its replicas, which it compares with those of other nodes. One verification runs at a
// time.
//
// It knows nothing of what is in the files. Its main type is [Verifier]; it starts no goroutines.
package verify

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/wire"
)

// endWait is how long a verification waits for the end of another one, whose client is just gone.
const endWait = time.Second

// Options are what a verifier works with. All fields are needed; what they point to stays the
// caller's.
type Options struct {
	Store  *store.Store                   // of a node that is in no cluster
	Member *atomic.Pointer[member.Member] // holds nil in a node that is in no cluster
	Engine *engine.Engine
	Open   context.Context // ends when the node begins to close
}

// Verifier verifies what a node stores. All methods may be called from many goroutines.
type Verifier struct {
	opt    Options
	permit admission.Permits // one
}

// New returns the verifier of a node.
func New(opt Options) *Verifier { return &Verifier{opt: opt, permit: admission.NewPermits(1)} }

// Drain waits for a verification in flight. None begins afterwards.
func (v *Verifier) Drain() { v.permit.Drain() }

// Running reports whether a verification is in flight.
func (v *Verifier) Running() bool { return len(v.permit) > 0 }

// All verifies everything that the node stores; see [store.Store.Verify]. In a cluster it
// verifies the node's replicas, and compares them with those of other nodes. It ends when the node
// is closed.
func (v *Verifier) All(ctx context.Context, opt check.Options) (api.CheckReport, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(v.opt.Open, func() { cancel(nodeerror.ErrClosing) })()
	if !v.permit.AcquireWithin(ctx, endWait) {
		return api.CheckReport{}, fmt.Errorf("verify: %w: one is running already",
			nodeerror.ErrTooBusy)
	}
	defer v.permit.Release()
	var report api.CheckReport
	var err error
	if m := v.opt.Member.Load(); m != nil {
		report, err = v.opt.Engine.VerifyGroups(ctx, m.Stores(), opt)
	} else {
		report, err = v.opt.Store.Verify(ctx, opt)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return report, err
}

// Segment is All of one segment of a group's replica, group 0 for a node that is in no
// cluster. A backup that finds damage in a copy of the segment makes the node notice it, too.
func (v *Verifier) Segment(
	ctx context.Context, group cluster.GroupID, id uint64, opt check.Options,
) (api.CheckReport, error) {
	s := v.opt.Store
	if m := v.opt.Member.Load(); m != nil || group != 0 {
		s = nil
		if m != nil {
			s = m.Stores()[group]
		}
		if s == nil {
			return api.CheckReport{}, &wire.Error{Kind: wire.KindNotFound,
				Message: fmt.Sprintf("no replica of group %d is on this node", group)}
		}
	}
	return s.VerifySegment(ctx, id, opt)
}
