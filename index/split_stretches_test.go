package index

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestSplitStretches: the blocks are those of dividing items one by one, whatever devices there are
// and however their caps and ranks are spread, and whichever dimension is widest.
func TestSplitStretches(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 200 {
		rows := stretchedRows(rng)
		items, stretched := new(Layout), new(Layout)
		lay := func(to *Layout, split func(c *Clusterer, items []item)) {
			c := NewClusterer(Options{BlockRows: 8 << (round % 5)})
			c.begin(rows, nil)
			c.use(to)
			c.group(nil)
			g := &c.groups[0]
			c.derive(g)
			for i, unit := range []*float64{&c.unitMID, &c.unitCapNs, &c.unitRank} {
				if round>>i&1 == 0 {
					*unit *= 1e3
				}
			}
			of := c.bySeries(g, 0, 1)
			if !c.ranksAscend {
				t.Fatal("ranks do not ascend")
			}
			split(c, of)
			_ = c.end()
		}
		lay(items, (*Clusterer).split)
		lay(stretched, (*Clusterer).splitStretches)
		if !reflect.DeepEqual(items, stretched) {
			t.Fatalf("round %d: %d rows are divided in another way", round, rows.Len())
		}
	}
}

// stretchedRows returns rows of one quantity, of which caps and ranks ascend in each series.
func stretchedRows(rng *rand.Rand) *record.Batch {
	rows := new(record.Batch)
	devices, step := 1+rng.IntN(1<<rng.IntN(9)), 1+rng.Int64N(1<<rng.IntN(40))
	capsNs := make([]int64, devices)
	aligned, equal := rng.IntN(2) == 0, rng.IntN(4) == 0
	for i := range 1 + rng.IntN(1<<(4+rng.IntN(12))) {
		d := i % devices
		if !aligned {
			d = rng.IntN(devices)
		}
		if !equal || rng.IntN(3) == 0 {
			capsNs[d] += 1 + step*int64(1+d%2)
		}
		rows.AppendStamped(record.Key{CID: 1, MID: int64(d), MOID: 3,
			CapNs: capsNs[d] - 1<<20, AcqNs: int64(i)}, nil)
	}
	return rows
}

// TestStretchesAreUsed: rows of few devices that came in order are divided as stretches, others are
// not.
func TestStretchesAreUsed(t *testing.T) {
	f := func(devices int, backwards, want bool) {
		t.Helper()
		rows := new(record.Batch)
		for i := range 1000 {
			capNs := int64(i)
			if backwards {
				capNs = -capNs
			}
			rows.AppendStamped(record.Key{MID: int64(i % devices), CapNs: capNs, AcqNs: int64(i)},
				nil)
		}
		c := NewClusterer(small())
		c.Cluster(rows, new(Layout))
		if got := cap(c.cuts) > 0; got != want {
			t.Errorf("%d devices, backwards %v: as stretches %v", devices, backwards, got)
		}
	}
	f(10, false, true)
	f(10, true, false)
	f(100, false, false)
}
