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

	"github.com/pentad-db/pentad/cluster-test/leaks"
	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/cluster-test/warmcode"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/nodesync"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// served is a node that serves, and a client of it.
type served struct {
	*client.Client
	t    testing.TB
	opt  node.Options
	node *node.Node

	ages   [quantities]int64 // of the retention of each quantity, in ns; 0: none
	copied [quantities]int64 // what they were when a copy was made
}

// quantities is how many fill and change use.
const quantities = 3

func serve(t testing.TB, opt store.Options) *served {
	t.Helper()
	s := &served{t: t, opt: node.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", Store: opt}}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *served) start() {
	s.t.Helper()
	warmcode.Fill(s.t, s.opt.Dir, s.opt.Cluster.TokenFile != "")
	var err error
	if s.node, err = node.Open(context.Background(), s.opt); err != nil {
		s.t.Fatal(err)
	}
	if s.Client, err = client.New(s.node.Addr().String()); err != nil {
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
		k := record.Key{CID: rng.Int32N(2), MID: rng.Int64N(40), MOID: rng.Int32N(quantities),
			CapNs: time.Now().UnixNano() - rng.Int64N(100)*int64(time.Hour)/50}
		k.CapNs -= k.CapNs % int64(time.Minute)
		if rng.IntN(20) == 0 {
			k.MOID = record.NameMOID - 1 // reserved, and of any form
		}
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
		err = s.changeRetention(rng.Int32N(quantities), rng.Int64N(4)*int64(time.Hour))
	case op < 19:
		err = s.node.Seal(s.t.Context())
	default:
		s.restart()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// changeRetention sets the retention of a quantity, or removes it with age 0. What it hid when a
// copy was made stays hidden, because the copy does not have it.
func (s *served) changeRetention(moid int32, ageNs int64) error {
	s.t.Helper()
	if before := s.copied[moid]; before > 0 && (ageNs == 0 || ageNs > before) {
		return nil
	}
	err := s.SetRetention(s.t.Context(), client.Retention{MOID: &moid, MaxCapAgeNs: ageNs})
	var remote *wire.Error
	if errors.As(err, &remote) && remote.Kind == wire.KindNotFound {
		err = nil
	}
	s.ages[moid] = ageNs
	return err
}

func (s *served) rows(q *record.Query) []string {
	s.t.Helper()
	var all []string
	whole := *q
	whole.Box.IncludeReserved()
	for r, err := range s.Query(s.t.Context(), &whole) {
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
	queries := []record.Query{{Box: below}, {View: record.ViewAsOf, AsOfAcqNs: untilNs},
		{View: record.ViewAsOf, AsOfAcqNs: untilNs, Last: 2}}
	var acqs []int64
	for r, err := range from.Query(t.Context(), &queries[0]) {
		if err != nil {
			t.Fatal(err)
		}
		acqs = append(acqs, r.Key.AcqNs)
	}
	for range min(5, len(acqs)) {
		at := acqs[rng.IntN(len(acqs))] + rng.Int64N(2)
		queries = append(queries, record.Query{View: record.ViewAsOf, AsOfAcqNs: at})
	}
	for _, q := range queries {
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
	rounds.NotUnderRace(t, "TestCopyIntoACluster copies, too")
	rng := seeded(t)
	from := serve(t, store.Options{Shards: 4, SealRows: 900})
	to := serve(t, store.Options{SealRows: 1500})
	for range 6 {
		for range rng.IntN(8) {
			from.change(rng)
		}
		from.copied = from.ages
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
	refuse(from, other, nodesync.Options{}, "holds other records or events")
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
	if err := to.PromoteCopy(t.Context()); err != nil {
		t.Fatal(err)
	}
	refuse(from, to, opt, "holds other records")
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
