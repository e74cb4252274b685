package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// town is a tenant with described devices, as a map has them.
type town struct {
	*testing.T
	rng     *rand.Rand
	devices map[int64]client.DescribedDevice
	capNs   int64
}

const townCID = 9

// describe describes some devices, known ones among them, and stores a reading of each.
func (w *town) describe(c *client.Client, count int) {
	w.Helper()
	var some []client.DescribedDevice
	b := &record.Batch{}
	w.capNs++
	for range count {
		mid := w.rng.Int64N(300) * 256 // in all groups
		if slices.ContainsFunc(some, func(d client.DescribedDevice) bool { return d.MID == mid }) {
			continue
		}
		d := client.DescribedDevice{MID: mid, FromNs: w.capNs, Description: registry.Description{
			Name:  fmt.Sprint("t", mid),
			Type:  []string{"thermometer", "meter"}[w.rng.IntN(2)],
			Group: fmt.Sprintf("oulu/b%d", w.rng.IntN(3)),
			Place: &registry.Place{Lat: 65 + w.rng.Float64(), Lon: 25}}}
		some = append(some, d)
		w.devices[mid] = d
		b.Append(record.Key{CID: townCID, MID: mid, MOID: 1, CapNs: 1}, []byte("x"))
	}
	if err := c.DescribeDevices(w.Context(), townCID, some); err != nil {
		w.Fatal(err)
	}
	if _, err := c.Put(w.Context(), b, [16]byte{}, 0); err != nil {
		w.Fatal(err)
	}
}

// check selects by a node what the map selects.
func (w *town) check(c *client.Client) {
	w.Helper()
	c = c.Linearizable()
	for _, text := range []string{"type=meter", "group^=oulu/b1/, type=thermometer", "missing",
		"within(65,24,65.5,26) or name=t0"} {
		s, err := registry.ParseSelector(text)
		if err != nil {
			w.Fatal(err)
		}
		var want []client.DescribedDevice
		for _, d := range w.devices {
			if s.Match(&d.Description) {
				want = append(want, d)
			}
		}
		slices.SortFunc(want, func(a, b client.DescribedDevice) int { return int(a.MID - b.MID) })
		got, err := c.SelectDevices(w.Context(), townCID, text)
		if err != nil || !slices.EqualFunc(got, want, func(a, b client.DescribedDevice) bool {
			return a.MID == b.MID && a.FromNs == b.FromNs && a.Type == b.Type
		}) {
			w.Fatalf("%s: %d devices, want %d; %v", text, len(got), len(want), err)
		}
		q := &record.Query{View: record.ViewLatest, Select: text,
			Box: record.Box{record.CID: {record.At(townCID)}}}
		n, _, err := c.Count(w.Context(), q)
		if err != nil || n != uint64(len(want)) {
			w.Fatalf("%s: %d readings, want %d; %v", text, n, len(want), err)
		}
		aggregate := *q
		aggregate.Aggregate = record.PluginCall{Name: "count"}
		groups, _, err := c.Aggregate(w.Context(), &aggregate)
		if err != nil || len(groups) != min(1, len(want)) ||
			len(want) > 0 && groups[0].Records != uint64(len(want)) {
			w.Fatalf("%s: aggregated %+v, want %d; %v", text, groups, len(want), err)
		}
		x, err := c.Explain(w.Context(), q)
		if err != nil || x.Devices != len(want) {
			w.Fatalf("%s: explained with %d devices, want %d; %v", text, x.Devices, len(want), err)
		}
	}
}

func newTown(t *testing.T) *town {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return &town{T: t, rng: rand.New(rand.NewPCG(seed, 3)),
		devices: map[int64]client.DescribedDevice{}}
}

// TestSelectInACluster selects devices through all nodes, while groups are split.
func TestSelectInACluster(t *testing.T) {
	c := openTogether(t, 3, 2)
	w := newTown(t)
	for round := range 3 {
		if round > 0 {
			c.split(c.nodes[0], 1, 2+round)
			c.until("all parts have begun", func() bool { return c.parted() && c.settled(3) })
		}
		for _, n := range c.nodes {
			w.describe(dial(t, n), 100)
			w.check(dial(t, c.nodes[w.rng.IntN(len(c.nodes))]))
		}
	}
}

// TestSelectAlone selects devices of a node after it was restarted, and after an erase.
func TestSelectAlone(t *testing.T) {
	opt := Options{Dir: t.TempDir()}
	n := openTest(t, opt)
	w := newTown(t)
	w.describe(dial(t, n), 400)
	w.check(dial(t, n))
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n = openTest(t, opt)
	w.check(dial(t, n))
	w.describe(dial(t, n), 50)
	w.check(dial(t, n))
	box := record.Box{record.CID: {record.At(townCID)}, record.MID: {{From: 0, To: 100 * 256}}}
	box.IncludeReserved()
	if _, err := n.Erase(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	for mid := range w.devices {
		if mid < 100*256 {
			delete(w.devices, mid)
		}
	}
	w.check(dial(t, n))
}
