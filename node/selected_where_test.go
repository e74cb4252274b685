package node

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// valueMOID is the quantity of a town's readings, an f64.
const valueMOID = 2

// townReadings are the readings of a town as maps have them: all versions, and the newest value of
// each key.
type townReadings struct {
	*town
	versions []row
	latest   map[record.Key]float64
}

// put stores readings of random devices, some of them newer versions, and some of devices that
// nothing describes.
func (r *townReadings) put(c *client.Client, count int) {
	r.Helper()
	b, now := &record.Batch{}, map[record.Key]bool{}
	for range count {
		key := record.Key{CID: townCID, MID: r.rng.Int64N(350) * 256, MOID: valueMOID,
			CapNs: r.rng.Int64N(20)}
		if now[key] {
			continue
		}
		now[key] = true
		value := float64(r.rng.IntN(200)) / 4
		b.Append(key, f64(value))
		r.versions = append(r.versions, row{key, value})
		r.latest[key] = value
	}
	if _, err := c.Put(r.Context(), b, [16]byte{}, 0); err != nil {
		r.Fatal(err)
	}
}

// check asks with selectors and conditions together, in both views, and holds decoded values of all
// that is found against the maps.
func (r *townReadings) check(c *client.Client) {
	r.Helper()
	c = c.Linearizable()
	for _, selector := range []string{"type=meter", "group^=oulu/b1/, !type=meter", "missing"} {
		for text, meets := range map[string]func(v float64) bool{
			"value >= 10.25 and not value = 20..=30": func(v float64) bool {
				return v >= 10.25 && (v < 20 || v > 30)
			},
			"value in (1, 2.5, 49.75)": func(v float64) bool {
				return v == 1 || v == 2.5 || v == 49.75
			},
			"value > 1e9": func(float64) bool { return false },
		} {
			r.checkOne(c, &record.Query{Select: selector, Where: text, Box: record.Box{
				record.CID: {record.At(townCID)}, record.MOID: {record.At(valueMOID)}}}, meets)
		}
	}
}

func (r *townReadings) checkOne(c *client.Client, q *record.Query, meets func(float64) bool) {
	r.Helper()
	s, err := registry.ParseSelector(q.Select)
	if err != nil {
		r.Fatal(err)
	}
	latest := make([]row, 0, len(r.latest))
	for key, value := range r.latest {
		latest = append(latest, row{key, value})
	}
	for view, all := range map[record.View][]row{
		record.ViewAll: r.versions, record.ViewLatest: latest} {
		var want, got []string
		for _, reading := range all {
			d, known := r.devices[reading.key.MID]
			if known && s.Match(&d.Description) && meets(reading.value) {
				want = append(want, fmt.Sprint(reading.key.MID, reading.key.CapNs, reading.value))
			}
		}
		asked := *q
		asked.View = view
		for found, err := range c.Query(r.Context(), &asked) {
			if err != nil {
				r.Fatalf("%s, %s: %v", q.Select, q.Where, err)
			}
			got = append(got, fmt.Sprint(found.MID, found.CapNs,
				math.Float64frombits(binary.LittleEndian.Uint64(found.Payload))))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			r.Fatalf("%s, %s, view %d: %d readings, want %d", q.Select, q.Where, view, len(got),
				len(want))
		}
		whereAnswers(r.T, c, asked, uint64(len(want)))
	}
}

func newTownReadings(t *testing.T, c *client.Client) *townReadings {
	if err := c.SetQuantity(t.Context(), client.Quantity{MOID: valueMOID, Name: "value",
		Type: "f64"}); err != nil {
		t.Fatal(err)
	}
	return &townReadings{town: newTown(t), latest: map[record.Key]float64{}}
}

// TestSelectWhere asks for readings by their device and their value at once, in heads and blocks.
func TestSelectWhere(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	r := newTownReadings(t, c)
	for range 3 {
		r.describe(c, 150)
		r.put(c, 4000)
		r.check(c)
		if err := n.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.check(c)
	}
}

// TestSelectWhereInACluster: each node selects devices and readings of the groups that it has.
func TestSelectWhereInACluster(t *testing.T) {
	c := openTogether(t, 3, 2)
	r := newTownReadings(t, dial(t, c.nodes[0]))
	for _, n := range c.nodes { // each binds conditions to the quantities that it knows
		c.until("a node knows the quantity", func() bool {
			all, err := dial(t, n).Quantities(t.Context())
			return err == nil && len(all) == 1
		})
	}
	for _, n := range c.nodes {
		r.describe(dial(t, n), 100)
		r.put(dial(t, n), 2000)
		r.check(dial(t, c.nodes[r.rng.IntN(len(c.nodes))]))
	}
}
