package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// putEqual puts rows of which those of different groups have the same acqs, as no one store does.
func (s *spread) putEqual(rng *rand.Rand, rows int) (stored []string) {
	s.Helper()
	parts := make([]record.Batch, len(s.stores))
	first := max(s.last+1, s.clock.Load())
	for range rows {
		k := record.Key{CID: 1, MID: rng.Int64N(3000), CapNs: rng.Int64N(1000)}
		g := slots.OwnerOf(slots.Of(k.CID, k.MID), len(s.stores))
		k.AcqNs = first + int64(parts[g].Len())
		parts[g].AppendStamped(k, f64(1))
		stored = append(stored, fmt.Sprint(k))
		s.last = max(s.last, k.AcqNs)
	}
	// Those who follow get horizons by the clock meanwhile, so it goes from acq to acq.
	for acq := first; acq <= s.last; acq++ {
		s.clock.Store(acq)
		for g := range parts {
			if i := int(acq - first); i < parts[g].Len() {
				var b record.Batch
				b.AppendPicked(&parts[g], []uint32{uint32(i)})
				if _, err := s.stores[g].PutStamped(s.Context(), &b); err != nil {
					s.Fatal(err)
				}
			}
		}
	}
	s.clock.Store(s.last + int64(time.Second))
	return stored
}

// TestChangesOfManySources breaks off wherever it can and goes on from there: each record comes
// once, in the order of acq.
func TestChangesOfManySources(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	s := openSpread(t, 5, 3)
	var want []string
	for range 4 {
		want = append(want, s.putEqual(rng, 700)...)
	}
	near := dial(t, s.near())
	var got []string
	last, at, breaks, equal := int64(0), int64(0), 0, 0
	for more := true; more; {
		more = false
		left := 1 + rng.IntN(200)
		var open []string // of the acq at which the last record is
		ctx, cancel := context.WithCancel(t.Context())
		for b, err := range near.PastChanges(ctx, &record.Query{}, at) {
			if err != nil {
				t.Fatal(err)
			}
			at = b.ClosedNs
			if b.Rows == nil {
				continue
			}
			for i := range b.Rows.Len() {
				k := b.Rows.Key(i)
				if k.AcqNs < last {
					t.Fatalf("acq %d after %d", k.AcqNs, last)
				}
				if k.AcqNs == last {
					equal++
				}
				last, open = k.AcqNs, append(open, fmt.Sprint(k))
				if at = k.AcqNs + 1; i+1 < b.Rows.Len() && b.Rows.AcqNs[i+1] == k.AcqNs {
					at = k.AcqNs // two groups have rows of one acq
				}
				if left--; at > k.AcqNs { // all of this acq is there: it may be kept
					got, open = append(got, open...), nil
				}
				if left <= 0 {
					breaks, more = breaks+1, true
					break
				}
			}
			if more {
				break
			}
		}
		cancel()
		if len(open) > 0 { // not kept, so it must come again
			last--
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || breaks < 5 || equal == 0 {
		t.Fatalf("%d records, want %d, or others; %d breaks, %d equal acqs", len(got), len(want),
			breaks, equal)
	}
}

// TestChangesAreThoseOfOneStore compares rows, filters and events.
func TestChangesAreThoseOfOneStore(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	s := openSpread(t, 4, 3)
	s.fill(rng, 6)
	for range fewer(15) {
		q := &record.Query{KeysOnly: rng.IntN(3) == 0}
		if from := rng.Int64N(3000); rng.IntN(2) == 0 {
			q.Box[record.MID] = record.RangeSet{{From: from, To: from + 1 + rng.Int64N(300)}}
		}
		if rng.IntN(2) == 0 {
			q.Filters = thresholds(t, s.whole, "op=ge,value=100")
		}
		from := s.last - rng.Int64N(int64(30*time.Second))
		want, _ := s.changes(s.whole, q, from)
		got, events := s.changes(s.near(), q, from)
		if !slices.Equal(got, want) {
			t.Fatalf("%s from %d: %d rows, want %d, or others", engine.QueryText(q), from, len(got),
				len(want))
		}
		for _, e := range events {
			if e.Kind != event.Erase || e.ToSlot == 0 {
				t.Errorf("event %+v", e)
			}
		}
	}
	_, events := s.changes(s.near(), &record.Query{}, 0)
	slices.SortFunc(events, func(a, b event.Event) int { return int(a.FromSlot) - int(b.FromSlot) })
	next := uint32(0)
	for _, e := range events { // the erase, once for each group
		if e.FromSlot != next {
			t.Errorf("event %+v, want it from slot %d on", e, next)
		}
		next = e.ToSlot
	}
	if next != slots.Count {
		t.Errorf("events up to slot %d", next)
	}
}

func (s *spread) changes(n *Node, q *record.Query, from int64) (rows []string, all []event.Event) {
	s.Helper()
	asked := *q
	closed, err := n.Changes(s.Context(), &asked, from, false, func(b *store.Slice) error {
		for i := range b.Rows.Len() {
			r := b.Rows.Record(i)
			rows = append(rows, fmt.Sprint(r.Key, r.Tomb, r.Payload))
		}
		all = append(all, b.Events...)
		return nil
	})
	if err != nil || closed <= s.last {
		s.Fatalf("closed %d, last %d, %v", closed, s.last, err)
	}
	return rows, all
}

// TestFollowingManySources: what comes to any source is handed on when all have passed it.
func TestFollowingManySources(t *testing.T) {
	s := openSpread(t, 4, 3)
	rng := rand.New(rand.NewPCG(1, 9))
	near := dial(t, s.near())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	want := s.putEqual(rng, 50)
	var got []string
	stop := errors.New("stop")
	rounds := 0
	err := near.ChangesOnce(ctx, &record.Query{}, 0, true, time.Second,
		func(b client.ChangeBatch) error {
			if b.Rows == nil {
				return nil
			}
			for i := range b.Rows.Len() {
				got = append(got, fmt.Sprint(b.Rows.Key(i)))
			}
			if len(got) < len(want) {
				return nil
			}
			if rounds++; rounds == 3 {
				return stop
			}
			want = append(want, s.putEqual(rng, 50)...)
			return nil
		})
	slices.Sort(got)
	slices.Sort(want)
	if !errors.Is(err, stop) || !slices.Equal(got, want) {
		t.Fatalf("%d records, want %d, or others; %v", len(got), len(want), err)
	}
	// A source that goes away is an error that names it.
	ended := make(chan error)
	begun := make(chan struct{}, 1)
	go func() {
		_, err := s.near().Changes(ctx, &record.Query{}, 0, true, func(*store.Slice) error {
			select {
			case begun <- struct{}{}:
			default:
			}
			return nil
		})
		ended <- err
	}()
	<-begun
	if err := s.nodes[1].Close(ctx); err != nil {
		t.Fatal(err)
	}
	var at *SourceError
	if err := <-ended; !errors.As(err, &at) || at.Source != "node n1, groups [2]" {
		t.Error(err)
	}
}
