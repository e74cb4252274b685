package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// ReplayOptions of a Replay.
type ReplayOptions struct {
	Speed        float64 // of the replay's time against cap; 0: everything is due at once
	BatchRecords int     // of one request at most
	BatchBytes   int     // of its payloads at most, but for one that alone is larger
}

// Replay is a [Source] that sends records again with the distances that their caps have. A record
// whose cap is before that of its predecessor has come late, and comes with it.
type Replay struct {
	opt ReplayOptions

	token chan struct{} // holds a token while a worker uses what is below

	next     func() (record.Record, error, bool)
	stop     func()
	ahead    record.Record // read, not sent; its payload is valid until next
	hasAhead bool
	firstNs  int64
	lastNs   int64 // the greatest cap so far
	started  bool
	index    int64
	err      error

	mu  sync.Mutex    // guards due
	due time.Duration // of ahead; -1 when there is none
}

// NewReplay returns a source of the records of a sequence, which ends at the first error. Close
// it.
func NewReplay(records iter.Seq2[record.Record, error], opt ReplayOptions) *Replay {
	r := &Replay{opt: opt, token: make(chan struct{}, 1), due: -1}
	r.next, r.stop = iter.Pull2(records)
	return r
}

// Close ends the sequence and returns its error. No call of Next may be in progress.
func (r *Replay) Close() error {
	r.stop()
	return r.err
}

// Next implements [Source]: it waits until a record is due, and takes with it what else is.
func (r *Replay) Next(ctx context.Context, clock Clock) (Task, bool) {
	select {
	case r.token <- struct{}{}:
		defer func() { <-r.token }()
	case <-ctx.Done():
		return Task{}, false
	}
	if ctx.Err() != nil || !r.read() {
		return Task{}, false
	}
	due := r.dueAt()
	r.setDue(due)
	timed := r.opt.Speed > 0
	early := clock.Elapsed() < due
	if timed && clock.Wait(ctx, due) != nil {
		return Task{}, false
	}
	task := Task{Index: r.index, Timed: timed, DueAt: due, Early: early, Batch: new(record.Batch)}
	r.index++
	now := clock.Elapsed()
	for {
		task.Batch.AppendRecord(r.ahead)
		r.hasAhead = false
		if task.Batch.Len() >= r.opt.BatchRecords || !r.read() {
			break
		}
		r.setDue(r.dueAt())
		if len(task.Batch.Data)+len(r.ahead.Payload) > r.opt.BatchBytes ||
			timed && r.dueAt() > now {
			break
		}
	}
	return task, true
}

// read makes sure that a record is ahead, and reports whether there is one.
func (r *Replay) read() bool {
	if r.hasAhead {
		return true
	}
	if r.err != nil {
		return false
	}
	rec, err, ok := r.next()
	if !ok || err != nil {
		r.err = err
		r.setDue(-1)
		return false
	}
	if !r.started {
		r.started, r.firstNs, r.lastNs = true, rec.CapNs, rec.CapNs
	}
	r.lastNs = max(r.lastNs, rec.CapNs)
	r.ahead, r.hasAhead = rec, true
	return true
}

// dueAt returns when the record ahead is due.
func (r *Replay) dueAt() time.Duration {
	if r.opt.Speed == 0 {
		return 0
	}
	return scaled(r.firstNs, r.lastNs, r.opt.Speed)
}

// scaled returns how long it takes from one cap to a later one at a speed.
func scaled(fromNs, toNs int64, speed float64) time.Duration {
	// Unsigned, for two caps may be further apart than an int64 holds.
	ns := float64(uint64(toNs)-uint64(fromNs)) / speed
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

func (r *Replay) setDue(due time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = due
}

// Lag implements [Source].
func (r *Replay) Lag(elapsed time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due < 0 || r.opt.Speed == 0 {
		return 0
	}
	return max(0, elapsed-r.due)
}

// What Sorted holds in memory at most: about 1.5 GB with all that goes with it.
const (
	maxSortedRecords = 1 << 24
	maxSortedBytes   = 1 << 30
)

// ErrTooMany is the error of Sorted for more than it may hold.
var ErrTooMany = errors.New("too many records to sort in memory")

// Recording is records in order of cap, in memory.
type Recording struct {
	all   *record.Batch
	order []int32 // rows of all
}

// Sorted reads a sequence to its end. Records with the same cap keep their order.
func Sorted(records iter.Seq2[record.Record, error]) (*Recording, error) {
	all := new(record.Batch)
	for rec, err := range records {
		if err != nil {
			return nil, err
		}
		all.AppendRecord(rec)
		if all.Len() > maxSortedRecords || len(all.Data) > maxSortedBytes {
			return nil, fmt.Errorf("%w: at most %d records with %d bytes of payload", ErrTooMany,
				maxSortedRecords, maxSortedBytes)
		}
	}
	order := make([]int32, all.Len())
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Compare(all.CapNs[a], all.CapNs[b])
	})
	return &Recording{all, order}, nil
}

// All yields the records.
func (r *Recording) All() iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for _, i := range r.order {
			if !yield(r.all.Record(int(i)), nil) {
				return
			}
		}
	}
}

// Len returns the number of records.
func (r *Recording) Len() int { return len(r.order) }

// Takes returns how long a replay takes at a speed, which is not 0.
func (r *Recording) Takes(speed float64) time.Duration {
	if len(r.order) == 0 {
		return 0
	}
	return scaled(r.all.CapNs[r.order[0]], r.all.CapNs[r.order[len(r.order)-1]], speed)
}
