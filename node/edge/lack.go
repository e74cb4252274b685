package edge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// maxSteps is how many removals the outbox knows each by itself: with steps of a quarter of the
// time that records are kept, those of twice that time.
const maxSteps = 8

// step is a removal of records that were shipped, from where the one before ended.
type step struct {
	ToNs    int64 `json:"to_ns"`
	Records int64 `json:"records"`
}

// withStep returns the steps with another one. Of more than maxSteps the oldest two are one.
func withStep(steps []step, s step) []step {
	all := append(append([]step(nil), steps...), s)
	if len(all) > maxSteps {
		all[1].Records += all[0].Records
		all = all[1:]
	}
	return all
}

// lack is what upstream had taken and has lost: what this edge took between two acqs.
type lack struct {
	TimeNs int64 `json:"time_ns"` // when that was noticed
	FromNs int64 `json:"from_ns"`
	ToNs   int64 `json:"to_ns"`
	Here   int64 `json:"here"` // records that are here yet, and are sent again
	// Gone is how many at most were removed here after they were shipped, all below GoneNs; both
	// are 0 if none was.
	Gone   int64 `json:"gone,omitempty"`
	GoneNs int64 `json:"gone_ns,omitempty"`
}

// String says what is lost, and what becomes of it.
func (l *lack) String() string {
	from := "the beginning"
	if l.FromNs != math.MinInt64 {
		from = record.FormatNs(l.FromNs)
	}
	text := fmt.Sprintf("upstream has lost what it had taken of what came here from %s to %s, as "+
		"after its directory was put back from an older copy: %d records are here yet and are "+
		"sent again", from, record.FormatNs(l.ToNs), l.Here)
	if l.Gone > 0 {
		text += fmt.Sprintf("; up to %d that came before %s were removed here when they were "+
			"shipped, and are lost", l.Gone, record.FormatNs(l.GoneNs))
	}
	return text
}

// placeOf returns where the next batch begins when upstream has the one with a number.
func placeOf(newest uint64) int64 {
	if newest == 0 {
		return math.MinInt64
	}
	return int64(newest)
}

// lackOf returns what upstream has lost if its newest batch is this one, but for what is here yet:
// all that was ever sent from there on. The batch that is in progress counts if it may have been
// taken: when its answer was not heard, or not noted before the edge was killed.
func (s *state) lackOf(newest uint64, maybeSent bool) *lack {
	l := &lack{TimeNs: time.Now().UnixNano(), FromNs: placeOf(newest), ToNs: s.SentNs}
	if s.InFlight != nil && !s.InFlight.Again && !maybeSent {
		l.ToNs = s.InFlight.FromNs
	}
	for _, f := range s.Forgot {
		if f.ToNs > l.FromNs {
			l.Gone, l.GoneNs = l.Gone+f.Records, f.ToNs
		}
	}
	return l
}

// hasSent reports whether a batch that ends there may be of this edge as it is: one that is sent
// for the first time now is not in upstream.
func (e *Edge) hasSent(newest uint64) bool {
	s := e.outbox.now()
	sent := s.SentNs
	if s.InFlight != nil && !s.InFlight.Again {
		sent = s.InFlight.FromNs
	}
	return newest == 0 || sent > 0 && newest <= uint64(sent)
}

// goTo makes the next batch follow the newest one that upstream has: all up to there is in
// upstream, as each batch was taken behind the one before it alone. Upstream has less than it had
// when it was put back from an older copy, and more when that is undone.
//
// Errors: errMoved when that is done.
func (e *Edge) goTo(ctx context.Context, addr string, newest uint64) error {
	e.moving.Lock()
	defer e.moving.Unlock()
	if err := e.settle(ctx); err != nil {
		return err
	}
	s := e.outbox.now()
	var lost *lack
	if newest < s.Seq {
		lost = s.lackOf(newest, e.maybeSent)
		q := everything()
		q.Box[record.Acq] = record.RangeSet{{From: lost.FromNs, To: lost.ToNs}}
		n, _, err := e.Count(ctx, q)
		if err != nil {
			return fmt.Errorf("count what upstream has lost: %w", err)
		}
		lost.Here = int64(n)
	}
	err := e.outbox.change(false, func(s *state) error {
		s.Seq, s.NextNs, s.InFlight = newest, placeOf(newest), nil
		if lost != nil {
			s.Lack = lost
			s.Lacks++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if s.InFlight != nil && !s.InFlight.Again {
		e.meter.free(s.InFlight.Bytes)
	}
	if lost != nil {
		e.lacked.Store(true)
		e.log.Warn("upstream has lost records that it had taken; they are sent again", "peer",
			addr, "count", lost.Here, "err", lost.String())
	}
	return errMoved
}

// askEvery is how often upstream is asked whether it has what it had taken, while nothing is sent.
const askEvery = time.Minute

// ask asks whether upstream has the newest batch that it had taken, unless it was asked just now.
// If that cannot be asked, nothing is sent either, and the next batch tells.
//
// Errors: errMoved, as with goTo.
func (e *Edge) ask(ctx context.Context) error {
	s := e.outbox.now()
	addr, to := e.up.pick()
	if s.Seq == 0 || to == nil || time.Since(e.asked) < e.opt.askEvery {
		return nil
	}
	e.asked = time.Now()
	once, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	var remote *wire.Error
	if errors.As(to.Follows(once, e.outbox.writer, s.Seq), &remote) {
		if newest, gap := remote.Newest(); gap && e.hasSent(newest) {
			return e.goTo(ctx, addr, newest)
		}
	}
	return nil
}

// caughtUp notes that all below an acq is shipped: nothing is sent again any more.
func (e *Edge) caughtUp(closedNs int64) error {
	if s := e.outbox.now(); s.NextNs >= s.SentNs || closedNs < s.SentNs {
		return nil
	}
	return e.outbox.change(true, func(s *state) error {
		if s.InFlight == nil && closedNs >= s.SentNs {
			s.NextNs = max(s.NextNs, s.SentNs)
		}
		return nil
	})
}
