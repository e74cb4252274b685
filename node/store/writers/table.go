// Package writers remembers the results of puts, so that a retry gets the first one: deduplication.
//
// It owns the file WRITERS. It does not know rows nor the log: its caller tells it of batches, in
// the order of their acqs. Its main type is [Table], whose methods may be called from many
// goroutines. It starts none.
package writers

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// maxWriters bounds the table; a writer costs about 100 bytes plus 24 per result.
	maxWriters = 1 << 20
	// maxPersistent bounds the persistent ones, beside the others: 56 bytes of the file each, which
	// is written again when log files go, so 7 MB. A new one beyond it is refused, as to forget one
	// that may come back would store its batch twice.
	maxPersistent = 1 << 17
	// IdleNs is how long the results of a silent writer are kept, measured in acq; those of
	// a persistent one are kept for ever.
	IdleNs = int64(7 * 24 * time.Hour)
)

// Seq identifies a batch for exactly-once puts. The zero ID asks for no protection.
type Seq struct {
	ID         [16]byte
	Seq        uint64
	Persistent bool // of the writer
}

// Writer returns whose batch it is.
func (s Seq) Writer() record.Writer { return record.Writer{ID: s.ID, Persistent: s.Persistent} }

// Errors that callers branch on.
var (
	// ErrTooOld means that a batch's sequence lies so far below the newest one of its writer that
	// the store no longer knows whether it was stored.
	ErrTooOld = errors.New("sequence is too old: its result is no longer kept; query whether its " +
		"batch is stored")
	// ErrTooMany means that the table of writers is full.
	ErrTooMany = errors.New("too many writers at once")
	// ErrInFlight means that a batch that is to follow another one came while such a batch of its
	// writer is not answered yet.
	ErrInFlight = errors.New("another batch of the writer is in flight")
)

// GapError means that a put is to follow a batch of its writer that is not the newest one that the
// store knows; nothing was stored. 0 is none: the store does not know the writer.
type GapError struct{ Previous, Newest uint64 }

// Error implements error.
func (e *GapError) Error() string {
	return fmt.Sprintf("nothing is stored: the batch is to follow sequence %d of its writer, and "+
		"the newest one here is %d", e.Previous, e.Newest)
}

type writer struct {
	high    uint64
	results []Result // at most MaxResults, in no order; at most one if persistent
	lastAcq int64
}

// Table remembers the results of puts, so that a retry gets the first one again. R is a
// request that is in flight.
type Table[R any] struct {
	mu         sync.Mutex
	byWriter   map[record.Writer]*writer
	persistent int // of byWriter
	inflight   map[Seq]flight[R]
	// chained are the writers of which a batch is in flight that follows another one.
	chained map[record.Writer]bool
	eldest  int64 // none was silent for longer than since this acq, as of the last sweep
}

// flight is a batch that is not answered yet.
type flight[R any] struct {
	request *R
	chained bool // it is to follow another one
}

// New returns a table that knows no writer.
func New[R any]() *Table[R] {
	return &Table[R]{byWriter: map[record.Writer]*writer{}, inflight: map[Seq]flight[R]{},
		chained: map[record.Writer]bool{}}
}

// Admit decides what a put with this sequence is: already answered (known), in flight (wait for
// the other request), or new, in which case r is registered as in flight. Unless previous is nil,
// that must be the newest sequence of the writer that the table knows, 0 for none.
//
// Errors: ErrTooOld, ErrTooMany, ErrInFlight, *GapError.
func (t *Table[R]) Admit(
	id Seq, previous *uint64, r *R,
) (known *Result, other *R, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o, ok := t.inflight[id]; ok {
		return nil, o.request, nil
	}
	w := t.byWriter[id.Writer()]
	if w != nil {
		known, err = w.find(id)
	}
	if known == nil && previous != nil {
		err = cmp.Or(t.follows(id.Writer(), *previous), err)
	}
	if known != nil || err != nil {
		return known, nil, err
	}
	if w == nil {
		if err := t.checkSpace(id.Persistent, len(t.inflight)); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, t.fly(id, flight[R]{r, previous != nil})
}

// fly registers a request that is in flight from now on; mu is held.
func (t *Table[R]) fly(id Seq, f flight[R]) error {
	if f.chained {
		if t.chained[id.Writer()] {
			return ErrInFlight
		}
		t.chained[id.Writer()] = true
	}
	t.inflight[id] = f
	return nil
}

// land takes a request out of flight; mu is held.
func (t *Table[R]) land(id Seq) {
	if t.inflight[id].chained {
		delete(t.chained, id.Writer())
	}
	delete(t.inflight, id)
}

// Has reports whether the table has the result of a batch.
func (t *Table[R]) Has(id Seq) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.byWriter[id.Writer()]
	if w == nil {
		return false
	}
	known, _ := w.find(id)
	return known != nil
}

// Follows returns nil when a batch with this sequence is the newest one of a writer, or 0 when the
// table does not know it.
//
// Errors: *GapError.
func (t *Table[R]) Follows(of record.Writer, previous uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.follows(of, previous)
}

// follows says why the newest batch of a writer is not the one with a sequence; mu is held.
func (t *Table[R]) follows(of record.Writer, previous uint64) error {
	newest := uint64(0)
	if w := t.byWriter[of]; w != nil {
		newest = w.high
	}
	if newest != previous {
		return &GapError{Previous: previous, Newest: newest}
	}
	return nil
}

// checkSpace says why the table has none for a new writer beside some more; mu is held.
//
// Errors: ErrTooMany.
func (t *Table[R]) checkSpace(persistent bool, more int) error {
	switch {
	case persistent && t.persistent+more >= maxPersistent:
		return fmt.Errorf("%d edges, which are never forgotten: %w; let what is new ship to "+
			"another node or cluster", maxPersistent, ErrTooMany)
	case !persistent && len(t.byWriter)-t.persistent+more >= maxWriters:
		return fmt.Errorf("%d writers in the last %v: %w", maxWriters,
			time.Duration(IdleNs), ErrTooMany)
	}
	return nil
}

// Abandon takes a request that failed out of flight.
func (t *Table[R]) Abandon(id Seq) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.land(id)
}

// Record stores a result, from a commit or from the log.
func (t *Table[R]) Record(id Seq, a Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.land(id)
	w := t.byWriter[id.Writer()]
	if w == nil {
		w = &writer{}
		t.byWriter[id.Writer()] = w
		if id.Persistent {
			t.persistent++
		}
	}
	for i := range w.results {
		if w.results[i].Seq == a.Seq {
			return
		}
	}
	if id.Persistent {
		if a.Seq >= w.high {
			w.high, w.lastAcq, w.results = a.Seq, max(w.lastAcq, a.FirstNs), []Result{a}
		}
		return
	}
	w.high = max(w.high, a.Seq)
	w.lastAcq = max(w.lastAcq, a.FirstNs)
	if len(w.results) < MaxResults {
		w.results = append(w.results, a)
		return
	}
	oldest := 0
	for i := range w.results {
		if w.results[i].Seq < w.results[oldest].Seq {
			oldest = i
		}
	}
	// After a crash the log repeats what was overtaken long ago; that must not drive out others.
	if w.results[oldest].Seq < a.Seq {
		w.results[oldest] = a
	}
}

// Count returns how many writers are known.
func (t *Table[R]) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byWriter)
}

// Expire forgets writers that were silent for IdleNs before now.
func (t *Table[R]) Expire(nowNs int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(nowNs)
}
