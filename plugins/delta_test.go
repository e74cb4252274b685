package plugins_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// point is a reading of a register.
type point struct {
	capNs int64
	x     float64
}

// consumed is what delta says of a window, by a loop over its readings in order of cap.
type consumed struct {
	sum                          float64
	readings                     int
	from, to                     point
	resets, rollovers, exchanges int
	fell                         float64
	invalid                      int
	modulus, maxStep             float64
	hasBefore                    bool
	before                       point
}

// loop folds readings that ascend, with that before them in before.
func (c *consumed) loop(all []point) {
	last, known := c.before, c.hasBefore
	for _, p := range all {
		if math.IsNaN(p.x) || math.IsInf(p.x, 0) {
			c.invalid++
			continue
		}
		if c.readings++; c.readings == 1 {
			c.from = p
			if known {
				c.from = last
			}
		}
		if known {
			c.step(last.x, p.x)
		}
		last, known, c.to = p, true, p
	}
}

func (c *consumed) step(a, b float64) {
	rise := b - a
	plausible := c.maxStep
	if plausible == 0 {
		plausible = c.modulus / 2
	}
	switch over := rise + c.modulus; {
	case rise >= 0 && c.maxStep > 0 && rise > c.maxStep:
		c.exchanges++
	case rise >= 0:
		c.sum += rise
	case c.modulus > 0 && a < c.modulus && b >= 0 && over <= plausible:
		c.sum += over
		c.rollovers++
	case b >= 0 && b <= c.maxStep:
		c.sum += b
		c.fell -= rise
		c.resets++
	default:
		c.fell -= rise
		c.exchanges++
	}
}

func (c *consumed) result() []byte {
	if c.readings == 0 {
		c.from.x, c.to.x = math.NaN(), math.NaN()
	}
	return words(c.sum, c.readings, c.from.capNs, c.from.x, c.to.capNs, c.to.x, c.resets,
		c.rollovers, c.exchanges, c.fell, c.invalid)
}

// register is readings of a register with all that happens to one, ascending.
func register(r *rand.Rand, n int, modulus float64) []point {
	out, at, x := make([]point, 0, n), r.Int64N(1000)-500, float64(r.IntN(900))
	for range n {
		at += 1 + r.Int64N(1<<uint(1+r.IntN(20)))
		switch x += float64(r.IntN(30)) / 4; r.IntN(40) {
		case 0:
			x = float64(r.IntN(20))
		case 1:
			x = float64(r.IntN(2000) - 500)
		case 2:
			x -= float64(r.IntN(5))
		case 3:
			out = append(out, point{at, []float64{math.NaN(), math.Inf(-1)}[r.IntN(2)]})
			at++
		}
		if modulus > 0 && x >= modulus {
			x -= modulus
		}
		out = append(out, point{at, x})
	}
	return out
}

// addPoints hands readings of windows to an aggregate, in random order and batches.
func addPoints(t *testing.T, r *rand.Rand, a *wasmhost.Aggregate, all []point, gid []uint32,
	groups int) {
	t.Helper()
	order := r.Perm(len(all))
	if r.IntN(3) == 0 {
		slices.Sort(order)
	}
	b, ids := &record.Batch{}, []uint32(nil)
	for i, at := range order {
		b.AppendStamped(record.Key{CID: 1, MID: 7, MOID: 2, CapNs: all[at].capNs},
			binary.LittleEndian.AppendUint64(nil, math.Float64bits(all[at].x)))
		ids = append(ids, gid[at])
		if r.IntN(300) > 0 && i < len(order)-1 {
			continue
		}
		if err := a.Add(t.Context(), b, ids, groups); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		ids = ids[:0]
	}
}

// spreadPoints gives readings to some instances at random and merges these at random. Every group
// has readings.
func spreadPoints(t *testing.T, r *rand.Rand, m *wasmhost.Module, params []byte, all []point,
	gid []uint32, groups int) *wasmhost.Aggregate {
	t.Helper()
	leaves := make([]*wasmhost.Aggregate, 1+r.IntN(4))
	for i := range leaves {
		leaves[i] = newAggregate(t, m, params)
	}
	parts, ids := make([][]point, len(leaves)), make([][]uint32, len(leaves))
	leaf, stick := 0, 1+r.IntN(100)
	for i := range all {
		if r.IntN(stick) == 0 {
			leaf = r.IntN(len(leaves))
		}
		parts[leaf], ids[leaf] = append(parts[leaf], all[i]), append(ids[leaf], gid[i])
	}
	for i, a := range leaves {
		addPoints(t, r, a, parts[i], ids[i], groups)
		if len(parts[i]) == 0 { // its groups have to be there
			if err := a.Merge(t.Context(), make([]byte, 4*groups), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for len(leaves) > 1 {
		i := 1 + r.IntN(len(leaves)-1)
		states := statesOf(t, leaves[i])
		leaves[i].Close()
		leaves = slices.Delete(leaves, i, i+1)
		if err := leaves[r.IntN(len(leaves))].Merge(t.Context(), states, nil); err != nil {
			t.Fatal(err)
		}
	}
	return leaves[0]
}

// Windows of a register, whatever the order of its readings, have the results of a loop, and the
// same states bit by bit.
func TestDeltaAgainstALoop(t *testing.T) {
	r := seeded(t)
	m, doc := standard(t, "delta")
	rounds := 150
	if testing.Short() {
		rounds = 30
	}
	for round := range rounds {
		c := consumed{modulus: float64(r.IntN(2) * (200 + r.IntN(800)))}
		c.maxStep = float64(r.IntN(2) * (1 + r.IntN(100)))
		params := encode(t, doc, map[string]string{"modulus": fmt.Sprint(c.modulus),
			"max_step": fmt.Sprint(c.maxStep)})
		all := register(r, 1+r.IntN([]int{5, 300, 3000}[r.IntN(3)]), c.modulus)
		var windows [][]point
		gid := make([]uint32, len(all))
		for i, left := 0, 1+r.IntN(1000); i < len(all); i++ {
			if len(windows) == 0 || r.IntN(left) == 0 {
				windows = append(windows, nil)
			}
			last := len(windows) - 1
			windows[last], gid[i] = append(windows[last], all[i]), uint32(last)
		}
		a := spreadPoints(t, r, m, params, all, gid, len(windows))
		other := spreadPoints(t, r, m, params, all, gid, len(windows))
		if !bytes.Equal(statesOf(t, a), statesOf(t, other)) {
			t.Fatalf("round %d: states differ in another order", round)
		}
		var links []wasmhost.Link
		for i := 1; i < len(windows); i++ {
			links = append(links, wasmhost.Link{Group: uint32(i), Predecessor: uint32(i - 1)})
		}
		if err := a.LinkPredecessors(t.Context(), links); err != nil {
			t.Fatal(err)
		}
		results, err := a.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, window := range windows {
			want := c
			want.loop(window)
			if err := equal(results[i], want.result()); err != nil {
				t.Fatalf("round %d, window %d of %d, modulus %g, step %g: %v", round, i,
					len(windows), c.modulus, c.maxStep, err)
			}
			if want.readings > 0 {
				c.before, c.hasBefore = want.to, true
			}
		}
	}
}

// points is one group of a series.
func points(k record.Key, caps ...int64) *record.Batch {
	b := &record.Batch{}
	for _, at := range caps {
		k.CapNs = at
		b.AppendStamped(k, make([]byte, 8))
	}
	return b
}

func TestDeltaRefuses(t *testing.T) {
	m, doc := standard(t, "delta")
	for _, bad := range []map[string]string{{"modulus": "-1"}, {"max_step": "NaN"},
		{"modulus": "100", "max_step": "100"}} {
		params, err := doc.EncodeParams(bad)
		if err != nil {
			continue // the document says so
		}
		a, err := m.NewAggregate(t.Context(), params)
		if err == nil {
			a.Close()
			t.Errorf("%v: taken", bad)
		}
	}
	one := record.Key{CID: 1, MID: 2, MOID: 3}
	f := func(status int32, text string, second *record.Batch) {
		t.Helper()
		batch, merged := newAggregate(t, m, nil), newAggregate(t, m, nil)
		both := points(one, 1, 2)
		for i := range second.Len() {
			both.AppendStamped(second.Key(i), second.Payload(i))
		}
		wantStatus(t, batch.Add(t.Context(), both, nil, 1), status, text)
		other := newAggregate(t, m, nil)
		for a, b := range map[*wasmhost.Aggregate]*record.Batch{merged: points(one, 1, 2),
			other: second} {
			if err := a.Add(t.Context(), b, nil, 1); err != nil {
				t.Fatal(err)
			}
		}
		wantStatus(t, merged.Merge(t.Context(), statesOf(t, other), nil), status, text)
	}
	const series = "a group has readings of two series"
	f(-100, series, points(record.Key{CID: 2, MID: 2, MOID: 3}, 3))
	f(-100, series, points(record.Key{CID: 1, MID: 1, MOID: 3}, 3))
	f(-100, series, points(record.Key{CID: 1, MID: 2, MOID: 4}, 3))
	f(-102, "two readings of one cap", points(one, 2))
	linked := newAggregate(t, m, nil)
	both := points(one, 1)
	both.AppendStamped(record.Key{CID: 1, MID: 9, MOID: 3}, make([]byte, 8))
	if err := linked.Add(t.Context(), both, []uint32{0, 1}, 2); err != nil {
		t.Fatal(err)
	}
	links := []wasmhost.Link{{Group: 1, Predecessor: 0}}
	wantStatus(t, linked.LinkPredecessors(t.Context(), links), -100, series)
}

// What was saved comes from outside.
func TestDeltaLoadsNoLies(t *testing.T) {
	m, _ := standard(t, "delta")
	good := newAggregate(t, m, nil)
	if err := good.Add(t.Context(), points(record.Key{}, 1, 2, 3), nil, 1); err != nil {
		t.Fatal(err)
	}
	saved := statesOf(t, good)
	f := func(name string, bend func(b []byte) []byte) {
		t.Helper()
		lie := bend(bytes.Clone(saved))
		binary.LittleEndian.PutUint32(lie, uint32(len(lie)-4))
		err := newAggregate(t, m, nil).Merge(t.Context(), lie, nil)
		wantStatus(t, err, plugin.StatusPayload, "")
	}
	f("cut in the head", func(b []byte) []byte { return b[:4+23] })
	f("cut in a reading", func(b []byte) []byte { return b[:len(b)-1] })
	f("not ascending", func(b []byte) []byte {
		copy(b[4+24+16:], b[4+24:4+24+8])
		return b
	})
}

// courseOfCaps is an order in which caps come.
type courseOfCaps struct {
	name string
	cap  func(i int) int64
}

// The fuller a state, the dearer a reading, but never dearer than it may be; one reading too many
// is an error and not a trap.
func TestDeltaFuel(t *testing.T) {
	m, _ := standard(t, "delta")
	const most = 50000
	r := seeded(t)
	shuffled := r.Perm(most + 1)
	worst := 0.0
	for _, c := range []courseOfCaps{
		{"ascending", func(i int) int64 { return int64(i) }},
		{"descending", func(i int) int64 { return int64(-i) }},
		{"shuffled", func(i int) int64 { return int64(shuffled[i]) }},
		{"into the middle", func(i int) int64 { return int64((i%2*2 - 1) * (1<<40 - i)) }},
	} {
		a, other := newAggregate(t, m, nil), newAggregate(t, m, nil)
		for from, n := 0, 1; from < most; from, n = from+n, n%7*300+1 {
			b, late := &record.Batch{}, &record.Batch{}
			for i := from; i < min(from+n, most); i++ {
				to := map[bool]*record.Batch{true: b, false: late}[i%2 == 0]
				to.AppendStamped(record.Key{CapNs: c.cap(i)}, make([]byte, 8))
			}
			for to, part := range map[*wasmhost.Aggregate]*record.Batch{a: b, other: late} {
				if err := to.Add(t.Context(), part, nil, 1); err != nil {
					t.Fatalf("%s, from %d: %v", c.name, from, err)
				}
			}
		}
		if err := a.Merge(t.Context(), statesOf(t, other), nil); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		states := statesOf(t, a)
		again := newAggregate(t, m, nil)
		if err := again.Merge(t.Context(), states, nil); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, again.Add(t.Context(), points(record.Key{}, math.MaxInt64-1), nil, 1), -101,
			"more than 50000 readings")
		results, err := a.Finish(t.Context())
		if err != nil || uintAt(results[0], 1) != most {
			t.Fatalf("%s: %d readings, %v", c.name, uintAt(results[0], 1), err)
		}
		worst = max(worst, use(a.Usage()), use(other.Usage()))
	}
	t.Logf("a call used %.0f %% of its fuel", 100*worst)
	if worst > 0.9 {
		t.Errorf("a call may use up to %.0f %% of its fuel", 100*worst)
	}
}

// BenchmarkDelta gives a month of hours of 90 series to delta, and to a loop that keeps, sorts and
// adds them up.
func BenchmarkDelta(b *testing.B) {
	m, _ := standard(b, "delta")
	const groups, rows = 90, 720
	for _, shuffled := range []bool{false, true} {
		var batches []record.Batch
		order := rand.Perm(rows)
		for group := range int64(groups) {
			var batch record.Batch
			for i := range int64(rows) {
				if shuffled {
					i = int64(order[i])
				}
				batch.AppendStamped(record.Key{MID: group, CapNs: i * 3600e9},
					binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(i))))
			}
			batches = append(batches, batch)
		}
		name := map[bool]string{true: "shuffled", false: "sorted"}[shuffled]
		b.Run(name+"/plugin", func(b *testing.B) {
			for b.Loop() {
				a, err := m.NewAggregate(b.Context(), nil)
				if err != nil {
					b.Fatal(err)
				}
				for group := range batches {
					gid := slices.Repeat([]uint32{uint32(group)}, rows)
					if err := a.Add(b.Context(), &batches[group], gid, groups); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := a.Finish(b.Context()); err != nil {
					b.Fatal(err)
				}
				a.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*groups*rows), "ns/row")
		})
		b.Run(name+"/native", func(b *testing.B) {
			for b.Loop() {
				for group := range batches {
					var all []point
					for i := range rows {
						at := batches[group].CapNs[i]
						all = append(all, point{at, number(&batches[group], i)})
					}
					slices.SortFunc(all, func(a, b point) int {
						return cmp.Compare(a.capNs, b.capNs)
					})
					var c consumed
					c.loop(all)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*groups*rows), "ns/row")
		})
	}
}
