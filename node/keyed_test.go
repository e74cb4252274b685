package node

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// keyed is a tenant whose readings are grouped by what their devices have, as maps have them.
type keyed struct {
	*testing.T
	rng      *rand.Rand
	devices  map[int64]*registry.Description
	readings map[record.Key]bool // acq is 0
	before   []keyedThen
	capNs    int64
}

// keyedThen is what was known below an acq.
type keyedThen struct {
	acqNs    int64
	devices  map[int64]*registry.Description
	readings map[record.Key]bool
}

func newKeyed(t *testing.T) *keyed {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return &keyed{T: t, rng: rand.New(rand.NewPCG(seed, 4)),
		devices: map[int64]*registry.Description{}, readings: map[record.Key]bool{}}
}

func (w *keyed) description() *registry.Description {
	d := &registry.Description{Attributes: map[string]registry.Value{}}
	if w.rng.IntN(5) > 0 {
		d.Type = []string{"thermometer", "meter", "valve"}[w.rng.IntN(3)]
	}
	if levels := w.rng.IntN(4); levels > 0 {
		path := fmt.Sprintf("oulu/b%d/f%d", w.rng.IntN(3), w.rng.IntN(3))
		d.Group = []string{"oulu", path[:7], path}[levels-1]
	}
	switch w.rng.IntN(4) {
	case 0:
		d.Attributes["owner"] = registry.Text([]string{"acme", "beta", "2"}[w.rng.IntN(3)])
	case 1:
		d.Attributes["owner"] = registry.Number(float64(w.rng.IntN(3)))
	case 2:
		d.Attributes["owner"] = registry.Bool(w.rng.IntN(2) == 0)
	}
	d.Retired = w.rng.IntN(3) == 0
	return d
}

// change describes some devices and stores readings of some, described ones or not.
func (w *keyed) change(c *client.Client, count int) {
	w.Helper()
	devices, readings := map[int64]*registry.Description{}, map[record.Key]bool{}
	for mid, d := range w.devices {
		devices[mid] = d
	}
	for k := range w.readings {
		readings[k] = true
	}
	var some []client.DescribedDevice
	var b record.Batch
	w.capNs++
	for range count {
		mid := w.rng.Int64N(300) * 256 // in all groups
		k := record.Key{CID: townCID, MID: mid, MOID: 1,
			CapNs: w.rng.Int64N(20*24) * int64(time.Hour)}
		if !readings[k] {
			readings[k] = true
			b.Append(k, []byte("x"))
		}
		if mid = w.rng.Int64N(250) * 256; devices[mid] == nil || w.rng.IntN(3) == 0 {
			d := w.description()
			if !slices.ContainsFunc(some, func(o client.DescribedDevice) bool {
				return o.MID == mid
			}) {
				some = append(some, client.DescribedDevice{MID: mid, FromNs: w.capNs,
					Description: *d})
				devices[mid] = d
			}
		}
	}
	if err := c.DescribeDevices(w.Context(), townCID, some); err != nil {
		w.Fatal(err)
	}
	reply, err := c.Put(w.Context(), &b, [16]byte{}, 0)
	if err != nil {
		w.Fatal(err)
	}
	w.devices, w.readings = devices, readings
	w.before = append(w.before, keyedThen{reply.LastAcqNs + 1, devices, readings})
}

// check groups by a node as the maps do, now and as of earlier.
func (w *keyed) check(c *client.Client) {
	w.Helper()
	c = c.Linearizable()
	for range 30 {
		then := w.before[w.rng.IntN(len(w.before))]
		q := record.Query{View: record.ViewAsOf, AsOfAcqNs: then.acqNs,
			Aggregate: record.PluginCall{Name: "count"},
			Box:       record.Box{record.CID: {record.At(townCID)}}}
		if w.rng.IntN(2) == 0 {
			then = keyedThen{0, w.devices, w.readings}
			q.View, q.AsOfAcqNs = record.ViewLatest, 0
		}
		q.GroupBy.Key = []string{"type", "group", "group[1]", "group[2]", "group[3]", "owner",
			"retired", "missing"}[w.rng.IntN(8)]
		for range w.rng.IntN(3) {
			more := []string{"type", "group[2]", "owner", "retired", "missing"}[w.rng.IntN(5)]
			if keys, err := registry.AppendKey(q.GroupBy.Key, more); err == nil {
				q.GroupBy.Key = keys
			}
		}
		q.GroupBy.MID, q.GroupBy.MOID = w.rng.IntN(4) == 0, w.rng.IntN(4) == 0
		switch w.rng.IntN(3) {
		case 0:
			q.GroupBy.Window = record.Window{Unit: record.WindowDay, N: 1, Zone: "Europe/Helsinki"}
		case 1:
			q.GroupBy.CapBucketNs = int64(time.Hour)
		}
		switch w.rng.IntN(4) {
		case 0:
			q.Box[record.MID] = record.RangeSet{record.At(256), {From: 512, To: 1025}}
		case 1:
			q.Select = "type=meter or owner=2"
		case 2:
			q.Box[record.MID] = record.RangeSet{{From: 0, To: 100 * 256}}
		}
		if w.rng.IntN(5) == 0 {
			q.Limit = 1 + w.rng.Uint64N(5)
		}
		w.compare(c, &q, then)
	}
}

func (w *keyed) compare(c *client.Client, q *record.Query, then keyedThen) {
	w.Helper()
	want := w.groups(q, then)
	got, _, err := c.Aggregate(w.Context(), q)
	for i := range got {
		got[i].Result = nil
	}
	if err != nil || !slices.EqualFunc(got, want, func(a, b wire.Group) bool {
		return fmt.Sprint(a) == fmt.Sprint(b) && slices.Equal(a.Values, b.Values)
	}) {
		w.Fatalf("by %s, %+v, select %q, as of %d: %d groups %v\nwant %d %v; %v", q.GroupBy.Key,
			q.GroupBy, q.Select, q.AsOfAcqNs, len(got), got, len(want), want, err)
	}
}

func (w *keyed) groups(q *record.Query, then keyedThen) (list []wire.Group) {
	keys, err := registry.ParseKeys(q.GroupBy.Key)
	if err != nil {
		w.Fatal(err)
	}
	cal, err := calendar.ForWindow(q.GroupBy.Window)
	if err != nil {
		w.Fatal(err)
	}
	var selector *registry.Selector
	if q.Select != "" {
		if selector, err = registry.ParseSelector(q.Select); err != nil {
			w.Fatal(err)
		}
	}
	type group struct {
		values [registry.MaxKeys]registry.Value
		mid    int64
		moid   int32
		capNs  int64
	}
	counts := map[group]uint64{}
	for k := range then.readings {
		var g group
		d := then.devices[k.MID]
		for i, key := range keys {
			if d != nil {
				g.values[i], _ = key.Of(d)
			}
		}
		if !q.Box[record.MID].Contains(k.MID) || selector != nil && (d == nil ||
			!selector.Match(d)) {
			continue
		}
		if q.GroupBy.MID {
			g.mid = k.MID
		}
		if q.GroupBy.MOID {
			g.moid = k.MOID
		}
		if cal != nil {
			g.capNs, _ = cal.Window(k.CapNs)
		} else if width := q.GroupBy.CapBucketNs; width > 0 {
			g.capNs = k.CapNs / width * width
		}
		counts[g]++
	}
	for g, n := range counts {
		list = append(list, wire.Group{MID: g.mid, MOID: g.moid, CapNs: g.capNs, Records: n,
			Values: g.values[:len(keys)]})
	}
	slices.SortFunc(list, func(a, b wire.Group) int {
		if a.MID != b.MID {
			return cmp.Compare(a.MID, b.MID)
		}
		if by := registry.CompareValues(a.Values, b.Values); by != 0 {
			return by
		}
		return int(a.CapNs/1e9 - b.CapNs/1e9)
	})
	if q.Limit > 0 {
		list = list[:min(len(list), int(q.Limit))]
	}
	return list
}

// TestGroupByKeyAlone groups readings of a node by what their devices have, also after a restart,
// and where groups exceed memory.
func TestGroupByKeyAlone(t *testing.T) {
	opt := Options{Dir: t.TempDir()}
	n := openTest(t, opt)
	w := newKeyed(t)
	for range 3 {
		w.change(dial(t, n), 400)
		w.check(dial(t, n))
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n = openTest(t, opt)
	w.check(dial(t, n))
	w.change(dial(t, n), 100)
	n.engine.Limits.Spill = spill.New(t.TempDir(), 1<<20)
	n.engine.Limits.MemoryGroups = 5
	w.check(dial(t, n))
}

// TestGroupByKeyInACluster does so through all nodes, while groups are split and where they exceed
// memory: values are numbered by each node by itself.
func TestGroupByKeyInACluster(t *testing.T) {
	c := openTogether(t, 3, 2)
	w := newKeyed(t)
	for round := range 3 {
		if round == 1 {
			c.split(c.nodes[0], 1, 3)
			c.until("all parts have begun", func() bool { return c.parted() && c.settled(3) })
		}
		for _, n := range c.nodes {
			if round == 2 {
				n.engine.Limits.MemoryGroups = 5
			}
			w.change(dial(t, n), 100)
			w.check(dial(t, c.nodes[w.rng.IntN(len(c.nodes))]))
		}
	}
}

// TestGroupByKeyRefused says what is wrong with a question.
func TestGroupByKeyRefused(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	for _, by := range []record.GroupBy{{Key: "group[0]"}, {Key: "mid"}, {Key: "type,type"},
		{Key: "a,b,c,d,e,f,g,h,i"}} {
		q := record.Query{Aggregate: record.PluginCall{Name: "count"}, GroupBy: by,
			Box: record.Box{record.CID: {record.At(townCID)}}}
		if _, _, err := c.Aggregate(t.Context(), &q); err == nil {
			t.Errorf("%+v was answered", by)
		}
	}
	q := record.Query{Aggregate: record.PluginCall{Name: "count"},
		GroupBy: record.GroupBy{Key: "type"}}
	if _, _, err := c.Aggregate(t.Context(), &q); err == nil {
		t.Error("groups of devices of all tenants")
	}
}

// answers asks a node over HTTP for what is in its answer.
func answers(t *testing.T, n *Node, path, accept, want string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+n.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(body), want) {
		t.Errorf("%s: %d %s, %v; want %s", path, resp.StatusCode, body, err, want)
	}
}

// TestGroupByKeyInJSON asks over HTTP, in JSON and CSV.
func TestGroupByKeyInJSON(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	describe := func(mid int64, d registry.Description) {
		t.Helper()
		err := c.DescribeDevices(t.Context(), 1, []client.DescribedDevice{{MID: mid, FromNs: 1,
			Description: d}})
		if err != nil {
			t.Fatal(err)
		}
		b := &record.Batch{}
		b.Append(record.Key{CID: 1, MID: mid, MOID: 1, CapNs: 1}, f64(2))
		if _, err := c.Put(t.Context(), b, [16]byte{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	describe(1, registry.Description{Group: "oulu/b7/f3", Attributes: map[string]registry.Value{
		"floor": registry.Number(3), "wired": registry.Bool(true)}})
	describe(2, registry.Description{Group: "oulu/b7/f2"})
	describe(3, registry.Description{Group: "oulu"})
	f := func(path, accept, want string) { t.Helper(); answers(t, n, path, accept, want) }
	const run = "/v1/plugins/count/run?cid=1&group="
	f(run+"group[2]", "application/json", `[{"group[2]":null,"records":1,"result":{"count":1}},`+
		`{"group[2]":"oulu/b7","records":2,"result":{"count":2}}]`)
	f(run+"floor", "application/json", `{"floor":3,"records":1`)
	f(run+"wired,moid", "application/json",
		`{"moid":1,"records":1,"result":{"count":1},"wired":true}`)
	f(run+"group[2]", "text/csv", "group[2],records,count\n,1,1\noulu/b7,2,2\n")
	f("/v1/windows?cid=1&every=1d&agg=count&group=floor", "text/csv",
		"start,hours,floor,records,count\n1970-01-01T00:00:00Z,24,,2,2\n")
	f(run+"group[0]", "application/json", "is not a level of groups")
	f(run+"floor,wired", "application/json",
		`{"floor":3,"records":1,"result":{"count":1},"wired":true}`)
	f(run+"floor,mid,wired", "text/csv", "mid,floor,wired,records,count\n1,3,true,1,1\n2,,,1,1\n3,")
	f(run+"floor,floor", "application/json", "has floor twice")
	f("/v1/plugins/count/run?group=type", "application/json", "choose one by cid")
}
