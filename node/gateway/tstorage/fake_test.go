package tstorage

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// fake is a database in memory that fails as it is told.
type fake struct {
	mu      sync.Mutex
	records []record.Record // guarded by mu
	puts    int             // guarded by mu
	acq     int64           // the last that was given; guarded by mu

	onPut   func() error            // before a put; guarded by mu
	onQuery func(records int) error // after this many records were emitted; guarded by mu

	block func(ctx context.Context) error // before a put or query
}

// kinded is an error of the fake with the kind that it has.
type kinded wire.Kind

// Error implements error.
func (k kinded) Error() string { return wire.Kind(k).String() }

// Kind implements Database.
func (f *fake) Kind(err error) wire.Kind {
	var k kinded
	if errors.As(err, &k) {
		return wire.Kind(k)
	}
	return wire.KindInternal
}

// HorizonPast implements Database.
func (f *fake) HorizonPast(_ context.Context, _ *record.Box, afterNs int64) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acq = max(f.acq+1, afterNs, time.Now().UnixNano())
	return f.acq + 1, nil
}

// Put implements Database.
func (f *fake) Put(
	ctx context.Context, b *record.Batch, _ store.WriterSeq,
) (store.PutResult, error) {
	if f.block != nil {
		if err := f.block(ctx); err != nil {
			return store.PutResult{}, err
		}
	}
	if err := b.Validate(); err != nil {
		return store.PutResult{}, kinded(wire.KindInvalid)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.puts++
	if f.onPut != nil {
		if err := f.onPut(); err != nil {
			return store.PutResult{}, err
		}
	}
	first := f.acq + 1
	for i := range b.Len() {
		r := b.Record(i)
		r.Payload = append([]byte(nil), r.Payload...)
		f.acq++
		r.AcqNs = f.acq
		f.records = append(f.records, r)
	}
	return store.PutResult{FirstAcqNs: first, LastAcqNs: f.acq, Records: b.Len()}, nil
}

// CheckStamped implements Database.
func (f *fake) CheckStamped(_ context.Context, b *record.Batch, _ bool) (int, error) {
	if b.Validate() != nil {
		return 0, kinded(wire.KindInvalid)
	}
	return 0, nil
}

// ByAcq implements Database.
func (f *fake) ByAcq() *spill.Sorter {
	return spill.New(os.TempDir(), 1<<30).Sorter(func(a, b record.Key) int { // needs no files
		return cmp.Compare(a.AcqNs, b.AcqNs)
	}, 0)
}

// PutStamped implements Database.
func (f *fake) PutStamped(_ context.Context, b *record.Batch) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.Validate() != nil || b.AcqNs[0] <= f.acq {
		return f.acq + 1, kinded(wire.KindInvalid)
	}
	for i := range b.Len() {
		r := b.Record(i)
		r.Payload = append([]byte(nil), r.Payload...)
		f.records = append(f.records, r)
		f.acq = r.AcqNs
	}
	return f.acq + 1, nil
}

// PutBackdated implements Database.
func (f *fake) PutBackdated(
	_ context.Context, b *record.Batch,
) (res store.PutBackdatedResult, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.Validate() != nil || slices.Max(b.AcqNs) > f.acq {
		return res, kinded(wire.KindInvalid)
	}
	for i := range b.Len() {
		r := b.Record(i)
		r.Payload = append([]byte(nil), r.Payload...)
		f.records = append(f.records, r)
	}
	return store.PutBackdatedResult{Stored: b.Len()}, nil
}

// QueryBelow implements Database.
func (f *fake) QueryBelow(
	ctx context.Context, q *record.Query, belowNs int64, emit func(b *record.Batch) error,
) (wire.End, error) {
	if f.block != nil {
		if err := f.block(ctx); err != nil {
			return wire.End{}, err
		}
	}
	f.mu.Lock()
	records, horizon, onQuery := f.records, f.acq+1, f.onQuery
	f.mu.Unlock()
	if err := q.Normalize(); err != nil {
		return wire.End{}, err
	}
	for i := 0; ; i++ {
		if onQuery != nil {
			if err := onQuery(i); err != nil {
				return wire.End{}, err
			}
		}
		if i == len(records) {
			return wire.End{Complete: true, HorizonNs: horizon}, nil
		}
		var b record.Batch
		if r := records[i]; r.AcqNs < belowNs && q.Box.Contains(r.Key) {
			b.AppendStamped(r.Key, r.Payload)
			if err := emit(&b); err != nil {
				return wire.End{}, err
			}
		}
	}
}

// fail makes puts and queries call these, or not if they are nil.
func (f *fake) fail(onPut func() error, onQuery func(records int) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onPut, f.onQuery = onPut, onQuery
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.records)
}
