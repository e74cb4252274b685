package node

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// exchanges are meters of a tenant that are exchanged for others, as maps have them.
type exchanges struct {
	*testing.T
	rng   *rand.Rand
	now   exchangesThen
	last  []int // by connection, the meter that is there
	mids  []int64
	hour  int64
	then  []exchangesThen
	total int
}

// exchangesThen is what was known below an acq.
type exchangesThen struct {
	acqNs      int64
	connection map[int64]string // by mid
	owner      map[int64]string
	readings   map[int64]map[int64]float64 // by mid and cap: what the register showed
}

func (e exchangesThen) clone() exchangesThen {
	e.connection, e.owner = maps.Clone(e.connection), maps.Clone(e.owner)
	readings := map[int64]map[int64]float64{}
	for mid, all := range e.readings {
		readings[mid] = maps.Clone(all)
	}
	e.readings = readings
	return e
}

// registerModulus is where the registers of the meters roll over.
const registerModulus = 1000

func newExchanges(t *testing.T, c *client.Client) *exchanges {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &exchanges{T: t, rng: rand.New(rand.NewPCG(seed, 5))}
	w.now = exchangesThen{connection: map[int64]string{}, owner: map[int64]string{}}.clone()
	for i := range 8 {
		name, owner := w.name(), fmt.Sprintf("owner %d", i%3)
		did, err := c.ChangeDevices(t.Context(), townCID, []client.DeviceChange{{Name: name,
			FromNs: 1, Change: registry.Change{
				Attributes: map[string]registry.Value{"owner": registry.Text(owner)}}}})
		if err != nil || did.Created != 1 {
			t.Fatal(did, err)
		}
		w.add(c, name, name, owner)
		w.last = append(w.last, len(w.mids)-1)
	}
	return w
}

// name returns that of the next meter.
func (w *exchanges) name() string { return fmt.Sprintf("meter/%d", len(w.mids)) }

// add learns of the id of a meter.
func (w *exchanges) add(c *client.Client, name, connection, owner string) {
	w.Helper()
	mids, err := c.FindDevices(w.Context(), townCID, []string{name})
	if err != nil || mids[0] == 0 {
		w.Fatal(mids, err)
	}
	w.mids = append(w.mids, mids[0])
	w.now.connection[mids[0]], w.now.owner[mids[0]] = connection, owner
	w.now.readings[mids[0]] = map[int64]float64{}
}

// change exchanges some meters, and reads all that are in use.
func (w *exchanges) change(c *client.Client) {
	w.Helper()
	w.now = w.now.clone()
	for at := range w.last {
		if w.rng.IntN(3) > 0 {
			continue
		}
		old, name := w.last[at], w.name()
		_, _, err := c.ReplaceDevice(w.Context(), townCID, fmt.Sprintf("meter/%d", old), name,
			w.hour*int64(time.Hour)+2)
		if err != nil {
			w.Fatal(err)
		}
		was := w.mids[old]
		w.add(c, name, w.now.connection[was], w.now.owner[was])
		w.last[at] = len(w.mids) - 1
	}
	var b record.Batch
	for range 30 {
		w.hour += 1 + w.rng.Int64N(20)
		for _, at := range w.last {
			if w.rng.IntN(3) == 0 {
				continue
			}
			mid, capNs := w.mids[at], w.hour*int64(time.Hour)
			x := float64((capNs/1e9 + mid*37) % registerModulus) // any register, also one that fell
			w.now.readings[mid][capNs] = x
			b.Append(record.Key{CID: townCID, MID: mid, MOID: 1, CapNs: capNs}, f64(x))
		}
	}
	reply, err := c.Put(w.Context(), &b, [16]byte{}, 0)
	if err != nil {
		w.Fatal(err)
	}
	w.now.acqNs = reply.LastAcqNs + 1
	w.then = append(w.then, w.now)
}

// check asks what was consumed at connections and by owners, in months and in all, now and then.
func (w *exchanges) check(c *client.Client) {
	w.Helper()
	c = c.Linearizable()
	for range 20 {
		then := w.then[w.rng.IntN(len(w.then))]
		params := make([]byte, 32)
		copy(params[16:], f64(registerModulus))
		q := record.Query{View: record.ViewAsOf, AsOfAcqNs: then.acqNs,
			Aggregate: record.PluginCall{Name: "delta", Params: params},
			Box:       record.Box{record.CID: {record.At(townCID)}, record.MOID: {record.At(1)}}}
		if w.rng.IntN(2) == 0 {
			then, q.View, q.AsOfAcqNs = w.now, record.ViewLatest, 0
		}
		q.GroupBy.Key = []string{"connection", "owner", "owner,connection", ""}[w.rng.IntN(4)]
		if w.rng.IntN(2) == 0 {
			q.GroupBy.Window = record.Window{Unit: record.WindowDay, N: 1, Zone: "Europe/Helsinki"}
		}
		if w.rng.IntN(2) == 0 {
			from := w.rng.Int64N(w.hour + 1)
			q.Box[record.Cap] = record.RangeSet{{From: from * int64(time.Hour),
				To: (from + 1 + w.rng.Int64N(w.hour)) * int64(time.Hour)}}
		}
		if w.rng.IntN(3) == 0 {
			q.Select = `connection in ("meter/1", "meter/2", "meter/5", "meter/9")`
		}
		if w.rng.IntN(5) == 0 {
			q.Limit = 1 + w.rng.Uint64N(3)
		}
		w.compare(c, &q, then)
	}
}

// consumption is what delta says of a group.
type consumption struct {
	values          string
	startNs         int64
	sum             float64
	readings        uint64
	fromNs, toNs    int64
	exchanges, over uint64
}

func (w *exchanges) compare(c *client.Client, q *record.Query, then exchangesThen) {
	w.Helper()
	found, _, err := c.Aggregate(w.Context(), q)
	if err != nil {
		w.Fatal(err)
	}
	var got []consumption
	for _, g := range found {
		at := func(i int) uint64 { return binary.LittleEndian.Uint64(g.Result[8*i:]) }
		one := consumption{values: fmt.Sprint(g.Values), startNs: g.CapNs,
			sum: math.Float64frombits(at(0)), readings: at(1), fromNs: int64(at(2)),
			toNs: int64(at(4)), exchanges: at(8), over: at(7)}
		if g.Records != one.readings {
			w.Fatalf("%+v: %d records", one, g.Records)
		}
		got = append(got, one)
	}
	want := w.consumed(q, then)
	if !slices.Equal(got, want) {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		w.Fatalf("by %+v, select %q, as of %d, %v: group %d of %d\n%+v\nwant of %d\n%+v",
			q.GroupBy, q.Select, q.AsOfAcqNs, q.Box[record.Cap], at, len(got),
			got[at:min(at+1, len(got))], len(want), want[at:min(at+1, len(want))])
	}
	w.total += len(got)
}

// consumed goes through the readings of each meter.
func (w *exchanges) consumed(q *record.Query, then exchangesThen) (list []consumption) {
	cal, err := calendar.ForWindow(q.GroupBy.Window)
	if err != nil {
		w.Fatal(err)
	}
	type key struct {
		values  string
		startNs int64
	}
	groups := map[key]*consumption{}
	for mid, readings := range then.readings {
		connection, owner := then.connection[mid], then.owner[mid]
		if q.Select != "" && !slices.Contains([]string{"meter/1", "meter/2", "meter/5", "meter/9"},
			connection) {
			continue
		}
		k := key{values: map[string]string{"connection": "[" + connection + "]",
			"owner": "[" + owner + "]", "owner,connection": "[" + owner + " " + connection + "]",
			"": "[]"}[q.GroupBy.Key]}
		before := int64(-1)
		for _, capNs := range slices.Sorted(maps.Keys(readings)) {
			fromNs, has := before, before >= 0
			if before = capNs; !q.Box[record.Cap].Contains(capNs) {
				continue
			}
			if cal != nil {
				k.startNs, _ = cal.Window(capNs)
			}
			if !has {
				fromNs = capNs
			}
			g := groups[k]
			if g == nil {
				g = &consumption{values: k.values, startNs: k.startNs, fromNs: fromNs}
				groups[k] = g
			}
			g.readings++
			g.fromNs, g.toNs = min(g.fromNs, fromNs), max(g.toNs, capNs)
			switch step := readings[capNs] - readings[fromNs]; {
			case step >= 0:
				g.sum += step
			case step+registerModulus <= registerModulus/2:
				g.sum += step + registerModulus
				g.over++
			case readings[capNs] > 0: // else it began again, and that counts nothing
				g.exchanges++
			}
		}
	}
	for _, g := range groups {
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b consumption) int {
		return cmp.Or(cmp.Compare(a.values, b.values), cmp.Compare(a.startNs, b.startNs))
	})
	if q.Limit > 0 {
		list = list[:min(len(list), int(q.Limit))]
	}
	return list
}

// TestDeltaOverExchanges asks for the consumption of connections whose meters were exchanged, also
// several times, as known then and now, after a restart and where groups exceed memory.
func TestDeltaOverExchanges(t *testing.T) {
	opt := Options{Dir: t.TempDir()}
	n := openTest(t, opt)
	w := newExchanges(t, dial(t, n))
	for range 4 {
		w.change(dial(t, n))
		w.check(dial(t, n))
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n = openTest(t, opt)
	w.change(dial(t, n))
	w.check(dial(t, n))
	n.engine.Limits.Spill = spill.New(t.TempDir(), 1<<20)
	n.engine.Limits.MemoryGroups = 5
	w.check(dial(t, n))
	if len(w.mids) < 10 || w.total == 0 {
		t.Errorf("%d meters, %d groups", len(w.mids), w.total)
	}
}

// TestDeltaOverExchangesInACluster does so where meters of a connection are in several groups.
func TestDeltaOverExchangesInACluster(t *testing.T) {
	c := openTogether(t, 3, 2)
	w := newExchanges(t, dial(t, c.nodes[0]))
	for _, n := range c.nodes {
		w.change(dial(t, n))
		w.check(dial(t, c.nodes[w.rng.IntN(len(c.nodes))]))
	}
}

// TestConnectionsAreNotMixed refuses a meter that was at another connection, and learns of
// exchanges in any order.
func TestConnectionsAreNotMixed(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	for _, name := range []string{"a", "b", "c", "x"} {
		if _, err := c.ChangeDevices(t.Context(), townCID, []client.DeviceChange{{Name: name,
			FromNs: 1, Change: registry.Change{}}}); err != nil {
			t.Fatal(err)
		}
	}
	replace := func(old, name string, atNs int64) error {
		_, _, err := c.ReplaceDevice(t.Context(), townCID, old, name, atNs)
		return err
	}
	for _, err := range []error{replace("b", "c", 20), replace("a", "b", 10)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	all, err := c.SelectDevices(t.Context(), townCID, "connection=b")
	if err != nil || len(all) != 3 {
		t.Errorf("connection b has %v, %v", all, err)
	}
	if err := replace("x", "b", 30); err == nil {
		t.Error("b is at two connections")
	}
	for _, err := range []error{replace("x", "y", 10), replace("y", "x", 20)} { // put back
		if err != nil {
			t.Error(err)
		}
	}
}
