package index

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestClusterInParts: parts are the whole layout, one after another, whatever their size.
func TestClusterInParts(t *testing.T) {
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		whole, c := clusterRows(rows, small()), NewClusterer(small())
		c.partRows = 1 + rng.IntN(300)
		got, layouts, parts := new(Layout), [2]Layout{}, 0
		err := c.ClusterInParts(rows, &layouts[0], func(part *Layout) (*Layout, error) {
			appendPart(got, part)
			parts++
			return &layouts[parts%2], nil
		})
		if err != nil || !reflect.DeepEqual(got, whole) && rows.Len() > 0 {
			t.Fatalf("%d parts of up to %d rows differ from the whole: %v", parts, c.partRows, err)
		}
		checkSeries(t, c.Series(), rows)
		if parts == 0 {
			return
		}
		left, want := rng.IntN(parts), errors.New("enough")
		err = c.ClusterInParts(rows, &layouts[0], func(*Layout) (*Layout, error) {
			if left--; left < 0 {
				return nil, want
			}
			return &layouts[1], nil
		})
		if !errors.Is(err, want) || left != -1 {
			t.Fatalf("%v after the error of take, %d parts later", err, -1-left)
		}
	})
}

// appendPart appends a part to a layout.
func appendPart(to, part *Layout) {
	base := uint32(len(to.Order))
	to.Order = append(to.Order, part.Order...)
	to.OnTime += part.OnTime
	for i, end := range part.BlockEnds {
		subs := part.SubEnds[i]
		for k := range subs {
			subs[k] += base
		}
		to.BlockEnds, to.SubEnds = append(to.BlockEnds, base+end), append(to.SubEnds, subs)
	}
	for k := range part.Order {
		to.Keys.AppendStamped(part.Keys.Key(k), nil)
	}
}

// checkSeries compares series with those in a map.
func checkSeries(t *testing.T, got []SeriesCap, rows *record.Batch) {
	t.Helper()
	want := map[Series]int64{}
	for i := range rows.Len() {
		s := Series{CID: rows.CID[i], MOID: rows.MOID[i], MID: rows.MID[i]}
		if capNs, ok := want[s]; !ok || capNs < rows.CapNs[i] {
			want[s] = rows.CapNs[i]
		}
	}
	if len(got) != len(want) || !slices.IsSortedFunc(got, func(a, b SeriesCap) int {
		return a.Compare(b.Series)
	}) {
		t.Fatalf("%d series of %d, or not in order", len(got), len(want))
	}
	for _, s := range got {
		if capNs, ok := want[s.Series]; !ok || capNs != s.MaxCapNs {
			t.Fatalf("series %+v, want cap %d, %v", s, capNs, ok)
		}
	}
}

// TestSortByDevice sorts items of few and of many devices, some of which are in order, and compares
// with a stable sort.
func TestSortByDevice(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	c := NewClusterer(Options{})
	for range 300 {
		items := make([]item, rng.IntN(1<<rng.IntN(14)))
		devices, lowest := 1+rng.Uint32N(1<<rng.IntN(30)), rng.Uint32N(1<<30)
		for i := range items {
			items[i] = item{mid: lowest + rng.Uint32N(devices), cap: int64(i), rank: uint32(i)}
		}
		want := slices.Clone(items)
		slices.SortStableFunc(want, func(a, b item) int { return int(a.mid) - int(b.mid) })
		if rng.IntN(8) == 0 {
			items = slices.Clone(want)
		}
		if c.sortByDevice(items); !slices.Equal(items, want) {
			t.Fatalf("%d items of %d devices are not in order", len(items), devices)
		}
	}
}

// TestWideCaps makes sub-runs of caps whose differences do not fit a key with the position.
func TestWideCaps(t *testing.T) {
	rows := new(record.Batch)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 1000 {
		capNs := int64(rng.Uint64())
		if i%5 == 0 {
			capNs = record.Cap.Min() + int64(i%3)
		}
		rows.AppendStamped(record.Key{MID: int64(i % 40), CapNs: max(capNs, record.Cap.Min()),
			AcqNs: int64(i)}, nil)
	}
	l := new(Layout)
	NewClusterer(small()).ClusterTile(rows, true, l)
	start := uint32(0)
	for i, end := range l.BlockEnds {
		checkBlock(t, rows, l, i, start, end)
		start = end
	}
}
