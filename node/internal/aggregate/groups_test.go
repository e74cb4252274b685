package aggregate

import (
	"cmp"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/store/devices"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/wasmhost"
)

// TestGroupsAgainstAMap numbers random rows by random shapes of keys, with runs, jumps and caps at
// both ends of time, and compares each number with that of a map.
func TestGroupsAgainstAMap(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	for range 200 {
		by, cal := randomGroupBy(t, rng)
		b := randomKeys(rng, by)
		g, want := NewGroupTable(by, cal, nil, 1<<20), map[groupKey]uint32{}
		var values map[int64]registry.Value
		if !by.MID && rng.IntN(2) == 0 {
			g.devices, values = randomValues(t, rng, &b)
		}
		var counts []uint64
		in := &b
		if rng.IntN(2) == 0 {
			b, in = asSeries(&b)
		}
		gid, err := numbersOf(g, in)
		if err != nil || len(gid) != b.Len() {
			t.Fatalf("%d numbers for %d rows, %v", len(gid), b.Len(), err)
		}
		for i, got := range gid {
			key := groupKey{}
			if by.CID {
				key.cid = b.CID[i]
			}
			if by.MID {
				key.mid = b.MID[i]
			} else if v, ok := values[b.MID[i]]; ok {
				key.mid = int64(v.Number())
			}
			if by.MOID {
				key.moid = b.MOID[i]
			}
			if cal != nil {
				key.cap, _ = cal.Window(b.CapNs[i])
			} else if by.CapBucketNs > 0 {
				key.cap = floorOf(b.CapNs[i], by.CapBucketNs)
			}
			id, ok := want[key]
			if !ok {
				id = uint32(len(want))
				want[key], counts = id, append(counts, 0)
			}
			counts[id]++
			if got != id || g.keys[got] != key {
				t.Fatalf("%+v: row %d is of group %d, %+v; want %d, %+v", by, i, got, g.keys[got],
					id, key)
			}
		}
		for id, count := range counts {
			if g.counts[id] != count {
				t.Fatalf("group %d has %d rows, want %d", id, g.counts[id], count)
			}
		}
		g.giveBack() // the next table has its memory
	}
}

// TestSavedGroupsStay closes tables whose keys states share, and fills others.
func TestSavedGroupsStay(t *testing.T) {
	var saved [][]groupKey
	for round := range int64(20) {
		g := NewGroupTable(record.GroupBy{MID: true}, nil, nil, 1000)
		for mid := range int64(100) {
			if _, err := g.id(groupKey{mid: round<<8 | mid}); err != nil {
				t.Fatal(err)
			}
		}
		g.kept = round%2 == 0
		if g.kept {
			saved = append(saved, g.keys)
		}
		g.giveBack()
	}
	for i, keys := range saved {
		for mid, k := range keys {
			if want := int64(2*i)<<8 | int64(mid); k.mid != want {
				t.Fatalf("saved keys %d: %+v at %d, want mid %d", i, k, mid, want)
			}
		}
	}
}

// randomKeys makes rows of random keys, of which many have the key of the one before, and its
// bucket or the next one.
func randomKeys(rng *rand.Rand, by record.GroupBy) (b record.Batch) {
	var k record.Key
	for range 1 + rng.IntN(3000) {
		switch rng.IntN(8) {
		case 0:
			k.CID, k.MID = rng.Int32N(3), rng.Int64()>>uint(rng.IntN(64))
		case 1:
			k.MOID = rng.Int32N(3)
		case 2:
			k.CapNs = int64(rng.Uint64()) >> uint(rng.IntN(64))
		case 3:
			k.CapNs = []int64{math.MinInt64, math.MaxInt64 - 1, -1, 0}[rng.IntN(4)]
		default:
			k.CapNs = min(k.CapNs, math.MaxInt64-by.CapBucketNs-1)
			k.CapNs += rng.Int64N(max(1, by.CapBucketNs))
		}
		b.Append(k, nil)
	}
	return b
}

// asSeries sorts rows by series and cap, and returns them, and the same with series in the place of
// columns.
func asSeries(b *record.Batch) (sorted record.Batch, series *record.Batch) {
	keys := make([]record.Key, b.Len())
	for i := range keys {
		keys[i] = b.Key(i)
	}
	slices.SortFunc(keys, func(a, b record.Key) int {
		return cmp.Or(cmp.Compare(a.MID, b.MID), cmp.Compare(a.CID, b.CID),
			cmp.Compare(a.MOID, b.MOID), cmp.Compare(a.CapNs, b.CapNs))
	})
	series = new(record.Batch)
	for i, k := range keys {
		sorted.Append(k, nil)
		series.Append(record.Key{CapNs: k.CapNs}, nil)
		s := record.SeriesRun{MID: k.MID, CID: k.CID, MOID: k.MOID, End: uint64(i + 1)}
		if last := len(series.Series) - 1; last >= 0 && series.Series[last] == (record.SeriesRun{
			MID: k.MID, CID: k.CID, MOID: k.MOID, End: uint64(i)}) {
			series.Series = series.Series[:last]
		}
		series.Series = append(series.Series, s)
	}
	return sorted, series
}

// numbersOf returns the group of each row.
func numbersOf(g *GroupTable, b *record.Batch) (gid []uint32, err error) {
	runs, err := g.AppendRuns(b, nil)
	for _, r := range runs {
		for len(gid) < int(r.End) {
			gid = append(gid, r.Group)
		}
	}
	return gid, err
}

// randomValues gives some of the devices of rows values, which are their own numbers.
func randomValues(
	t *testing.T, rng *rand.Rand, b *record.Batch,
) (*DeviceValues, map[int64]registry.Value) {
	t.Helper()
	key, err := registry.ParseKeys("alt")
	if err != nil {
		t.Fatal(err)
	}
	g := devices.NewGathering(key, 1<<30, func(int64) bool { return true })
	values := map[int64]registry.Value{}
	for _, mid := range b.MID {
		if _, ok := values[mid]; !ok && rng.IntN(3) > 0 {
			place := &registry.Place{HasAlt: true, Alt: float64(1 + rng.IntN(5))}
			values[mid] = registry.Number(place.Alt)
			g.Add(mid, &registry.Description{Place: place})
		}
	}
	found, err := g.Values()
	if err != nil {
		t.Fatal(err)
	}
	numbers := NewValues(record.GroupBy{Key: "alt"})
	for n := range 6 { // so that a value is numbered by itself
		if _, err := numbers.number([]registry.Value{registry.Number(float64(n))}); err != nil {
			t.Fatal(err)
		}
	}
	numbers.numbers[string(registry.AppendValue(nil, registry.Value{}))] = 0
	of, err := numbers.Found(found)
	if err != nil {
		t.Fatal(err)
	}
	return of, values
}

func randomGroupBy(t *testing.T, rng *rand.Rand) (by record.GroupBy, cal *calendar.Calendar) {
	t.Helper()
	by = record.GroupBy{CID: rng.IntN(2) == 0, MID: rng.IntN(2) == 0, MOID: rng.IntN(2) == 0}
	switch rng.IntN(3) {
	case 0:
		return by, nil
	case 1:
		by.CapBucketNs = 1 + rng.Int64N(1<<uint(1+rng.IntN(62)))
		return by, nil
	}
	by.Window = record.Window{Unit: record.WindowUnit(1 + rng.IntN(6)), N: 1 + rng.Uint32N(24),
		Zone: []string{"Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu"}[rng.IntN(3)]}
	var err error
	if cal, err = calendar.New(by.Window); err != nil {
		t.Fatal(err)
	}
	return by, cal
}

// floorOf is the start of a bucket by numbers that do not end.
func floorOf(ns, width int64) int64 {
	w, at := big.NewInt(width), big.NewInt(ns)
	start := new(big.Int).Mul(new(big.Int).Div(at, w), w) // Div rounds down for w > 0
	if !start.IsInt64() {
		return math.MinInt64
	}
	return start.Int64()
}

func TestGroupsHaveALimit(t *testing.T) {
	g := NewGroupTable(record.GroupBy{MID: true}, nil, nil, 1000)
	for i := range int64(1000) {
		if _, err := g.id(groupKey{mid: i << 32}); err != nil {
			t.Fatal(err)
		}
	}
	if id, err := g.id(groupKey{mid: 999 << 32}); err != nil || id != 999 {
		t.Errorf("a group that is there: %d, %v", id, err)
	}
	if _, err := g.id(groupKey{mid: -1}); err == nil {
		t.Error("the thousand and first group is there")
	}
}

// BenchmarkGroupByDay groups a year of quarter-hours of 30 devices by fixed days and by those of a
// calendar, device by device in order of time and in none.
func BenchmarkGroupByDay(b *testing.B) {
	berlin := record.Window{Unit: record.WindowDay, N: 1, Zone: "Europe/Berlin"}
	const quarterNs = int64(15 * time.Minute)
	var batches [2][]record.Batch
	for device := range int64(30) {
		for _, shuffled := range []int{0, 1} {
			var rows record.Batch
			for i := range int64(2048) {
				at := device*2048%35000 + i
				if shuffled == 1 {
					at = rand.Int64N(35000)
				}
				rows.Append(record.Key{MID: device, CapNs: 1767222000e9 + at*quarterNs}, nil)
			}
			batches[shuffled] = append(batches[shuffled], rows)
		}
	}
	for i, order := range []string{"sorted", "shuffled"} {
		for _, by := range []record.GroupBy{{MID: true, CapBucketNs: 86400e9},
			{MID: true, Window: berlin}} {
			cal, err := calendar.ForWindow(by.Window)
			if err != nil {
				b.Fatal(err)
			}
			name := order + "/fixed"
			if cal != nil {
				name = order + "/calendar"
			}
			b.Run(name, func(b *testing.B) {
				var runs []wasmhost.GroupRun
				rows := 0
				for b.Loop() {
					g := NewGroupTable(by, cal, nil, 1<<20)
					for k := range batches[i] {
						if runs, err = g.AppendRuns(&batches[i][k], runs[:0]); err != nil {
							b.Fatal(err)
						}
						rows += batches[i][k].Len()
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
			})
		}
	}
}
