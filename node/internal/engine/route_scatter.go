package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// fanOut is one query to several sources at the same time.
type fanOut[T any] struct {
	kind    callKind
	asked   request.Options
	permits chan struct{} // held while a store of this node is read
	began   time.Time

	answers []T // by source, like ends and errs
	ends    []wire.End
	errs    []error
}

// askSources calls each for all sources of a box and waits for them. The first error cancels the
// others and is returned, ErrLimitReached too, unless partial answers are allowed.
//
// Returns: the answers so far, also with an error.
func askSources[T any](
	ctx context.Context, e *Engine, options request.Options, kind callKind, box *record.Box,
	each func(ctx context.Context, s source) (T, wire.End, error),
) (*fanOut[T], error) {
	a := &fanOut[T]{kind: kind, asked: options, began: time.Now(),
		permits: make(chan struct{}, runtime.GOMAXPROCS(0))}
	sources, err := e.sources(options, box)
	if err != nil {
		return a, err
	}
	all := make([][]sourceAnswer[T], len(sources))
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if until, ok := ctx.Deadline(); ok && a.asked.AllowPartial {
		reserve := min(time.Until(until)/5, maxReserve)
		timeout := time.AfterFunc(time.Until(until)-reserve, func() { cancel(errSourceTimeout) })
		defer timeout.Stop()
	}
	isReady := func(i int) bool { return isReady(ctx, sources[i]) }
	runConcurrently(len(sources), isReady, func(i int) {
		all[i] = a.askOrOther(running, e, sources[i], each)
		for _, x := range all[i] {
			if x.err != nil && !a.mayOmit(x.err) {
				cancel(x.err)
			}
		}
	})
	var sent []source
	for _, some := range all {
		for _, x := range some {
			a.answers, a.ends = append(a.answers, x.answer), append(a.ends, x.end)
			a.errs, sent = append(a.errs, x.err), append(sent, x.of)
		}
	}
	switch err := context.Cause(running); {
	case errors.Is(err, errSourceTimeout) && ctx.Err() == nil:
		for i, err := range a.errs {
			switch {
			case err == nil || a.mayOmit(err):
			case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
				a.errs[i] = &nodeerror.SourceError{Source: fmt.Sprint(sent[i]),
					Err: errSourceTimeout}
			default:
				return a, err
			}
		}
	case err != nil:
		return a, a.namedTimeout(err, sent)
	}
	for _, err := range a.errs {
		if err == nil {
			return a, nil
		}
	}
	return a, errors.Join(a.errs...) // no source answered
}

// runConcurrently calls f with the numbers below n and returns when all calls have. Calls that are
// ready share one goroutine per processor, one of them the caller's; each of the others has its
// own. The stack of a new goroutine grows during a scan, which takes longer than to read a small
// group.
func runConcurrently(n int, ready func(i int) bool, f func(i int)) {
	var pooled []int
	var wg sync.WaitGroup
	for i := range n {
		switch {
		case ready(i), i == n-1 && pooled == nil: // the caller's goroutine would only wait
			pooled = append(pooled, i)
		default:
			wg.Go(func() { f(i) })
		}
	}
	var next atomic.Int64
	work := func() {
		for k := next.Add(1); k <= int64(len(pooled)); k = next.Add(1) {
			f(pooled[k-1])
		}
	}
	for range min(runtime.GOMAXPROCS(0), len(pooled)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// isReady reports whether a source answers without waiting for other nodes.
func isReady(ctx context.Context, s source) bool {
	l, here := s.(*localSource)
	return here && l.ready(ctx)
}

// maxReserve is how much time before its deadline a partial answer stops waiting for sources.
const maxReserve = time.Second

var errSourceTimeout = fmt.Errorf("it did not answer in time: %w", context.DeadlineExceeded)

// namedTimeout adds to a deadline error the sources that had not answered.
func (a *fanOut[T]) namedTimeout(err error, sent []source) error {
	if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*nodeerror.SourceError)) {
		return err
	}
	var names []string
	for i, s := range sent {
		if a.errs[i] != nil {
			names = append(names, fmt.Sprint(s))
		}
	}
	if len(names) == 0 {
		return err
	}
	return &nodeerror.SourceError{Source: strings.Join(names, "; "), Err: err}
}

// sourceAnswer is the answer of one source.
type sourceAnswer[T any] struct {
	of     source
	answer T
	end    wire.End
	err    error
}

// askOrOther queries one source, or other sources of the same slots when it is another node that
// fails or is slow, or when groups were split.
func (a *fanOut[T]) askOrOther(
	ctx context.Context, e *Engine, s source,
	each func(ctx context.Context, s source) (T, wire.End, error),
) (out []sourceAnswer[T]) {
	delivered := false
	if d, far := s.(*remoteSource); far {
		out, delivered = a.askRemote(ctx, e, d, each)
	} else {
		x := sourceAnswer[T]{of: s}
		x.answer, x.end, x.err = a.askOne(ctx, s, each)
		out, delivered = []sourceAnswer[T]{x}, s.(*localSource).delivered()
	}
	for _, x := range out {
		if x.err == nil || delivered || ctx.Err() != nil {
			continue
		}
		var others []source
		switch l, here := s.(*localSource); {
		case sourceUnavailable(x.err):
			others = e.afterSplit(ctx, a.asked, s, x.err, a.began)
		case here && isDamage(x.err):
			others = e.otherReplica(a.asked, l)
		}
		if others == nil {
			continue
		}
		out = nil // each of the others answers for all of its slots
		for _, o := range others {
			out = append(out, a.askOrOther(ctx, e, o, each)...)
		}
		break
	}
	return out
}

// isDamage reports whether a source's data is damaged: other replicas of its group have it, too.
func isDamage(err error) bool { return nodeerror.ToWire(err).Kind == wire.KindDamaged }

// sourceUnavailable reports whether a node, or one of its groups, is unavailable.
func sourceUnavailable(err error) bool {
	return nodeerror.ToWire(err).Kind == wire.KindUnavailable
}

// askOne queries one source, and names it in errors.
func (a *fanOut[T]) askOne(
	ctx context.Context, s source,
	each func(ctx context.Context, s source) (T, wire.End, error),
) (answer T, end wire.End, err error) {
	if l, here := s.(*localSource); here {
		if err = l.wait(ctx); err == nil {
			select {
			case a.permits <- struct{}{}:
				defer func() { <-a.permits }()
			case <-ctx.Done():
				return answer, end, ctx.Err()
			}
			err = l.checkSlots()
		}
	}
	if err == nil {
		answer, end, err = each(ctx, s)
	}
	if l, here := s.(*localSource); here && err == nil {
		if !l.delivered() {
			err = l.checkSlots() // rows that were split off during the read may be missing
		}
		if err == nil {
			l.raiseSessionAcq(end.HorizonNs)
		}
	}
	if err != nil && ctx.Err() == nil && !errors.As(err, new(*consumerError)) &&
		!errors.Is(err, nodeerror.ErrTooLarge) {
		err = &nodeerror.SourceError{Source: fmt.Sprint(s), Err: err}
	}
	return answer, end, err
}

// consumerError is an error of the consumer of an answer, not the fault of a source.
type consumerError struct{ err error }

func (r *consumerError) Error() string { return r.err.Error() }

// Unwrap returns the consumer's error.
func (r *consumerError) Unwrap() error { return r.err }

func fromConsumer(err error) error {
	if err == nil {
		return nil
	}
	return &consumerError{err}
}

// mayOmit reports whether a partial answer may omit a source that failed with err. Errors of the
// query, of a plugin or of the consumer would be the same anywhere.
func (a *fanOut[T]) mayOmit(err error) bool {
	return a.asked.AllowPartial && isSourceFault(err) && errors.As(err, new(*nodeerror.SourceError))
}

// isSourceFault reports whether an error is the fault of a source rather than of the query.
func isSourceFault(err error) bool {
	switch nodeerror.ToWire(err).Kind {
	case wire.KindUnavailable, wire.KindOverloaded, wire.KindTimeout, wire.KindDamaged,
		wire.KindInternal, wire.KindNotFound:
		return true
	}
	return false
}

// complete returns the answers without errors.
func (a *fanOut[T]) complete() (answers []T) {
	for i, answer := range a.answers {
		if a.errs[i] == nil {
			answers = append(answers, answer)
		}
	}
	return answers
}

// end merges the ends of the sources.
func (a *fanOut[T]) end() wire.End {
	out := wire.End{Complete: true}
	var missing []string
	first := true
	for i, e := range a.ends {
		out.Rows += e.Rows
		out.BlocksScanned += e.BlocksScanned
		out.RowsExamined += e.RowsExamined
		out.HistoryChangedAcqNs = max(out.HistoryChangedAcqNs, e.HistoryChangedAcqNs)
		if err := a.errs[i]; errors.As(err, new(*nodeerror.SourceError)) {
			missing = append(missing, err.Error())
			continue
		} else if err != nil && e.HorizonNs == 0 {
			continue // the limit was reached before it began
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

// rowsOfAll is [source.rows] of all sources. Sources that fail may have delivered rows before.
func (e *Engine) rowsOfAll(
	ctx context.Context, q *prepared, add store.Sink, sorter *spill.Sorter,
) (wire.End, error) {
	q = q.withPluginVersions(nil)
	a, err := askSources(ctx, e, q.options, askRows, &q.Box, func(
		ctx context.Context, s source,
	) (none struct{}, end wire.End, err error) {
		end, err = s.rows(ctx, q, func(b *record.Batch) error {
			if err := beginDelivery(s); err != nil {
				return err
			}
			return fromConsumer(add(b))
		}, sorter)
		return none, end, err
	})
	end := a.end()
	if errors.Is(err, ErrLimitReached) { // any rows will do: none is missed of a failed source
		end.Complete, end.Reason = true, ""
	}
	return end, err
}

func (e *Engine) countOfAll(ctx context.Context, q *prepared) (wire.End, error) {
	q = q.withPluginVersions(nil)
	a, err := askSources(ctx, e, q.options, askCount, &q.Box, func(
		ctx context.Context, s source,
	) (rows uint64, end wire.End, err error) {
		end, err = s.count(ctx, q)
		return end.Rows, end, err
	})
	end := a.end()
	end.Rows = 0
	for _, rows := range a.complete() {
		end.Rows += rows
	}
	return end, err
}
