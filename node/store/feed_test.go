package store

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// feedOf returns a feed that ends with the test.
func feedOf(t testing.TB, s *Store, box record.Box, fromNs int64) *Feed {
	t.Helper()
	f, err := s.Feed(box, false, fromNs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// readFeed reads up to the horizon and checks that slices join and are in order.
func readFeed(t testing.TB, f *Feed, divisor int) (rows []modelRow, events []event.Event) {
	t.Helper()
	slice := Slice{Divisor: divisor}
	for more := true; more; {
		at := f.NextNs()
		var err error
		if more, err = f.Read(t.Context(), &slice); err != nil {
			t.Fatal(err)
		}
		if slice.FromNs != at || slice.ClosedNs < at || slice.ClosedNs != f.NextNs() {
			t.Fatalf("a slice of [%d, %d) at %d, next %d", slice.FromNs, slice.ClosedNs, at,
				f.NextNs())
		}
		if err := slice.Rows.CheckShape(); err != nil {
			t.Fatal(err)
		}
		last := at
		for i := range slice.Rows.Len() {
			r := modelRowOf(&slice.Rows, i)
			if r.key.AcqNs < last || r.key.AcqNs >= slice.ClosedNs && !slice.IsOpen() {
				t.Fatalf("acq %d after %d in a slice up to %d", r.key.AcqNs, last, slice.ClosedNs)
			}
			last = r.key.AcqNs
			rows = append(rows, r)
		}
		for _, e := range slice.Events {
			if e.AcqNs < at || e.AcqNs >= slice.ClosedNs {
				t.Fatalf("event %d in a slice of [%d, %d)", e.AcqNs, at, slice.ClosedNs)
			}
		}
		events = append(events, slice.Events...)
	}
	return rows, events
}

// changes is what a feed gives, done stupidly.
func (m *model) changes(box *record.Box, fromNs int64) (rows []modelRow, events []event.Event) {
	for _, r := range m.query(&record.Query{Box: *box}) {
		if r.key.AcqNs >= fromNs {
			rows = append(rows, r)
		}
	}
	sortByAcq(rows)
	for _, e := range m.events {
		if e.AcqNs >= fromNs && e.Box.Overlaps(box) {
			events = append(events, e)
		}
	}
	return rows, events
}

func testFeedModel(t *testing.T, sh shape, opt Options) {
	rng := randomSource(t)
	opt.Dir = t.TempDir()
	opt.Now, opt.retainEvery = leapingClock(), time.Hour
	s, _, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	m := &model{}
	for step := range 70 {
		switch op := rng.IntN(22); {
		case op < 9:
			b := sh.batch(rng, 1+rng.IntN(400), time.Now().UnixNano())
			m.add(b, splitByShard(b, len(s.shards)), mustPut(t, s, b, WriterSeq{}))
		case op < 16:
			q := sh.query(rng, m)
			q.Box[record.Acq] = nil
			from := int64(0)
			if len(m.rows) > 0 && rng.IntN(4) > 0 {
				from = m.rows[rng.IntN(len(m.rows))].key.AcqNs + rng.Int64N(3) - 1
			}
			checkFeed(t, fmt.Sprintf("step %d: %+v from %d", step, q.Box, from), rng, s, m, q.Box,
				from)
		case op < 17:
			if err := s.WaitForMerges(t.Context()); err != nil {
				t.Fatal(err)
			}
		case op < 18:
			s = crashAndReopen(t, s, &opt)
		case op < 19:
			sh.erase(t, rng, s, m)
		case op < 21:
			sh.putBelow(t, rng, s, m)
		default:
			sh.purge(t, rng, s, m)
		}
	}
	checkFeed(t, "everything", rng, s, m, record.Box{}, 0)
}

func sortByAcq(rows []modelRow) {
	slices.SortFunc(rows, func(a, b modelRow) int {
		return cmp.Or(cmp.Compare(a.key.AcqNs, b.key.AcqNs), a.key.Compare(b.key))
	})
}

// checkFeed holds a feed, with slices of a random size at first, against the model.
func checkFeed(
	t *testing.T, what string, rng *rand.Rand, s *Store, m *model, box record.Box, fromNs int64,
) {
	t.Helper()
	f := feedOf(t, s, box, fromNs)
	f.span = 1 + rng.IntN(300)
	rows, events := readFeed(t, f, rng.IntN(2*MaxDivisor))
	f.Close()
	wantRows, wantEvents := m.changes(&box, fromNs)
	if !slices.IsSortedFunc(rows, func(a, b modelRow) int {
		return cmp.Compare(a.key.AcqNs, b.key.AcqNs)
	}) {
		t.Fatalf("%s: rows are out of order", what)
	}
	sortByAcq(rows) // those with the same come in no order
	if !slices.Equal(rows, wantRows) {
		t.Fatalf("%s: %d rows, want %d", what, len(rows), len(wantRows))
	}
	same := slices.EqualFunc(events, wantEvents, func(a, b event.Event) bool {
		return a.AcqNs == b.AcqNs && a.Kind == b.Kind
	})
	if !same {
		t.Fatalf("%s: events %+v, want %+v", what, events, wantEvents)
	}
}

// TestFeedModel holds feeds from random moments on against a slice of everything.
func TestFeedModel(t *testing.T) {
	rounds.NotUnderRace(t, "a model in one goroutine")
	testFeedModel(t, shape{cids: 2, mids: 5, moids: 2, caps: 20}, Options{Shards: 4, SealRows: 900})
	testFeedModel(t, shape{cids: 9, mids: 500, moids: 3, caps: 900, varied: true},
		Options{Shards: 2, SealRows: 1500, Index: index.Options{BlockRows: 64}})
}

// Payloads that fill a slice end it, down to one row a slice.
func TestFeedOfLargePayloads(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine puts and reads")
	s := openTest(t, Options{})
	b := &record.Batch{}
	for i := range 5 {
		b.Append(record.Key{MID: int64(i)}, make([]byte, sliceBytes/2+i))
	}
	mustPut(t, s, b.Head(3), WriterSeq{})
	mustPut(t, s, batchOf(record.Key{MID: 9}), WriterSeq{})
	f := feedOf(t, s, record.Box{}, 0)
	var slice Slice
	total, most := 0, 0
	for more := true; more; {
		var err error
		if more, err = f.Read(t.Context(), &slice); err != nil {
			t.Fatal(err)
		}
		total, most = total+slice.Rows.Len(), max(most, len(slice.Rows.Data))
	}
	if total != 4 || most > 3*sliceBytes/2 {
		t.Fatalf("%d rows, up to %d bytes at once", total, most)
	}
}

func TestFeedRefuses(t *testing.T) {
	s := openTest(t, Options{})
	var box record.Box
	box[record.Acq] = record.RangeSet{{From: 1, To: 2}}
	if _, err := s.Feed(box, false, 0); !errors.As(err, new(*record.InvalidError)) {
		t.Errorf("a box with acq: %v", err)
	}
	horizon, err := s.ExtendHorizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := feedOf(t, s, record.Box{}, horizon+int64(time.Hour))
	if _, err := f.Read(t.Context(), new(Slice)); !errors.Is(err, ErrAhead) {
		t.Errorf("a position in the future: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f = feedOf(t, s, record.Box{}, 0)
	if _, err := f.Read(t.Context(), new(Slice)); !errors.Is(err, ErrClosed) {
		t.Errorf("read of a closed store: %v", err)
	}
	if err := f.Wait(t.Context(), time.Minute); !errors.Is(err, ErrClosed) {
		t.Errorf("wait for a closed store: %v", err)
	}
}

// A feed is woken by what comes to its box, and not by what comes elsewhere.
func TestFeedWakes(t *testing.T) {
	s := openTest(t, Options{})
	device := func(mid int64) (box record.Box) {
		box[record.MID] = record.RangeSet{record.At(mid)}
		return box
	}
	f, other := feedOf(t, s, device(7), 0), feedOf(t, s, device(8), 0)
	readFeed(t, f, 0)
	for i := range int64(3) {
		mustPut(t, s, batchOf(record.Key{MID: 7, CapNs: i}), WriterSeq{})
		if err := f.Wait(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if rows, _ := readFeed(t, f, 0); len(rows) != 1 || rows[0].key.CapNs != i {
			t.Fatalf("woken by row %d: %+v", i, rows)
		}
	}
	if len(other.waiter.Woken) != 0 {
		t.Error("a feed was woken by rows of another device")
	}
	if _, err := s.Erase(t.Context(), device(7)); err != nil {
		t.Fatal(err)
	}
	if err := f.Wait(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, events := readFeed(t, f, 0); len(events) != 1 || events[0].Kind != event.Erase {
		t.Fatalf("events %+v", events)
	}
}

// Slices pass over more rows where few of them lie in the box, over fewer where many do, and over
// fewer where that takes long.
func TestFeedAdapts(t *testing.T) {
	s := openTest(t, Options{})
	f := feedOf(t, s, record.Box{}, 0)
	f.span = 1000
	step := func(rows, passed, divisor int, took time.Duration, want int) {
		t.Helper()
		var out Slice
		for i := range rows {
			out.Rows.AppendStamped(record.Key{MID: int64(i), AcqNs: int64(i)}, nil)
		}
		f.adaptSpan(&out, passed, divisor, took)
		if f.span != want {
			t.Errorf("%d rows of %d: the span is %d, want %d", rows, passed, f.span, want)
		}
	}
	step(10, 1000, 1, 0, 2000)
	step(10, 999, 1, 0, 2000) // the horizon ended it
	step(10, 2000, 1, slowSlice+1, 1000)
	step(leastRows/2+1, 1000, MaxDivisor, 0, 1000)
	step(leastRows/2, 1000, MaxDivisor, 0, 2000)
	f.span = 1
	step(1, 1, 1, slowSlice+1, 1)
	f.span = maxSpan
	step(0, maxSpan, 1, 0, maxSpan)
}

// Each step of a retention comes to who follows; who comes later sees the present one, which does
// what those before it did.
func TestFeedOfRetentions(t *testing.T) {
	clock := leapingClock()
	s := openTest(t, Options{Now: clock, retainEvery: time.Hour})
	f := feedOf(t, s, record.Box{}, 0)
	cid, last := int32(1), int64(0)
	for step := range 3 {
		age := int64(time.Hour) * int64(10-step)
		if err := s.SetRetention(t.Context(),
			retention.Rule{CID: &cid, MaxCapAgeNs: age}); err != nil {
			t.Fatal(err)
		}
		if err := f.Wait(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		_, events := readFeed(t, f, 0)
		if len(events) != 1 || events[0].Kind != event.Retention || events[0].AcqNs <= last {
			t.Fatalf("step %d: %+v", step, events)
		}
		last = events[0].AcqNs
	}
	_, events := readFeed(t, feedOf(t, s, record.Box{}, 0), 0)
	if len(events) != 1 || events[0].AcqNs != last {
		t.Fatalf("later: %+v, want the step of %d", events, last)
	}
}
