package store

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// answered is a query and what it was answered, to be checked when all rows are known.
type answered struct {
	query   record.Query
	horizon int64
	rows    []modelRow
	count   uint64 // of a count a moment later, at another horizon
	below   int64
}

// Queries of all views run beside puts and seals: each answer is that of a model at the horizon
// that it names.
func TestViewsDuringSeals(t *testing.T) {
	for _, opt := range []Options{
		{Shards: 2, SealRows: 400, Index: index.Options{BlockRows: 64}},
		{Shards: 4, SealRows: 3000, HeadBytes: 1 << 20},
	} {
		testBesideSeals(t, opt)
	}
}

func testBesideSeals(t *testing.T, opt Options) {
	s := openTest(t, opt)
	sh := shape{cids: 2, mids: 30, moids: 2, caps: 60, varied: true}
	m := &model{}
	batches := 60
	if testing.Short() {
		batches = 20
	}
	var mu sync.Mutex // guards m
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		rng := randomSource(t)
		writers.Go(func() {
			for range batches {
				b := sh.batch(rng, 1+rng.IntN(200), time.Now().UnixNano())
				res, err := s.Put(t.Context(), b, WriterSeq{})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				m.add(b, splitByShard(b, len(s.shards)), res)
				mu.Unlock()
			}
		})
	}
	writers.Go(func() {
		for range 10 {
			if err := s.Seal(t.Context()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	answers := make([][]answered, 2)
	for i := range answers {
		rng := randomSource(t)
		readers.Go(func() {
			for range 120 {
				select {
				case <-stop:
					return
				default:
				}
				mu.Lock()
				q := sh.query(rng, m)
				mu.Unlock()
				answers[i] = append(answers[i], ask(t, s, q))
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	all := slices.Concat(answers...)
	t.Logf("%d answers over %d rows", len(all), len(m.rows))
	for _, a := range all {
		what := fmt.Sprintf("%+v at %d", a.query, a.horizon)
		compare(t, what, a.rows, m.before(a.horizon).query(&a.query))
		if want := len(m.before(a.below).query(&a.query)); int(a.count) != want {
			t.Fatalf("%+v at %d: count %d, want %d", a.query, a.below, a.count, want)
		}
	}
}

// before returns the model as it was at a horizon.
func (m *model) before(horizon int64) *model {
	var old model
	for _, r := range m.rows {
		if r.key.AcqNs < horizon {
			old.rows = append(old.rows, r)
		}
	}
	return &old
}

func ask(t *testing.T, s *Store, q *record.Query) answered {
	a := answered{query: *q}
	var mu sync.Mutex
	stats, err := s.Scan(t.Context(), q, func(int) (Sink, error) {
		return func(b *record.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			for i := range b.Len() {
				a.rows = append(a.rows, modelRowOf(b, i))
			}
			return nil
		}, nil
	})
	if err != nil {
		t.Error(err)
	}
	sortRows(a.rows)
	a.horizon = stats.HorizonNs
	count, stats, err := s.Count(t.Context(), q)
	if err != nil {
		t.Error(err)
	}
	a.count, a.below = count, stats.HorizonNs
	return a
}
