package node

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// Quantities of a town's readings: an f64, and a struct of an f32 and a text.
const (
	valueMOID = 2
	stateMOID = 3
)

// townReadings are the readings of a town as maps have them: all versions, and the newest payload
// of each key.
type townReadings struct {
	*town
	nodes    []*Node
	versions []reading
	latest   map[record.Key]string
}

type reading struct {
	key     record.Key
	payload string
}

// payload makes one of a quantity, sometimes one that does not fit it.
func (r *townReadings) payload(moid int32) []byte {
	value := float64(r.rng.IntN(400)-200) / 4
	switch r.rng.IntN(100) {
	case 0:
		value = math.NaN()
	case 1:
		value = math.Inf(1 - 2*r.rng.IntN(2))
	case 2:
		value = math.Copysign(0, -1)
	case 3:
		return make([]byte, r.rng.IntN(20))
	}
	if moid == valueMOID {
		return f64(value)
	}
	out := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(value)))
	return append(out, []string{"", "kWh", "kW", "°C", "k"}[r.rng.IntN(5)]...)
}

// put stores readings of random devices, some of them newer versions, and some of devices that
// nothing describes.
func (r *townReadings) put(c *client.Client, count int) {
	r.Helper()
	b, now := &record.Batch{}, map[record.Key]bool{}
	for range count {
		key := record.Key{CID: townCID, MID: r.rng.Int64N(350) * 256,
			MOID: valueMOID + r.rng.Int32N(2), CapNs: r.rng.Int64N(20)}
		if now[key] {
			continue
		}
		now[key] = true
		one := reading{key, string(r.payload(key.MOID))}
		b.Append(key, []byte(one.payload))
		r.versions = append(r.versions, one)
		r.latest[key] = one.payload
	}
	if _, err := c.Put(r.Context(), b, [16]byte{}, 0); err != nil {
		r.Fatal(err)
	}
}

// townCondition is a condition, and what it says of a value, and of a unit if there is one.
type townCondition struct {
	text  string
	meets func(value float64, unit string) bool
}

// randomCondition makes a condition of a quantity by simple comparisons.
func randomCondition(rng *rand.Rand, moid int32, depth int) townCondition {
	if depth > 0 && rng.IntN(3) > 0 {
		a, b := randomCondition(rng, moid, depth-1), randomCondition(rng, moid, depth-1)
		switch rng.IntN(3) {
		case 0:
			return townCondition{a.text + " and (" + b.text + ")",
				func(v float64, u string) bool { return a.meets(v, u) && b.meets(v, u) }}
		case 1:
			return townCondition{"(" + a.text + " or " + b.text + ")",
				func(v float64, u string) bool { return a.meets(v, u) || b.meets(v, u) }}
		}
		return townCondition{"not (" + a.text + ")",
			func(v float64, u string) bool { return !a.meets(v, u) }}
	}
	if moid == stateMOID && rng.IntN(2) == 0 {
		text := []string{"", "k", "kWh", "°C"}[rng.IntN(4)]
		if rng.IntN(2) == 0 {
			return townCondition{fmt.Sprintf(`unit ^= "%s"`, text),
				func(_ float64, u string) bool { return strings.HasPrefix(u, text) }}
		}
		return townCondition{fmt.Sprintf(`unit == "%s"`, text),
			func(_ float64, u string) bool { return u == text }}
	}
	x := float64(rng.IntN(440)-220) / 4
	number := strconv.FormatFloat(x, 'g', -1, 64)
	all := []townCondition{
		{"value > " + number, func(v float64, _ string) bool { return v > x }},
		{"value <= " + number, func(v float64, _ string) bool { return v <= x }},
		{"value not in (0, " + number + ")",
			func(v float64, _ string) bool { return v != x && v != 0 }},
		{"value = " + number + "..25", func(v float64, _ string) bool { return x <= v && v < 25 }},
		{"value > 1e9", func(v float64, _ string) bool { return v > 1e9 }},
	}
	if x >= 25 {
		return all[0]
	}
	return all[rng.IntN(len(all))]
}

// fits looks at a payload.
func (c *townCondition) fits(moid int32, payload string) bool {
	if moid == valueMOID {
		return len(payload) == 8 &&
			c.meets(math.Float64frombits(binary.LittleEndian.Uint64([]byte(payload))), "")
	}
	return len(payload) >= 4 &&
		c.meets(float64(math.Float32frombits(binary.LittleEndian.Uint32([]byte(payload)))),
			payload[4:])
}

// check asks with selectors and conditions together, in both views, and holds all that is found
// against the maps.
func (r *townReadings) check() {
	r.Helper()
	for _, selector := range []string{"type=meter", "group^=oulu/b1/, !type=meter", "missing", ""} {
		for range 3 {
			n := r.nodes[r.rng.IntN(len(r.nodes))]
			moid := valueMOID + r.rng.Int32N(2)
			r.checkOne(n, &record.Query{Select: selector, Box: record.Box{
				record.CID:  {record.At(townCID)},
				record.MOID: {record.At(int64(moid))}}}, randomCondition(r.rng, moid, 3))
		}
	}
}

func (r *townReadings) checkOne(n *Node, q *record.Query, condition townCondition) {
	r.Helper()
	selected := func(*registry.Description) bool { return true }
	if q.Select != "" {
		s, err := registry.ParseSelector(q.Select)
		if err != nil {
			r.Fatal(err)
		}
		selected = s.Match
	}
	var latest []reading
	for key, payload := range maps.All(r.latest) {
		latest = append(latest, reading{key, payload})
	}
	q.Where = condition.text
	c := dial(r.T, n).Linearizable()
	for view, all := range map[record.View][]reading{
		record.ViewAll: r.versions, record.ViewLatest: latest} {
		var want, got []string
		for _, one := range all {
			d, known := r.devices[one.key.MID]
			if one.key.MOID == int32(q.Box[record.MOID][0].From) &&
				(q.Select == "" || known && selected(&d.Description)) &&
				condition.fits(one.key.MOID, one.payload) {
				want = append(want,
					fmt.Sprintf("%d %d %x", one.key.MID, one.key.CapNs, one.payload))
			}
		}
		asked := *q
		asked.View = view
		for found, err := range c.Query(r.Context(), &asked) {
			if err != nil {
				r.Fatalf("%s, %s: %v", q.Select, q.Where, err)
			}
			got = append(got, fmt.Sprintf("%d %d %x", found.MID, found.CapNs, found.Payload))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			r.Fatalf("%s, %s, view %d: %d readings, want %d", q.Select, q.Where, view, len(got),
				len(want))
		}
		whereAnswers(r.T, c, asked, uint64(len(want)))
		r.checkHTTP(n, &asked, len(want))
	}
}

// checkHTTP asks by the JSON interface, and by the methods of the node.
func (r *townReadings) checkHTTP(n *Node, q *record.Query, want int) {
	r.Helper()
	args := url.Values{"cid": {strconv.Itoa(townCID)}, "where": {q.Where},
		"moid": {fmt.Sprint(q.Box[record.MOID][0].From)}, "read": {"linearizable"},
		"view": {[]string{"all", "latest"}[q.View]}}
	if q.Select != "" {
		args.Set("select", q.Select)
	}
	get := func(path string) string {
		answer, err := http.Get("http://" + n.Addr().String() + path + args.Encode())
		if err != nil {
			r.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			r.Fatalf("%s: %s, %v", path, body, err)
		}
		return string(body)
	}
	records := fmt.Sprintf(`"records":%d`, want)
	if got := get("/v1/count?"); !strings.Contains(got, records+"}") {
		r.Fatalf("%s, %s: %s, want %d", q.Select, q.Where, got, want)
	}
	windows := get("/v1/windows?every=1d&agg=count&")
	if strings.Contains(windows, records+",") != (want > 0) {
		r.Fatalf("%s, %s: windows %s, want %d", q.Select, q.Where, windows, want)
	}
	if got := strings.Count(get("/v1/records?"), `"moid":`); got != want {
		r.Fatalf("%s, %s: %d records of JSON, want %d", q.Select, q.Where, got, want)
	}
	asked := *q
	if len(r.nodes) > 1 {
		return // it does not wait for what other nodes acknowledged
	}
	if got, _, err := n.Count(r.Context(), &asked); err != nil || got != uint64(want) {
		r.Fatalf("%s, %s: embedded %d, %v; want %d", q.Select, q.Where, got, err, want)
	}
}

func newTownReadings(t *testing.T, nodes ...*Node) *townReadings {
	c := dial(t, nodes[0])
	for _, q := range []client.Quantity{{MOID: valueMOID, Name: "value", Type: "f64"},
		{MOID: stateMOID, Name: "state", Type: plugin.Struct, Fields: []client.QuantityField{
			{Name: "value", Type: "f32"}, {Name: "unit", Type: "text", Offset: 4}}}} {
		if err := c.SetQuantity(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	return &townReadings{town: newTown(t), nodes: nodes, latest: map[record.Key]string{}}
}

// TestSelectWhere asks for readings by their device and their payload at once, in heads and blocks,
// with corrections and payloads that do not fit.
func TestSelectWhere(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	r := newTownReadings(t, n)
	for range 3 {
		r.describe(c, 150)
		r.put(c, 4000)
		r.check()
		if err := n.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.check()
		r.put(c, 500)
		r.check()
	}
}

// TestSelectWhereInACluster: each node selects devices and readings of the groups that it has.
func TestSelectWhereInACluster(t *testing.T) {
	c := openTogether(t, 3, 2)
	r := newTownReadings(t, c.nodes...)
	for _, n := range c.nodes { // each binds conditions to the quantities that it knows
		c.until("a node knows the quantities", func() bool {
			all, err := dial(t, n).Quantities(t.Context())
			return err == nil && len(all) == 2
		})
	}
	for _, n := range c.nodes {
		r.describe(dial(t, n), 100)
		r.put(dial(t, n), 2000)
		r.check()
	}
}
