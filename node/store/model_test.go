package store

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/record"
)

// model is the store done stupidly: a slice of everything that was acknowledged.
type model struct {
	rows   []modelRow
	events []event.Event
}

type modelRow struct {
	key     record.Key
	payload string
	tomb    bool
}

func modelRowOf(b *record.Batch, i int) modelRow {
	return modelRow{b.Key(i), string(b.Payload(i)), b.Tomb(i)}
}

func (m *model) add(b *record.Batch, parts []shardRows, res PutResult) {
	acq := res.FirstAcqNs
	for _, p := range parts {
		for i := range p.rows.Len() {
			r := modelRowOf(&p.rows, i)
			r.key.AcqNs = acq
			acq++
			m.rows = append(m.rows, r)
		}
	}
}

// query answers like DESIGN says: resolve versions over everything, then apply the box.
func (m *model) query(q *record.Query) []modelRow {
	if q.Select != "" {
		selected := *q
		if selected.Box[record.MID] = m.selectDevices(q); len(selected.Box[record.MID]) == 0 {
			return nil
		}
		selected.Select = ""
		return m.query(&selected)
	}
	best := map[record.Key]int64{}
	until := record.Acq.Max()
	if q.View == record.ViewAsOf {
		until = q.AsOfAcqNs
	}
	seen := m.seen(q.View, until)
	versions := q.Box
	versions[record.Acq] = nil // all versions of a reading are within, or none
	seen = slices.DeleteFunc(seen, func(r modelRow) bool { return !versions.Contains(r.key) })
	for _, r := range seen {
		if q.View == record.ViewAll {
			break
		}
		version := r.key
		version.AcqNs = 0
		if old, ok := best[version]; r.key.AcqNs < until && (!ok || old < r.key.AcqNs) {
			best[version] = r.key.AcqNs
		}
	}
	var out []modelRow
	for _, r := range seen {
		version := r.key
		version.AcqNs = 0
		if q.View != record.ViewAll && (best[version] != r.key.AcqNs || r.tomb) {
			continue
		}
		if r.key.AcqNs < until && q.Box.Contains(r.key) {
			out = append(out, r)
		}
	}
	if q.Last > 0 {
		return lastOf(out, int(q.Last))
	}
	return out
}

// lastOf keeps of each series the n readings with the greatest caps.
func lastOf(rows []modelRow, n int) []modelRow {
	bySeries := map[index.Series][]modelRow{}
	for _, r := range rows {
		id := index.Series{CID: r.key.CID, MOID: r.key.MOID, MID: r.key.MID}
		bySeries[id] = append(bySeries[id], r)
	}
	var out []modelRow
	for _, list := range bySeries {
		slices.SortFunc(list, func(a, b modelRow) int {
			return cmp.Compare(b.key.CapNs, a.key.CapNs)
		})
		out = append(out, list[:min(n, len(list))]...)
	}
	return out
}

// seen returns the rows that no event hides from a view of the moment until.
func (m *model) seen(view record.View, until int64) []modelRow {
	return slices.DeleteFunc(slices.Clone(m.rows), func(r modelRow) bool {
		return slices.ContainsFunc(m.events, func(e event.Event) bool {
			applies := e.Kind != event.Erase || view != record.ViewAll && e.AcqNs < until
			return applies && r.key.AcqNs < e.AcqNs && e.Box.Contains(r.key)
		})
	})
}

func sortRows(rows []modelRow) {
	slices.SortFunc(rows, func(a, b modelRow) int { return a.key.Compare(b.key) })
}

func scanRows(t testing.TB, s *Store, q *record.Query) []modelRow {
	t.Helper()
	var sinks []*[]modelRow
	stats, err := s.Scan(t.Context(), q, func(int) (Sink, error) {
		mine := new([]modelRow)
		sinks = append(sinks, mine)
		return func(b *record.Batch) error {
			if err := b.CheckShape(); err != nil {
				return err
			}
			for i := range b.Len() {
				*mine = append(*mine, modelRowOf(b, i))
			}
			return nil
		}, nil
	})
	if err != nil {
		t.Fatalf("scan: %v", err)
	}
	var rows []modelRow
	for _, its := range sinks {
		rows = append(rows, *its...)
	}
	if int(stats.Rows) != len(rows) {
		t.Fatalf("stats say %d rows, sinks got %d", stats.Rows, len(rows))
	}
	sortRows(rows)
	return rows
}

func compare(t testing.TB, what string, got, want []modelRow) {
	t.Helper()
	sortRows(want)
	if slices.Equal(got, want) {
		return
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			g, w := "nothing", "nothing"
			if i < len(got) {
				g = fmt.Sprintf("%+v", got[i])
			}
			if i < len(want) {
				w = fmt.Sprintf("%+v", want[i])
			}
			t.Fatalf("%s: %d rows, want %d; row %d is %s, want %s",
				what, len(got), len(want), i, g, w)
		}
	}
}

func randomSource(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// shape draws keys so that collisions of all kinds happen.
type shape struct {
	cids, mids, moids, caps int64
	varied                  bool
	rareTombs               bool // so few that most blocks have none
	wild                    bool // parts of keys at and near their limits, below zero, anywhere
	// neverShown: retentions never show again what they hid, which a copy that was made meanwhile
	// does not have.
	neverShown bool
	described  bool // some records describe devices, and queries select by that
}

// edge draws a value of a dimension at or near one of its limits or zero, or anywhere. With a limit
// of a range in mind it may be the reserved one, which means no end.
func edge(rng *rand.Rand, d record.Dim, limit bool) int64 {
	low, high := d.Min(), d.Max()-1
	if limit {
		high++
	}
	near := rng.Int64N(3)
	switch rng.IntN(5) {
	case 0:
		return low + near
	case 1:
		return high - near
	case 2:
		return max(low, near-1)
	case 3:
		return max(low, -int64(1)<<rng.IntN(31)-near)
	}
	v := int64(rng.Uint64())
	if high == d.Max() || v < low || v > high {
		return max(low, min(high, v>>32))
	}
	return v
}

// wilden moves some parts of a key to where edge says.
func (sh shape) wilden(rng *rand.Rand, k *record.Key) {
	if !sh.wild {
		return
	}
	if rng.IntN(6) == 0 {
		k.CID = int32(edge(rng, record.CID, false))
	}
	if rng.IntN(4) == 0 {
		k.MID = edge(rng, record.MID, false)
	}
	if rng.IntN(6) == 0 {
		k.MOID = int32(edge(rng, record.MOID, false))
		if describesDevice(k.MOID) {
			k.MOID = record.FirstMOID
		}
	}
	if rng.IntN(4) == 0 {
		k.CapNs = edge(rng, record.Cap, false)
	}
}

func (sh shape) batch(rng *rand.Rand, n int, nowNs int64) *record.Batch {
	b := &record.Batch{}
	for range n {
		k := record.Key{
			CID: int32(rng.Int64N(sh.cids)), MID: rng.Int64N(sh.mids) * 40,
			MOID:  int32(rng.Int64N(sh.moids)),
			CapNs: rng.Int64N(sh.caps) * int64(time.Minute),
		}
		if rng.IntN(50) == 0 {
			k.CapNs = nowNs + rng.Int64N(int64(3*time.Hour))
		}
		sh.wilden(rng, &k)
		if sh.described && rng.IntN(3) == 0 {
			k.MOID = record.DescriptionMOID
			if rng.IntN(20) > 0 {
				payload := randomDescription(rng)
				if rng.IntN(30) == 0 {
					payload = []byte("no description")
				}
				b.Append(k, payload)
				continue
			}
		}
		if k.MOID == record.DescriptionMOID ||
			rng.IntN(20) == 0 && (!sh.rareTombs || rng.IntN(100) == 0) {
			b.AppendTomb(k)
			continue
		}
		size := 8
		if sh.varied {
			size = rng.IntN(40)
		}
		payload := make([]byte, size)
		for i := range payload {
			payload[i] = byte(rng.IntN(4))
		}
		b.Append(k, payload)
	}
	return b
}

func (sh shape) query(rng *rand.Rand, m *model) *record.Query {
	q := &record.Query{View: record.View(rng.IntN(3)), KeysOnly: false}
	someAcq := func() int64 {
		if len(m.rows) == 0 {
			return rng.Int64N(1000)
		}
		return m.rows[rng.IntN(len(m.rows))].key.AcqNs + rng.Int64N(3) - 1
	}
	if q.View == record.ViewAsOf {
		q.AsOfAcqNs = someAcq()
	}
	if q.View != record.ViewAll && rng.IntN(2) == 0 {
		q.Last = [...]uint32{1, 1, 2, 3, 10, 1000}[rng.IntN(6)]
	}
	limits := [4]int64{sh.cids, sh.mids * 40, sh.moids, sh.caps * int64(time.Minute)}
	for d, limit := range limits {
		for range rng.IntN(3) * rng.IntN(2) {
			from := rng.Int64N(limit)
			to := from + 1 + rng.Int64N(limit-from)*rng.Int64N(2)
			if dim := record.Dim(d); sh.wild && rng.IntN(2) == 0 {
				a, b := edge(rng, dim, false), edge(rng, dim, true)
				from, to = min(a, b), max(a, b)
				to = max(to, from+1)
			}
			q.Box[d] = append(q.Box[d], record.Range{From: from, To: to})
		}
	}
	for range rng.IntN(3) * rng.IntN(2) {
		a, b := someAcq(), someAcq()
		q.Box[record.Acq] = append(q.Box[record.Acq],
			record.Range{From: min(a, b), To: max(a, b) + 1})
	}
	if sh.described && rng.IntN(3) > 0 {
		q.Select = randomSelector(rng)
		q.Box[record.CID] = record.RangeSet{record.At(rng.Int64N(sh.cids))}
	}
	if err := q.Normalize(); err != nil {
		panic(err)
	}
	return q
}

func testModel(t *testing.T, sh shape, opt Options) {
	rng := randomSource(t)
	opt.Dir = t.TempDir()
	opt.Now, opt.retainEvery, opt.PutWait = leapingClock(), time.Hour, 5*time.Minute
	opt.parallelRows = cmp.Or(opt.parallelRows, fewParallel)
	s, _, err := Open(t.Context(), divided(t, opt))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	m := &model{}
	for step := range rounds.Of(150, 100, 60) {
		switch op := rng.IntN(27); {
		case op < 10:
			b := sh.batch(rng, 1+rng.IntN(400), time.Now().UnixNano())
			w := WriterSeq{}
			if Describes(b) { // some descriptions are none, which is refused of others
				w = WriterSeq{ID: [16]byte{1}, Seq: uint64(step) + 1, Persistent: true}
			}
			res, err := s.Put(t.Context(), b, w)
			if err != nil {
				t.Fatal(err)
			}
			m.add(b, splitByShard(b, len(s.shards)), res)
		case op < 17:
			q := sh.query(rng, m)
			want := m.query(q)
			compare(t, fmt.Sprintf("step %d: %+v", step, q), scanRows(t, s, q), want)
			count, _, err := s.Count(t.Context(), q)
			if err != nil || int(count) != len(want) {
				t.Fatalf("step %d: count %d, %v; want %d: %+v", step, count, err, len(want), q)
			}
		case op < 18:
			if err := s.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		case op < 19:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, _, err = Open(t.Context(), divided(t, opt)); err != nil {
				t.Fatal(err)
			}
		case op < 20:
			s = crashAndReopen(t, s, &opt)
		case op < 22:
			sh.erase(t, rng, s, m)
		case op < 23:
			sh.purge(t, rng, s, m)
		case op < 24:
			sh.retain(t, rng, s, m)
		default:
			sh.putBelow(t, rng, s, m)
		}
	}
	compare(t, "everything", scanRows(t, s, &record.Query{}), m.query(&record.Query{}))
	if err := s.WaitForMerges(t.Context()); err != nil {
		t.Fatal(err)
	}
	compare(t, "settled", scanRows(t, s, &record.Query{}), m.query(&record.Query{}))
	checkPurged(t, s, m)
}

// leapingClock returns a clock that goes on by two seconds at every reading, so that no lease
// has to be waited for after a crash.
func leapingClock() func() int64 {
	var ahead atomic.Int64
	return func() int64 { return time.Now().UnixNano() + ahead.Add(int64(2*time.Second)) }
}

// crashAndReopen leaves the directory as a killed process would and opens a copy of it.
func crashAndReopen(t *testing.T, s *Store, opt *Options) *Store {
	t.Helper()
	dir := t.TempDir()
	// A crash is one moment for all files: nothing may be logged or deleted during the copy.
	err := s.onCommitter(t.Context(), func() {
		s.manifestMu.Lock()
		defer s.manifestMu.Unlock()
		copyDir(t, opt.Dir, dir)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opt.Dir = dir
	opened, _, err := Open(context.Background(), divided(t, *opt))
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func TestModelFewKeys(t *testing.T) {
	testModel(t, shape{cids: 2, mids: 5, moids: 2, caps: 20}, Options{Shards: 4, SealRows: 1500})
}

func TestModelManyKeys(t *testing.T) {
	testModel(t, shape{cids: 50, mids: 5000, moids: 5, caps: 10000},
		Options{Shards: 8, SealRows: 700, Index: index.Options{BlockRows: 64}})
}

func TestModelVariedPayloads(t *testing.T) {
	rounds.NotUnderRace(t, "TestModelLong does the same")
	testModel(t, shape{cids: 3, mids: 50, moids: 3, caps: 300, varied: true},
		Options{Shards: 1, SealRows: 3000, Index: index.Options{BlockRows: 256}})
}

// TestModelWildKeys has keys at and near the limits of each part, and below zero.
func TestModelWildKeys(t *testing.T) {
	rounds.NotUnderRace(t, "TestModelLong does the same")
	testModel(t, shape{cids: 3, mids: 30, moids: 3, caps: 100, wild: true},
		Options{Shards: 4, SealRows: 1500, Index: index.Options{BlockRows: 64}})
	testModel(t, shape{cids: 1, mids: 2, moids: 1, caps: 5, varied: true, wild: true},
		Options{Shards: 2, SealRows: 500})
}

// TestModelLittleSpace resolves versions with space for ten readings, and for one.
func TestModelLittleSpace(t *testing.T) {
	rounds.NotUnderRace(t, "TestModelLong does the same")
	testModel(t, shape{cids: 2, mids: 20, moids: 2, caps: 50},
		Options{Shards: 2, SealRows: 1500, maxReadings: 10, Index: index.Options{BlockRows: 64}})
	testModel(t, shape{cids: 2, mids: 3, moids: 2, caps: 10, varied: true},
		Options{Shards: 2, SealRows: 700, maxReadings: 1})
}
