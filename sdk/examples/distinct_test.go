package examples

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// Distinct users of sites. A click is a record: the user as device, the site as quantity.
func Example_distinct() {
	const news, shop = 1, 2
	d := open()
	defer d.close()
	var b record.Batch
	for i := range int64(300) {
		b.Append(key(i%70, news, time.Duration(i)*time.Second), nil)
		b.Append(key(i%7, shop, time.Duration(i)*time.Second), nil)
	}
	d.put(&b)

	q := of(news, shop)
	q.GroupBy.MOID = true
	exact := q
	exact.Last = 1 // one record of each user of a site
	for _, site := range d.groups(exact, "count") {
		fmt.Println("site", site.MOID, "has users:", site.value["count"])
	}
	for _, site := range d.groups(q, "distinct", "of", "mid") {
		fmt.Println("site", site.MOID, "has about:", site.value["distinct"])
	}
	// Output:
	// site 1 has users: 70
	// site 2 has users: 7
	// site 1 has about: 71
	// site 2 has about: 7
}

const (
	sites     = 8
	clickers  = 1_000_000
	benchSize = 10_000_000
)

// clicks stores clicks of random users on random sites, and returns how many users each site had.
// The sites with low numbers have more.
func (d *db) clicks(count int, seed uint64) (want [sites]int) {
	rng := rand.New(rand.NewPCG(seed, 9))
	var seen [sites]map[int64]bool
	for site := range seen {
		seen[site] = map[int64]bool{}
	}
	w := d.NewWriter(client.WriterOptions{})
	for i := range count {
		site := rng.IntN(1 + rng.IntN(sites))
		user := rng.Int64N(clickers)
		seen[site][user] = true
		check(w.Add(context.Background(), key(user, int32(1+site), time.Duration(i)), nil))
	}
	check(w.Close(context.Background()))
	check(d.node.Seal(context.Background()))
	for site := range seen {
		want[site] = len(seen[site])
	}
	return want
}

// everySite is the box of all clicks, by site.
func everySite() record.Query {
	q := of()
	q.GroupBy.MOID = true
	return q
}

// byCompositeKey counts as a key-value store does: it reads the keys of a site by user, and counts
// where the user changes.
func (d *db) byCompositeKey() (counts [sites]int) {
	for site := range counts {
		q := of(int32(1 + site))
		q.View, q.Order, q.KeysOnly = record.ViewAll, record.OrderKey, true
		last := int64(-1)
		_, err := d.Scan(context.Background(), &q, func(b *record.Batch) error {
			for _, user := range b.MID {
				if user != last {
					counts[site]++
					last = user
				}
			}
			return nil
		})
		check(err)
	}
	return counts
}

// byLastReading counts the newest click of each user of a site.
func (d *db) byLastReading() (counts [sites]int) {
	q := everySite()
	q.Last = 1
	for _, g := range d.groups(q, "count") {
		counts[g.MOID-1] = int(g.value["count"].(uint64))
	}
	return counts
}

// bySketch estimates by a HyperLogLog in the node.
func (d *db) bySketch() (counts [sites]int) {
	q := everySite()
	q.View = record.ViewAll // versions of a click are those of one user
	for _, g := range d.groups(q, "distinct", "of", "mid") {
		counts[g.MOID-1] = int(g.value["distinct"].(uint64))
	}
	return counts
}

// TestDistinct counts users in three ways, and in maps.
func TestDistinct(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d := open()
	defer d.close()
	want := d.clicks(100_000, seed)
	if got := d.byCompositeKey(); got != want {
		t.Errorf("by composite key: %v, want %v", got, want)
	}
	if got := d.byLastReading(); got != want {
		t.Errorf("by the last reading: %v, want %v", got, want)
	}
	for site, got := range d.bySketch() {
		if off := float64(got)/float64(want[site]) - 1; off < -0.1 || off > 0.1 {
			t.Errorf("by sketch: site %d has %d users, want %d", site, got, want[site])
		}
	}
}

// BenchmarkDistinct counts the users of each site over 10 million clicks. The first sketch of a
// node makes the states of its blocks, which later ones find: both are measured.
func BenchmarkDistinct(b *testing.B) {
	d := open()
	defer d.close()
	began := time.Now()
	want := d.clicks(benchSize, 1)
	b.Logf("%d clicks stored in %v", benchSize, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	worst := 0.0
	for site, got := range d.bySketch() {
		worst = max(worst, 100*max(float64(got)/float64(want[site])-1,
			1-float64(got)/float64(want[site])))
	}
	first := time.Since(began)
	exactly := func(count func() [sites]int) func() {
		return func() {
			if got := count(); got != want {
				b.Fatalf("%v, want %v", got, want)
			}
		}
	}
	inTurns(b, way{"composite-key", exactly(d.byCompositeKey)},
		way{"newest-click", exactly(d.byLastReading)}, way{"sketch", func() { d.bySketch() }})
	b.ReportMetric(float64(first)/1e6, "ms-first-sketch")
	b.ReportMetric(worst, "percent-off")
}
