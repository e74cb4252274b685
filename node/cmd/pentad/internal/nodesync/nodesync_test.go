package nodesync_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/nodesync"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"go.uber.org/goleak"
)

// fasthttp leaves goroutines behind that sleep.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// served is a node that serves, and a client of it.
type served struct {
	*client.Client
	t    testing.TB
	opt  node.Options
	node *node.Node
}

func serve(t testing.TB, opt store.Options) *served {
	t.Helper()
	s := &served{t: t, opt: node.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", Store: opt}}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *served) start() {
	s.t.Helper()
	var err error
	if s.node, err = node.Open(context.Background(), s.opt); err != nil {
		s.t.Fatal(err)
	}
	if s.Client, err = client.Dial(context.Background(), s.node.Addr().String()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *served) stop() {
	_ = s.Client.Close()
	if err := s.node.Close(context.Background()); err != nil {
		s.t.Error(err)
	}
}

func (s *served) restart() {
	s.t.Helper()
	s.stop()
	s.start()
}

// fill puts a batch of random records, versions of one another and tombstones among them.
func (s *served) fill(rng *rand.Rand, rows int) {
	s.t.Helper()
	b := &record.Batch{}
	for range rows {
		k := record.Key{CID: rng.Int32N(2), MID: rng.Int64N(40), MOID: rng.Int32N(3),
			CapNs: time.Now().UnixNano() - rng.Int64N(100)*int64(time.Hour)/50}
		k.CapNs -= k.CapNs % int64(time.Minute)
		if rng.IntN(15) == 0 {
			b.AppendTomb(k)
			continue
		}
		b.Append(k, []byte(strings.Repeat("x", rng.IntN(30))))
	}
	if _, err := s.Put(s.t.Context(), b, [16]byte{}, 0); err != nil {
		s.t.Fatal(err)
	}
}

// change does something to a source.
func (s *served) change(rng *rand.Rand) {
	s.t.Helper()
	box := &wire.Box{}
	from := rng.Int64N(40)
	box.Box[record.MID] = record.RangeSet{{From: from, To: from + 1 + rng.Int64N(5)}}
	var err error
	switch op := rng.IntN(20); {
	case op < 14:
		s.fill(rng, 1+rng.IntN(700))
	case op < 16:
		_, err = s.Erase(s.t.Context(), box)
	case op < 17:
		_, err = s.Purge(s.t.Context(), box)
	case op < 18:
		moid := rng.Int32N(3)
		err = s.SetRetention(s.t.Context(), client.Retention{MOID: &moid,
			MaxCapAgeNs: rng.Int64N(4) * int64(time.Hour)})
		var remote *wire.Error
		if errors.As(err, &remote) && remote.Kind == wire.KindNotFound {
			err = nil
		}
	case op < 19:
		err = s.node.Seal(s.t.Context())
	default:
		s.restart()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *served) rows(q *record.Query) []string {
	s.t.Helper()
	var all []string
	for r, err := range s.Query(s.t.Context(), q) {
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%+v %x %v", r.Key, r.Payload, r.Tomb))
	}
	slices.Sort(all)
	return all
}

// sameViews wants two nodes to answer alike in every view of moments below an acq.
func sameViews(t *testing.T, rng *rand.Rand, from, to *served, untilNs int64) {
	t.Helper()
	below := record.Box{record.Acq: {{From: 0, To: untilNs}}}
	questions := []record.Query{{Box: below}, {View: record.ViewAsOf, AsOfAcqNs: untilNs},
		{View: record.ViewAsOf, AsOfAcqNs: untilNs, Last: 2}}
	var acqs []int64
	for r, err := range from.Query(t.Context(), &questions[0]) {
		if err != nil {
			t.Fatal(err)
		}
		acqs = append(acqs, r.Key.AcqNs)
	}
	for range min(5, len(acqs)) {
		at := acqs[rng.IntN(len(acqs))] + rng.Int64N(2)
		questions = append(questions, record.Query{View: record.ViewAsOf, AsOfAcqNs: at})
	}
	for _, q := range questions {
		here, there := from.rows(&q), to.rows(&q)
		if !slices.Equal(here, there) {
			t.Fatalf("%+v: %d rows at the source, %d in the copy\n%.300s\n%.300s", q, len(here),
				len(there), here, there)
		}
	}
}

// lossy loses requests and answers, and lets things happen between them.
type lossy struct {
	nodesync.Node
	rng     *rand.Rand
	between func()
}

var errLost = errors.New("lost")

func (l *lossy) PutRange(ctx context.Context, r *wire.Range) (int64, error) {
	if l.rng.IntN(15) == 0 {
		return 0, errLost
	}
	h, err := l.Node.PutRange(ctx, r)
	if l.rng.IntN(15) == 0 {
		return 0, errLost
	}
	if l.rng.IntN(10) == 0 {
		l.between()
	}
	return h, err
}

func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 6))
}

// TestCopyModel copies a source that changes, with lost requests, restarts on both sides, and
// purges between reading and putting, and wants the copy to answer like the source.
func TestCopyModel(t *testing.T) {
	rng := seeded(t)
	from := serve(t, store.Options{Shards: 4, SealRows: 900})
	to := serve(t, store.Options{SealRows: 1500})
	for range 6 {
		for range rng.IntN(8) {
			from.change(rng)
		}
		opt := nodesync.Options{SliceRows: 1 + rng.Uint64N(2000),
			SliceBytes: 1 + rng.Uint64N(20_000)}
		var report nodesync.Report
		for done := false; !done; {
			target := &lossy{Node: to.Client, rng: rng, between: func() {
				if rng.IntN(2) == 0 {
					from.fill(rng, 10)
					_, err := from.Purge(t.Context(), &wire.Box{Box: record.Box{
						record.MID: {record.At(rng.Int64N(40))}}})
					if err != nil {
						t.Fatal(err)
					}
				}
			}}
			var err error
			report, err = nodesync.Copy(t.Context(), from, target, opt)
			if done = err == nil; !done && !errors.Is(err, errLost) {
				t.Fatal(err)
			}
			if rng.IntN(3) == 0 {
				to.restart()
			}
		}
		for { // what was purged meanwhile
			next, err := nodesync.Copy(t.Context(), from, to, opt)
			if err != nil || next.Unproved > 0 {
				t.Fatalf("%+v, %v", next, err)
			}
			if report = next; next.Rows == 0 {
				break
			}
		}
		sameViews(t, rng, from, to, report.ToNs)
		got, err := nodesync.Verify(t.Context(), from, to, opt)
		if err != nil || got.ToNs != report.ToNs || got.Purged != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
}

// TestVerifyNames lets a copy differ from its source and wants each difference to be named.
func TestVerifyNames(t *testing.T) {
	rng := seeded(t)
	from, to := serve(t, store.Options{}), serve(t, store.Options{})
	for range 10 {
		from.fill(rng, 2000)
	}
	source, err := from.SyncState(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := &record.Batch{}
	_, err = from.Scan(t.Context(), &record.Query{Order: record.OrderAcq},
		func(b *record.Batch) error { rows.AppendRows(b, 0, b.Len()); return nil })
	if err != nil {
		t.Fatal(err)
	}
	// Everything is put as it is, but for a row that is left out, one that nobody had, and one that
	// is changed.
	bent := &record.Batch{}
	missing, extra, changed := 100+rng.IntN(5000), 6000+rng.IntN(5000), 12000+rng.IntN(5000)
	want := map[nodesync.Difference]bool{}
	for i := range rows.Len() {
		r := rows.Record(i)
		switch i {
		case missing:
			want[nodesync.Difference{What: nodesync.Missing, Key: r.Key}] = true
			continue
		case changed:
			want[nodesync.Difference{What: nodesync.Changed, Key: r.Key}] = true
			bent.AppendStamped(r.Key, append([]byte("y"), r.Payload...))
			continue
		}
		bent.AppendRows(rows, i, i+1)
		last := i+1 == rows.Len() || rows.AcqNs[i+1] > r.Key.AcqNs+1
		if i >= extra && last && len(want) < 3 {
			extra = rows.Len()
			r.Key.AcqNs++
			want[nodesync.Difference{What: nodesync.Extra, Key: r.Key}] = true
			bent.AppendStamped(r.Key, []byte("z"))
		}
	}
	_, err = to.PutRange(t.Context(), &wire.Range{Of: source.Store, ToNs: source.HorizonNs,
		Whole: true, Rows: bent, History: wire.History{Hiding: []wire.Hiding{{AcqNs: 5}}}})
	if err != nil {
		t.Fatal(err)
	}
	want[nodesync.Difference{What: nodesync.NoEvent, Key: record.Key{AcqNs: 5}}] = true
	check := func(purged uint64) {
		t.Helper()
		got, err := nodesync.Verify(t.Context(), from, to, nodesync.Options{})
		if !errors.Is(err, nodesync.ErrDiffers) || len(got.Named) != len(want) ||
			got.Purged != purged {
			t.Fatalf("%+v, %v; want %v, %d purged", got, err, want, purged)
		}
		for _, d := range got.Named {
			if !want[d] {
				t.Errorf("%+v is named, not one of %v", d, want)
			}
		}
	}
	check(0)

	// What the source purges after the copy ends is not named beside that: a third of the rows.
	var purged uint64
	box := &wire.Box{}
	box.Box[record.Acq] = record.RangeSet{{From: 0, To: rows.AcqNs[rows.Len()/3]}}
	for i := range bent.Len() {
		k := bent.Key(i)
		if k.AcqNs < box.Box[record.Acq][0].To {
			purged++
		}
	}
	for d := range want {
		if d.What != nodesync.NoEvent && d.Key.AcqNs < box.Box[record.Acq][0].To {
			delete(want, d) // it is purged, where it was at all
		}
	}
	if _, err := from.Purge(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	check(purged)

	// And of a tenant what is older than an hour, half of it.
	one := int32(1)
	err = from.SetRetention(t.Context(), client.Retention{CID: &one, MaxCapAgeNs: int64(time.Hour)})
	if err == nil {
		source, err = from.SyncState(t.Context())
	}
	if err != nil || len(source.History.Policies) != 1 {
		t.Fatalf("%+v, %v", source.History.Policies, err)
	}
	floor, expired := source.History.Policies[0].CapFloorNs, uint64(0)
	gone := func(k record.Key) bool {
		return k.AcqNs >= box.Box[record.Acq][0].To && k.CID == one && k.CapNs < floor
	}
	for i := range bent.Len() {
		if gone(bent.Key(i)) {
			expired++
		}
	}
	for d := range want {
		if gone(d.Key) {
			delete(want, d)
		}
	}
	if expired == 0 {
		t.Fatalf("nothing expired below cap %d", floor)
	}
	check(purged + expired)
}

// TestCopyRefuses wants no copy to begin where it cannot end.
func TestCopyRefuses(t *testing.T) {
	rng := seeded(t)
	from, to, other := serve(t, store.Options{}), serve(t, store.Options{}), serve(t,
		store.Options{})
	from.fill(rng, 10)
	other.fill(rng, 10)
	refuse := func(from, to *served, opt nodesync.Options, want string) {
		t.Helper()
		_, err := nodesync.Copy(t.Context(), from, to, opt)
		if !errors.Is(err, nodesync.ErrNotACopy) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	refuse(from, from, nodesync.Options{}, "the same node")
	refuse(from, other, nodesync.Options{}, "records or events of its own")
	opt := nodesync.Options{Box: record.Box{record.CID: {record.At(1)}}}
	if _, err := nodesync.Copy(t.Context(), from, to, opt); err != nil {
		t.Fatal(err)
	}
	refuse(from, to, nodesync.Options{}, "other selectors")
	refuse(other, to, opt, "it is a copy of store")
	if _, err := nodesync.Verify(t.Context(), other, to, nodesync.Options{}); !errors.Is(err,
		nodesync.ErrNotACopy) {
		t.Error(err)
	}
	if got := to.rows(&record.Query{}); !slices.Equal(got, from.rows(&record.Query{Box: opt.Box})) {
		t.Errorf("the copy of a tenant holds %d rows", len(got))
	}
	if got, err := nodesync.Verify(t.Context(), from, to, nodesync.Options{}); err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if err := to.ReleaseCopy(t.Context()); err != nil {
		t.Fatal(err)
	}
	refuse(from, to, opt, "of its own")
}

// BenchmarkCopy copies a million rows with payloads of 16 bytes from one node to another, both in
// this process, over the network.
func BenchmarkCopy(b *testing.B) {
	const rows, batch = 1_000_000, 10_000
	from := serve(b, store.Options{})
	payload := make([]byte, 16)
	for at := 0; at < rows; at += batch {
		in := &record.Batch{}
		for i := at; i < at+batch; i++ {
			payload[0] = byte(i)
			in.Append(record.Key{CID: 1, MID: int64(i % 2000), MOID: int32(i % 5),
				CapNs: int64(i/2000) * int64(time.Minute)}, payload)
		}
		if _, err := from.Put(b.Context(), in, [16]byte{}, 0); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		b.StopTimer()
		to := serve(b, store.Options{})
		b.StartTimer()
		report, err := nodesync.Copy(b.Context(), from, to, nodesync.Options{})
		if err != nil || report.Rows != rows {
			b.Fatalf("%+v, %v", report, err)
		}
	}
	b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds(), "rows/s")
}
