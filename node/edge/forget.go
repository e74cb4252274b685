package edge

import (
	"context"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

const forgetEvery = time.Minute

// forgetLoop lets go what was shipped long ago.
func (e *Edge) forgetLoop(ctx context.Context) {
	if e.opt.Keep < 0 {
		return
	}
	for sleep(ctx, min(forgetEvery, e.opt.forgetStep)) == nil {
		if err := e.forget(ctx, time.Now().Add(-e.opt.Keep).UnixNano()); err != nil &&
			ctx.Err() == nil {
			e.log.Error("remove what was shipped", "err", err) // it is tried again
		}
	}
}

// forget removes what upstream has, up to an acq, when that is a step away from what was removed
// before: each removal is an event, of which a store has some thousands.
func (e *Edge) forget(ctx context.Context, toNs int64) error {
	e.moving.Lock() // else it might be found meanwhile that upstream has lost it
	defer e.moving.Unlock()
	s := e.outbox.now()
	toNs = min(toNs, s.ackedNs())
	q := everything()
	q.Box[record.Acq] = record.RangeSet{{From: s.GoneNs, To: toNs}}
	if toNs <= s.GoneNs || uint64(toNs)-uint64(s.GoneNs) < uint64(e.opt.forgetStep) {
		return nil
	}
	n, _, err := e.Count(ctx, q)
	if err != nil || n == 0 {
		return err
	}
	if err := e.outbox.sync(); err != nil { // else what is removed might be looked for
		return err
	}
	if err := e.Forget(ctx, q.Box[record.Acq]); err != nil {
		return err
	}
	return e.outbox.change(false, func(s *state) error {
		s.GoneNs, s.Forgot = toNs, withStep(s.Forgot, step{ToNs: toNs, Records: int64(n)})
		return nil
	})
}
