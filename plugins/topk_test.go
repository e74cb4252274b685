package plugins_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// ranking is a query to top-k.
type ranking struct {
	k              int
	least, devices bool
}

func (q *ranking) params(t *testing.T, doc *plugin.Doc) []byte {
	t.Helper()
	return encode(t, doc, map[string]string{"k": strconv.Itoa(q.k),
		"order": map[bool]string{true: "least", false: "greatest"}[q.least],
		"per":   map[bool]string{true: "device", false: "record"}[q.devices]})
}

// answer sorts all readings and takes the first.
func (q *ranking) answer(all []reading) []byte {
	all = slices.DeleteFunc(slices.Clone(all), func(x reading) bool { return x.x != x.x })
	slices.SortFunc(all, func(a, b reading) int {
		byValue := cmp.Compare(b.x, a.x)
		if q.least {
			byValue = -byValue
		}
		return cmp.Or(byValue, cmp.Compare(a.key.CapNs, b.key.CapNs),
			cmp.Compare(a.key.MID, b.key.MID))
	})
	met := map[int64]bool{}
	want, kept := words(len(all)), 0
	for _, x := range all {
		if kept == q.k || q.devices && met[x.key.MID] {
			continue
		}
		met[x.key.MID] = true
		kept++
		want = append(want, words(x.x+0, x.key.MID, x.key.CapNs)...)
	}
	return want
}

// ranked is readings of many devices, of which some are equal.
func ranked(r *rand.Rand, n int) []reading {
	devices := 1 + r.Int64N([]int64{3, 200, 3000}[r.IntN(3)])
	values, slope := 1+r.IntN([]int{3, 100, 1 << 30}[r.IntN(3)]), r.IntN(3)-1
	out := make([]reading, n)
	for i := range out {
		out[i].key = record.Key{MID: r.Int64N(devices) - 5, CapNs: r.Int64N(500) - 250}
		switch out[i].x = float64(r.IntN(values) + slope*i); r.IntN(100) {
		case 0:
			out[i].x = math.NaN()
		case 1:
			out[i].x = math.Inf(1 - 2*r.IntN(2))
		}
	}
	return out
}

// batchOf is a batch of readings.
func batchOf(all []reading) *record.Batch {
	b := new(record.Batch)
	for _, x := range all {
		b.AppendStamped(x.key, binary.LittleEndian.AppendUint64(nil, math.Float64bits(x.x)))
	}
	return b
}

// spreadRows gives readings of groups in random batches to some instances, moves states of some to
// others on the way, and returns the one that has all.
func spreadRows(t *testing.T, r *rand.Rand, m *wasmhost.Module, params []byte, all []reading,
	gid []uint32, groups int) *wasmhost.Aggregate {
	t.Helper()
	leaves := make([]*wasmhost.Aggregate, 1+r.IntN(4))
	for i := range leaves {
		leaves[i] = newAggregate(t, m, params)
		if err := leaves[i].Add(t.Context(), &record.Batch{}, nil, groups); err != nil {
			t.Fatal(err)
		}
	}
	move := func(from, to int) {
		t.Helper()
		err := leaves[to].Merge(t.Context(), statesOf(t, leaves[from]), nil)
		if err != nil {
			t.Fatal(err)
		}
		leaves[from].Close()
	}
	for len(all) > 0 {
		n := min(len(all), 1+r.IntN(1+r.IntN(4000)))
		leaf := r.IntN(len(leaves))
		if err := leaves[leaf].Add(t.Context(), batchOf(all[:n]), gid[:n], groups); err != nil {
			t.Fatal(err)
		}
		if all, gid = all[n:], gid[n:]; r.IntN(4) == 0 { // into a fresh one
			leaves = append(leaves, newAggregate(t, m, params))
			move(leaf, len(leaves)-1)
			leaves[leaf] = leaves[len(leaves)-1]
			leaves = leaves[:len(leaves)-1]
		}
	}
	for len(leaves) > 1 {
		i := 1 + r.IntN(len(leaves)-1)
		move(i, r.IntN(i))
		leaves = slices.Delete(leaves, i, i+1)
	}
	return leaves[0]
}

// Up to the largest k, the answer is that of a sort, and states are the same bit by bit in whatever
// order records come and parts are merged.
func TestTopKAgainstASort(t *testing.T) {
	r := seeded(t)
	m, doc := standard(t, "top-k")
	rounds := 120
	if testing.Short() {
		rounds = 25
	}
	for round := range rounds {
		q := ranking{k: 1 + r.IntN([]int{10, 40, 1000}[r.IntN(3)]), least: r.IntN(2) == 0,
			devices: r.IntN(2) == 0}
		if r.IntN(10) == 0 {
			q.k = 1000
		}
		params, groups := q.params(t, doc), 1+r.IntN(5)
		all := ranked(r, r.IntN([]int{30, 2000, 12_000}[r.IntN(3)]))
		gid, byGroup := make([]uint32, len(all)), make([][]reading, groups)
		for i := range all {
			gid[i] = uint32(r.IntN(groups))
			byGroup[gid[i]] = append(byGroup[gid[i]], all[i])
		}
		a := spreadRows(t, r, m, params, all, gid, groups)
		states := statesOf(t, a)
		results, err := a.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for g := range groups {
			if err := equal(results[g], q.answer(byGroup[g])); err != nil {
				t.Fatalf("round %d, %+v: group %d of %d readings: %v", round, q, g,
					len(byGroup[g]), err)
			}
		}
		r.Shuffle(len(all), func(i, j int) {
			all[i], all[j], gid[i], gid[j] = all[j], all[i], gid[j], gid[i]
		})
		if !bytes.Equal(states, statesOf(t, spreadRows(t, r, m, params, all, gid, groups))) {
			t.Fatalf("round %d, %+v: states differ in another order", round, q)
		}
	}
}

// Whatever comes into a full state, in batches of whatever size, a call has the fuel for it and a
// tenth to spare.
func TestTopKFuel(t *testing.T) {
	r := seeded(t)
	m, doc := standard(t, "top-k")
	const rows = 6000
	order := r.Perm(rows)
	worst := 0.0
	for name, x := range map[string]func(i int) reading{
		"rising": func(i int) reading {
			return reading{key: record.Key{MID: int64(order[i])}, x: float64(i)}
		},
		"falling": func(i int) reading {
			return reading{key: record.Key{MID: int64(order[i])}, x: float64(-i)}
		},
		"better than the middle": func(i int) reading {
			return reading{key: record.Key{MID: int64(i%2*2-1) * int64(1+i)}, x: float64(i % 2 * i)}
		},
		"the last becomes the first": func(i int) reading {
			return reading{key: record.Key{MID: int64(i % 1000)}, x: float64(i)}
		},
	} {
		for _, devices := range []bool{false, true} {
			params := (&ranking{k: 1000, devices: devices}).params(t, doc)
			a, other := newAggregate(t, m, params), newAggregate(t, m, params)
			for from, n := 0, 1; from < rows; from, n = from+n, n%7*400+1 {
				var parts [2][]reading
				for i := from; i < min(from+n, rows); i++ {
					parts[i/7%2] = append(parts[i/7%2], x(i))
				}
				for i, to := range []*wasmhost.Aggregate{a, other} {
					if err := to.Add(t.Context(), batchOf(parts[i]), nil, 1); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
				}
			}
			if err := a.Merge(t.Context(), statesOf(t, other), nil); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err := a.Finish(t.Context()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			worst = max(worst, use(a.Usage()), use(other.Usage()))
		}
	}
	t.Logf("a call used %.0f %% of its fuel", 100*worst)
	if worst > 0.9 {
		t.Errorf("a call may use up to %.0f %% of its fuel", 100*worst)
	}
}

// Groups that grow at the same time fill half of the memory of an instance, as the host lets them,
// and can still be saved and loaded.
func TestTopKMemory(t *testing.T) {
	m, doc := standard(t, "top-k")
	for _, groups := range []int{250, 280, 2000} {
		for _, k := range []int{10, 1000} {
			params := (&ranking{k: k, devices: true}).params(t, doc)
			a := newAggregate(t, m, params)
			gid := make([]uint32, 4096)
			for i := 0; i < groups*k && !a.Full(); i += len(gid) {
				b := new(record.Batch)
				for j := range gid {
					gid[j] = uint32((i + j) % groups)
					b.AppendStamped(record.Key{MID: int64(i + j)}, make([]byte, 8))
				}
				if err := a.Add(t.Context(), b, gid, groups); err != nil {
					t.Fatalf("%d groups, k %d, row %d: %v", groups, k, i, err)
				}
			}
			again := newAggregate(t, m, params)
			if err := again.Merge(t.Context(), statesOf(t, a), nil); err != nil {
				t.Errorf("%d groups, k %d: %v", groups, k, err)
			}
		}
	}
}

// What was saved comes from outside.
func TestTopKLoadsNoLies(t *testing.T) {
	m, doc := standard(t, "top-k")
	params := (&ranking{k: 3}).params(t, doc)
	good := newAggregate(t, m, params)
	three := []reading{{x: 1}, {x: 2}, {x: 3}}
	if err := good.Add(t.Context(), batchOf(three), nil, 1); err != nil {
		t.Fatal(err)
	}
	saved := statesOf(t, good)
	f := func(name string, bend func(b []byte) []byte) {
		t.Helper()
		lie := bend(bytes.Clone(saved))
		binary.LittleEndian.PutUint32(lie, uint32(len(lie)-4))
		err := newAggregate(t, m, params).Merge(t.Context(), lie, nil)
		wantStatus(t, err, plugin.StatusPayload, "")
	}
	f("cut in the count", func(b []byte) []byte { return b[:4+7] })
	f("cut in an entry", func(b []byte) []byte { return b[:len(b)-1] })
	f("more than k", func(b []byte) []byte { b[4] = 9; return append(b, b[12:36]...) })
	f("more than were counted", func(b []byte) []byte { b[4] = 2; return b })
	f("not a number", func(b []byte) []byte {
		binary.LittleEndian.PutUint64(b[12:], math.Float64bits(math.NaN()))
		return b
	})
}
