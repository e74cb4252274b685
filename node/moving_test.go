package node

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

const fleetCID, fleetLocation = 3, 20

// fleet is a tenant whose devices move, as maps have it.
type fleet struct {
	*testing.T
	rng       *rand.Rand
	types     map[int64]string
	locations map[int64]map[int64]registry.Place // by device and cap
	readings  map[record.Key]bool
	acqNs     int64 // above all of it
}

func newFleet(t *testing.T, c *client.Client) *fleet {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &fleet{T: t, rng: rand.New(rand.NewPCG(seed, 5)), types: map[int64]string{},
		locations: map[int64]map[int64]registry.Place{}, readings: map[record.Key]bool{}}
	err := c.SetQuantity(t.Context(), client.Quantity{MOID: fleetLocation, Name: "location",
		Type: plugin.Struct, Fields: []plugin.QuantityField{{Name: "lat", Type: plugin.F64},
			{Name: "lon", Type: plugin.F64, Offset: 8}, {Name: "alt", Type: plugin.F32,
				Offset: 16}}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func locationPayload(p registry.Place) []byte {
	b := binary.LittleEndian.AppendUint64(nil, math.Float64bits(p.Lat))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(p.Lon))
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(p.Alt)))
}

// drive moves devices and stores readings, which correct earlier ones here and there.
func (w *fleet) drive(c *client.Client, count int) {
	w.Helper()
	var b record.Batch
	put := map[record.Key]bool{} // once in a batch
	for range count {
		k := record.Key{CID: fleetCID, MID: w.rng.Int64N(40) * 256, MOID: 1,
			CapNs: w.rng.Int64N(500) * int64(time.Hour)}
		if w.rng.IntN(2) == 0 {
			k.MOID = fleetLocation
		}
		if put[k] {
			continue
		}
		if put[k] = true; k.MOID == 1 {
			w.readings[k] = true
			b.Append(k, f64(1))
			continue
		}
		p := registry.Place{Lat: 65 + w.rng.Float64()/10, Lon: 25 + w.rng.Float64()/10,
			Alt: float64(w.rng.IntN(20)), HasAlt: true}
		if w.locations[k.MID] == nil {
			w.locations[k.MID] = map[int64]registry.Place{}
		}
		w.locations[k.MID][k.CapNs] = p
		b.Append(k, locationPayload(p))
	}
	var some []client.DescribedDevice
	for mid := int64(0); mid < 30*256; mid += 256 { // the others have no description
		if w.types[mid] == "" || w.rng.IntN(10) == 0 {
			w.types[mid] = []string{"bus", "tram"}[w.rng.IntN(2)]
			w.acqNs++
			some = append(some, client.DescribedDevice{MID: mid, FromNs: w.acqNs,
				Description: registry.Description{Type: w.types[mid]}})
		}
	}
	if err := c.DescribeDevices(w.Context(), fleetCID, some); err != nil {
		w.Fatal(err)
	}
	if _, err := c.Put(w.Context(), &b, [16]byte{}, 0); err != nil {
		w.Fatal(err)
	}
}

// want counts what a question finds by days in UTC.
func (w *fleet) want(s *registry.Selector, from, to int64) map[int64]uint64 {
	days := map[int64]uint64{}
	for k := range w.readings {
		if k.CapNs < from || k.CapNs >= to {
			continue
		}
		d := registry.Description{Type: w.types[k.MID]}
		var seen, any int64 = -1, -1
		for capNs, p := range w.locations[k.MID] {
			if capNs < to {
				any = capNs
			}
			if capNs <= k.CapNs && capNs > seen {
				seen, d.Place = capNs, &p
			}
		}
		if (d.Type != "" || any >= 0) && s.Match(&d) {
			days[k.CapNs/int64(24*time.Hour)]++
		}
	}
	return days
}

func (w *fleet) check(c *client.Client) {
	w.Helper()
	c = c.Linearizable()
	for range 10 {
		south, west := 65+w.rng.Float64()/20, 25+w.rng.Float64()/20
		text := fmt.Sprintf("within(%v,%v,%v,%v)", south, west, south+0.05, west+0.05)
		text += []string{"", ", type=bus", " or alt=3..9, type=tram", ", !type=bus"}[w.rng.IntN(4)]
		s, err := registry.ParseSelector(text)
		if err != nil {
			w.Fatal(err)
		}
		q := record.Query{View: record.ViewLatest, Select: text, Moving: "location",
			Box: record.Box{record.CID: {record.At(fleetCID)}, record.MOID: {record.At(1)}}}
		from, to := int64(math.MinInt64), int64(math.MaxInt64)
		if w.rng.IntN(2) == 0 {
			from = w.rng.Int64N(400) * int64(time.Hour)
			to = from + 100*int64(time.Hour)
			q.Box[record.Cap] = record.RangeSet{{From: from, To: to}}
		}
		days, all := w.want(s, from, to), uint64(0)
		for _, n := range days {
			all += n
		}
		n, _, err := c.Count(w.Context(), &q)
		if err != nil || n != all {
			w.Fatalf("%s: counted %d, %v; want %d", text, n, err, all)
		}
		rows := 0
		for _, err := range c.Query(w.Context(), &q) {
			if rows++; err != nil {
				w.Fatal(err)
			}
		}
		x, err := c.Explain(w.Context(), &q)
		if err != nil || rows != int(all) || x.Found != all || all > 0 && x.Devices == 0 {
			w.Fatalf("%s: %d rows, explained %d of %d devices, %v; want %d", text, rows, x.Found,
				x.Devices, err, all)
		}
		q.Aggregate.Name = "count"
		groups, _, err := c.Aggregate(w.Context(), &q)
		if err != nil || all > 0 && (len(groups) != 1 || groups[0].Records != all) {
			w.Fatalf("%s: aggregated %v, %v; want %d", text, groups, err, all)
		}
		q.GroupBy.Window = record.Window{Unit: record.WindowDay, N: 1, Zone: "UTC"}
		groups, _, err = c.Aggregate(w.Context(), &q)
		if err != nil || len(groups) != len(days) || slices.ContainsFunc(groups,
			func(g wire.Group) bool { return days[g.CapNs/int64(24*time.Hour)] != g.Records }) {
			w.Fatalf("%s: by days %v, %v; want %v", text, groups, err, days)
		}
		q.GroupBy = record.GroupBy{Key: "type"}
		groups, _, err = c.Aggregate(w.Context(), &q)
		sum := uint64(0)
		for i := range groups {
			sum += groups[i].Records
		}
		if err != nil || sum != all {
			w.Fatalf("%s: by type %v, %v; want %d", text, groups, err, all)
		}
	}
}

// TestMovingAlone asks a node for readings by where their devices were.
func TestMovingAlone(t *testing.T) {
	n := openTest(t, Options{})
	w := newFleet(t, dial(t, n))
	for range 3 {
		w.drive(dial(t, n), 1500)
		w.check(dial(t, n))
		if err := n.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.check(dial(t, n))
	}
}

// TestMovingInACluster asks all nodes, while groups are split: locations are where the readings of
// their devices are.
func TestMovingInACluster(t *testing.T) {
	c := openTogether(t, 3, 2)
	w := newFleet(t, dial(t, c.nodes[0]))
	c.until("all nodes know the quantity", func() bool {
		return !slices.ContainsFunc(c.nodes, func(n *Node) bool {
			known, err := dial(t, n).Quantities(t.Context())
			return err != nil || len(known) == 0
		})
	})
	for round := range 2 {
		if round == 1 {
			c.split(c.nodes[0], 1, 3)
			c.until("all parts have begun", func() bool { return c.parted() && c.settled(3) })
		}
		for _, n := range c.nodes {
			w.drive(dial(t, n), 300)
			w.check(dial(t, c.nodes[w.rng.IntN(len(c.nodes))]))
		}
	}
}

// TestMovingInJSON asks over HTTP.
func TestMovingInJSON(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	newFleet(t, c)
	var b record.Batch
	for hour := range int64(4) {
		k := record.Key{CID: fleetCID, MID: 7, MOID: 1, CapNs: (2*hour + 1) * int64(time.Hour)}
		b.Append(k, f64(float64(hour)))
		k.MOID, k.CapNs = fleetLocation, 2*hour*int64(time.Hour)
		b.Append(k, locationPayload(registry.Place{Lat: 60 + float64(hour), Lon: 25}))
	}
	if _, err := c.Put(t.Context(), &b, [16]byte{}, 0); err != nil {
		t.Fatal(err)
	}
	f := func(path, want string) { t.Helper(); answers(t, n, path, "application/json", want) }
	const box = "cid=3&moid=1&select=within(60.5,20,62.5,30)"
	f("/v1/count?"+box+"&moving=location", `"records":2`)
	f("/v1/count?"+box+"&moving=20&moving_age=1h", `"records":2`)
	f("/v1/count?"+box+"&moving=20&moving_age=59m", `"records":0`)
	f("/v1/records?"+box+"&moving=location&type=f64&order=key", `"value":1`)
	f("/v1/windows?"+box+"&moving=location&every=1d&agg=count", `"records":2`)
	f("/v1/plugins/count/run?"+box+"&moving=location", `"records":2`)
	f("/v1/explain?"+box+"&moving=location", `"devices":1`)
	f("/v1/count?"+box+"&moving_age=1h", "is of locations; say moving=location")
	f("/v1/count?cid=3&moving=location", "is about places in select")
	f("/v1/count?"+box+"&moving=elsewhere", "there is no quantity")
}

// TestMovingRefused says what is wrong with a question.
func TestMovingRefused(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	f := func(selector, moving string) {
		t.Helper()
		q := record.Query{Select: selector, Moving: moving,
			Box: record.Box{record.CID: {record.At(fleetCID)}}}
		if _, _, err := c.Count(t.Context(), &q); err == nil {
			t.Errorf("%q, %q was answered", selector, moving)
		} else {
			t.Log(err)
		}
	}
	f("alt>3", "location") // is not declared
	newFleet(t, c)
	f("", "location")
	f("type=bus", "location")
	f("alt>3", "location,never")
	f("alt>3", "elsewhere")
	f("alt>3", "{}")
	f("alt=1 or alt=2 or alt=3 or alt=4 or alt=5 or alt=6 or alt=7", "location")
	err := c.SetQuantity(t.Context(), client.Quantity{MOID: 1, Name: "energy", Type: plugin.F64})
	if err != nil {
		t.Fatal(err)
	}
	f("alt>3", "energy")
}
