package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/sdk/record"
)

// rowsIn returns the rows that a store shows, in one order.
func rowsIn(t *testing.T, s *Store) (out []string) {
	t.Helper()
	var mu sync.Mutex
	_, err := s.Scan(t.Context(), &record.Query{}, func(int) (Sink, error) {
		return func(b *record.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			for i := range b.Len() {
				out = append(out, fmt.Sprint(b.Key(i), b.Tomb(i), b.Payload(i)))
			}
			return nil
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// fillForSeed puts batches of a persistent writer, and a row of each below the horizon. It returns
// the last put and its answer.
func fillForSeed(t *testing.T, s *Store) (writer WriterSeq, reply PutResult) {
	t.Helper()
	rng := randomSource(t)
	writer.ID, writer.Persistent = [16]byte{3}, true
	for range 20 {
		b := &record.Batch{}
		for range 1 + rng.IntN(100) {
			b.Append(record.Key{CID: 1, MID: rng.Int64N(100) << 8, CapNs: rng.Int64N(50)}, nil)
		}
		var err error
		writer.Seq++
		if reply, err = s.Put(t.Context(), b, writer); err != nil {
			t.Fatal(err)
		}
		b.AcqNs = nil
		for i := range b.Len() {
			b.AcqNs = append(b.AcqNs, int64(1000+i))
		}
		_, err = s.PutBackdated(t.Context(), b.Head(1))
		if err != nil && !errors.Is(err, ErrOtherPayload) {
			t.Fatal(err)
		}
	}
	return writer, reply
}

// TestSeed parts a store with rows in segments, in the log and below the horizon into the seeds of
// replicas. Together they hold all of it, with their acqs; each is whole, gives no acq that the
// store assigned or leased, knows writers, and keeps its rows alone once it has settled.
func TestSeed(t *testing.T) {
	s := openTest(t, Options{SealRows: 300})
	writer, reply := fillForSeed(t, s)
	if _, err := s.Erase(t.Context(), record.Box{record.MID: {record.At(256)}}); err != nil {
		t.Fatal(err)
	}
	horizon, err := s.ExtendHorizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want, dir := rowsIn(t, s), t.TempDir()
	const groups = 4
	var got []string
	for g := range groups {
		from, to := slots.Span(g, groups)
		keep := slots.Range{From: from, To: to}
		seed, group := filepath.Join(dir, fmt.Sprint(g)), fmt.Sprintf("%032x", g+1)
		next, err := s.Seed(t.Context(), seed, group, keep)
		if err != nil || next <= horizon {
			t.Fatalf("acqs from %d, and %d was leased, %v", next, horizon, err)
		}
		report, err := check.Directory(t.Context(), seed, check.Options{})
		if err != nil || report.Damages > 0 || len(report.Notes) > 0 {
			t.Fatalf("%+v, %v", report, err)
		}
		r := openTest(t, Options{Dir: seed, Group: group})
		if r.Applied() != 1 || r.Durable() != 1 || r.Slots() != (slots.Range{}) {
			t.Errorf("applied %d, durable %d, slots %v", r.Applied(), r.Durable(), r.Slots())
		}
		h, err := r.ExtendHorizon(t.Context())
		known, decideErr := r.writers.FindOrAdmit(writer, next+2*writers.IdleNs)
		if err := errors.Join(err, decideErr); err != nil || h != next || known == nil ||
			known.FirstNs != reply.FirstAcqNs {
			t.Errorf("horizon %d, want %d; the writer is known by %+v, %v", h, next, known, err)
		}
		if events := r.Events(); len(events) != 1 || events[0].Kind != event.Erase {
			t.Errorf("events %+v", events)
		}
		rows := rowsIn(t, r)
		if err := r.WaitForMerges(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := r.Stats(); int(st.Rows) != len(rows) || !slices.Equal(rowsIn(t, r), rows) {
			t.Errorf("%d rows are left on disk, %d are of the group", st.Rows, len(rows))
		}
		got = append(got, rows...)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d rows in all seeds, %d in the store", len(got), len(want))
	}
}

// TestSeedRefuses what no replica can begin with, and leaves nothing.
func TestSeedRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "seed")
	refused := func(s *Store, want error) {
		t.Helper()
		_, err := s.Seed(t.Context(), dir, testGroup, slots.Range{To: slots.Count})
		if _, there := os.Stat(dir); !errors.Is(err, want) || there == nil {
			t.Errorf("%v, want %v", err, want)
		}
	}
	refused(openTest(t, Options{Shards: 2}), ErrShards)
	refused(openTest(t, Options{Group: testGroup}), ErrReplicated)
	copied := openTest(t, Options{})
	if _, err := copied.PutRange(t.Context(), &mirror.Range{Of: "x", ToNs: 10}); err != nil {
		t.Fatal(err)
	}
	refused(copied, ErrIsCopy)
	closed := openTest(t, Options{})
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	refused(closed, ErrClosed)
}
