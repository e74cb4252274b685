package node

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// asking is a question that is asked of several sources at the same time.
type asking[T any] struct {
	kind    question
	partial bool          // sources that cannot be asked are left out
	lanes   chan struct{} // a place is taken while a store of this node works
	began   time.Time

	answers []T // by source, as ends and errs
	ends    []wire.End
	errs    []error
}

// ask asks all sources of a box and waits for them. The first that fails makes the others end,
// unless the context allows partial answers; so does an errEnough of each, which is returned.
//
// Returns: what there is, also with an error.
func ask[T any](
	ctx context.Context, n *Node, kind question, box *record.Box,
	each func(ctx context.Context, s source) (T, wire.End, error),
) (*asking[T], error) {
	a := &asking[T]{kind: kind, partial: scopeOf(ctx).partial, began: time.Now(),
		lanes: make(chan struct{}, runtime.GOMAXPROCS(0))}
	sources, err := n.sources(ctx, box)
	if err != nil {
		return a, err
	}
	all := make([][]said[T], len(sources))
	running, cancel := context.WithCancelCause(besideOthers(ctx, sources))
	defer cancel(nil)
	if until, ok := ctx.Deadline(); ok && a.partial {
		reserve := min(time.Until(until)/5, mostReserve)
		silence := time.AfterFunc(time.Until(until)-reserve, func() { cancel(errSilent) })
		defer silence.Stop()
	}
	inTurns(len(sources), func(i int) bool { return ready(ctx, sources[i]) }, func(i int) {
		all[i] = a.oneOr(running, n, sources[i], each)
		for _, x := range all[i] {
			if x.err != nil && !a.mayLack(x.err) {
				cancel(x.err)
			}
		}
	})
	var asked []source
	for _, some := range all {
		for _, x := range some {
			a.answers, a.ends = append(a.answers, x.answer), append(a.ends, x.end)
			a.errs, asked = append(a.errs, x.err), append(asked, x.of)
		}
	}
	switch err := context.Cause(running); {
	case errors.Is(err, errSilent) && ctx.Err() == nil:
		for i, err := range a.errs {
			switch {
			case err == nil || a.mayLack(err):
			case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
				a.errs[i] = &SourceError{Source: fmt.Sprint(asked[i]), Err: errSilent}
			default:
				return a, err
			}
		}
	case err != nil:
		return a, a.late(err, asked)
	}
	for _, err := range a.errs {
		if err == nil {
			return a, nil
		}
	}
	return a, errors.Join(a.errs...) // nobody answered
}

// inTurns calls f with the numbers below n and returns when all calls have: those that are ready
// take turns on as many goroutines as there are processors, one of them the caller's, and each of
// the others has one of its own. A goroutine that scans has to grow its stack first, which takes
// longer than a small group.
func inTurns(n int, ready func(i int) bool, f func(i int)) {
	var turns []int
	var wg sync.WaitGroup
	for i := range n {
		switch {
		case ready(i), i == n-1 && turns == nil: // who waits may as well ask
			turns = append(turns, i)
		default:
			wg.Go(func() { f(i) })
		}
	}
	var next atomic.Int64
	work := func() {
		for k := next.Add(1); k <= int64(len(turns)); k = next.Add(1) {
			f(turns[k-1])
		}
	}
	for range min(runtime.GOMAXPROCS(0), len(turns)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// ready reports whether a source would not wait for anybody.
func ready(ctx context.Context, s source) bool {
	l, here := s.(*local)
	return here && l.ready(ctx)
}

// besideOthers lets the sources of this node share its processors.
func besideOthers(ctx context.Context, sources []source) context.Context {
	here := 0
	for _, s := range sources {
		if _, ok := s.(*local); ok {
			here++
		}
	}
	if here < 2 {
		return ctx
	}
	return store.Beside(ctx, here)
}

// mostReserve is how much of the time of an answer in part is kept for what follows its sources.
const mostReserve = time.Second

var errSilent = fmt.Errorf("it did not answer in time: %w", context.DeadlineExceeded)

// late names those who had not answered where the time was over before.
func (a *asking[T]) late(err error, asked []source) error {
	if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*SourceError)) {
		return err
	}
	var names []string
	for i, s := range asked {
		if a.errs[i] != nil {
			names = append(names, fmt.Sprint(s))
		}
	}
	if len(names) == 0 {
		return err
	}
	return &SourceError{Source: strings.Join(names, "; "), Err: err}
}

// said is what one source answered.
type said[T any] struct {
	of     source
	answer T
	end    wire.End
	err    error
}

// oneOr asks one source, or those that hold the same when another node fails or is silent, or when
// groups were split.
func (a *asking[T]) oneOr(
	ctx context.Context, n *Node, s source,
	each func(ctx context.Context, s source) (T, wire.End, error),
) (out []said[T]) {
	handed := false
	if d, far := s.(*distant); far {
		out, handed = a.far(ctx, n, d, each)
	} else {
		x := said[T]{of: s}
		x.answer, x.end, x.err = a.one(ctx, s, each)
		out, handed = []said[T]{x}, s.(*local).handed()
	}
	for _, x := range out {
		if x.err == nil || handed || ctx.Err() != nil {
			continue
		}
		var others []source
		switch l, here := s.(*local); {
		case away(x.err):
			others = n.afterSplit(ctx, s, x.err, a.began)
		case here && isDamage(x.err):
			others = n.otherReplica(ctx, l)
		}
		if others == nil {
			continue
		}
		out = nil // each of them is asked for its whole part
		for _, o := range others {
			out = append(out, a.oneOr(ctx, n, o, each)...)
		}
		break
	}
	return out
}

// isDamage reports whether an error says that what a source reads is damaged: other replicas of its
// group have the same.
func isDamage(err error) bool { return toWire(err).Kind == wire.KindDamaged }

// away reports whether an error says that a node cannot be asked, or not for its groups.
func away(err error) bool {
	return toWire(err).Kind == wire.KindUnavailable
}

// one asks one source, and names it in an error.
func (a *asking[T]) one(
	ctx context.Context, s source,
	each func(ctx context.Context, s source) (T, wire.End, error),
) (answer T, end wire.End, err error) {
	if l, here := s.(*local); here {
		if err = l.wait(ctx); err == nil {
			select {
			case a.lanes <- struct{}{}:
				defer func() { <-a.lanes }()
			case <-ctx.Done():
				return answer, end, ctx.Err()
			}
			err = l.holds()
		}
	}
	if err == nil {
		answer, end, err = each(ctx, s)
	}
	if l, here := s.(*local); here && err == nil {
		if !l.handed() {
			err = l.holds() // what was split off meanwhile may be missing
		}
		if err == nil {
			l.shown(end.HorizonNs)
		}
	}
	if err != nil && ctx.Err() == nil && !errors.As(err, new(*refusal)) &&
		!errors.Is(err, errTooLarge) {
		err = &SourceError{Source: fmt.Sprint(s), Err: err}
	}
	return answer, end, err
}

// refusal is an error of who takes an answer, for which no source is to blame.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }

// Unwrap returns what whoever takes the answer returned.
func (r *refusal) Unwrap() error { return r.err }

func refused(err error) error {
	if err == nil {
		return nil
	}
	return &refusal{err}
}

// mayLack reports whether an answer may do without a source that failed so. What is wrong with the
// question, a plugin or the reader of the answer would be wrong anywhere.
func (a *asking[T]) mayLack(err error) bool {
	return a.partial && ofSource(err) && errors.As(err, new(*SourceError))
}

// ofSource reports whether an error says something of a source and not of what it was asked.
func ofSource(err error) bool {
	switch toWire(err).Kind {
	case wire.KindUnavailable, wire.KindOverloaded, wire.KindTimeout, wire.KindDamaged,
		wire.KindInternal, wire.KindNotFound:
		return true
	}
	return false
}

// said returns the answers of those that said all.
func (a *asking[T]) said() (answers []T) {
	for i, answer := range a.answers {
		if a.errs[i] == nil {
			answers = append(answers, answer)
		}
	}
	return answers
}

// end merges the ends of the sources.
func (a *asking[T]) end() wire.End {
	out := wire.End{Complete: true}
	var missing []string
	first := true
	for i, e := range a.ends {
		out.Rows += e.Rows
		out.BlocksScanned += e.BlocksScanned
		out.RowsExamined += e.RowsExamined
		out.PurgedAcqNs = max(out.PurgedAcqNs, e.PurgedAcqNs)
		if err := a.errs[i]; errors.As(err, new(*SourceError)) {
			missing = append(missing, err.Error())
			continue
		} else if err != nil && e.HorizonNs == 0 {
			continue // others had enough before it began
		}
		if first || e.HorizonNs < out.HorizonNs {
			out.HorizonNs, first = e.HorizonNs, false
		}
	}
	if len(missing) > 0 {
		out.Complete, out.Reason = false, strings.Join(missing, "; ")
	}
	out.TookNs = int64(time.Since(a.began))
	return out
}

// rowsOfAll is [source.rows] of all sources. Rows of those that fail later may have come before.
func (n *Node) rowsOfAll(
	ctx context.Context, q *record.Query, add store.Sink, sorter *spill.Sorter,
) (wire.End, error) {
	q, err := n.pinned(ctx, q)
	if err != nil {
		return wire.End{}, err
	}
	a, err := ask(ctx, n, askRows, &q.Box, func(ctx context.Context, s source) (
		none struct{}, end wire.End, err error,
	) {
		end, err = s.rows(ctx, q, func(b *record.Batch) error {
			if err := handOut(s); err != nil {
				return err
			}
			return refused(add(b))
		}, sorter)
		return none, end, err
	})
	return a.end(), err
}

func (n *Node) countOfAll(ctx context.Context, q *record.Query) (wire.End, error) {
	q, err := n.pinned(ctx, q)
	if err != nil {
		return wire.End{}, err
	}
	a, err := ask(ctx, n, askCount, &q.Box, func(ctx context.Context, s source) (
		rows uint64, end wire.End, err error,
	) {
		end, err = s.count(ctx, q)
		return end.Rows, end, err
	})
	end := a.end()
	end.Rows = 0
	for _, rows := range a.said() {
		end.Rows += rows
	}
	return end, err
}

// pinned names the very versions of the plugins of a query that this node means by their names, so
// that all sources run the same.
func (n *Node) pinned(ctx context.Context, q *record.Query) (*record.Query, error) {
	out := *q
	out.Filters = append([]record.PluginCall(nil), q.Filters...)
	pin := func(call *record.PluginCall, kind uint32) error {
		if call.Name == "" || call.Module != nil {
			return nil
		}
		v, err := n.plugins.useCall(ctx, call, kind)
		if err != nil {
			return err
		}
		call.Name = v.ref()
		n.plugins.release(v)
		return nil
	}
	for i := range out.Filters {
		if err := pin(&out.Filters[i], plugin.KindFilter); err != nil {
			return nil, err
		}
	}
	return &out, pin(&out.Aggregate, plugin.KindAggregate)
}
