package node

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// townHistory is everything that was put into a town, descriptions and readings, as a slice has it:
// in the order in which they were acknowledged, and with the acqs that the cluster gave them.
type townHistory struct {
	*town
	rows   []townRow
	erased []townErase
}

type townRow struct {
	key     record.Key
	payload string
}

// townErase hides readings of devices that were put before.
type townErase struct {
	mids  map[int64]bool
	rows  int // how many rows there were
	purge bool
}

// put describes some devices again and stores readings of some.
func (h *townHistory) put(c *client.Client) {
	h.Helper()
	b, now := &record.Batch{}, map[record.Key]bool{}
	for range 60 + h.rng.IntN(60) {
		key := record.Key{CID: townCID, MID: h.rng.Int64N(100) * 256, MOID: 1,
			CapNs: h.rng.Int64N(20)}
		payload := []byte(fmt.Sprint("v", h.rng.IntN(5)))
		if h.rng.IntN(3) == 0 {
			h.capNs++
			key.MOID, key.CapNs = record.DescriptionMOID, h.capNs
			var err error
			payload, err = registry.Append(nil, &registry.Description{
				Type: []string{"thermometer", "meter"}[h.rng.IntN(2)]})
			if err != nil {
				h.Fatal(err)
			}
		}
		if !now[key] {
			now[key] = true
			b.Append(key, payload)
			h.rows = append(h.rows, townRow{key, string(payload)})
		}
	}
	if _, err := c.Put(h.Context(), b, [16]byte{}, 0); err != nil {
		h.Fatal(err)
	}
}

// learn notes the acqs that the rows got.
func (h *townHistory) learn(c *client.Client) {
	h.Helper()
	box := record.Box{record.CID: {record.At(townCID)}}
	box.IncludeReserved()
	type version struct {
		key     record.Key // without acq
		payload string
	}
	acqs := map[version][]int64{}
	for r, err := range c.Linearizable().Query(h.Context(), &record.Query{Box: box,
		Order: record.OrderAcq}) {
		if err != nil {
			h.Fatal(err)
		}
		v := version{r.Key, string(r.Payload)}
		v.key.AcqNs = 0
		acqs[v] = append(acqs[v], r.AcqNs)
	}
	for i := range h.rows {
		v := version{h.rows[i].key, h.rows[i].payload}
		v.key.AcqNs = 0
		if h.hidden(i, true) {
			continue // it is purged
		}
		if len(acqs[v]) == 0 {
			h.Fatalf("%+v is not there", v)
		}
		h.rows[i].key.AcqNs, acqs[v] = acqs[v][0], acqs[v][1:]
	}
}

// hidden reports whether a row is purged, or with all erases hidden from the latest view.
func (h *townHistory) hidden(row int, onlyPurged bool) bool {
	return h.rows[row].key.MOID == 1 && slices.ContainsFunc(h.erased, func(e townErase) bool {
		return row < e.rows && e.mids[h.rows[row].key.MID] && (e.purge || !onlyPurged)
	})
}

// meters returns the devices of which the newest description below an acq says that they are
// meters.
func (h *townHistory) meters(belowNs int64) map[int64]bool {
	newest := map[int64]townRow{}
	for _, r := range h.rows {
		if r.key.MOID == record.DescriptionMOID && r.key.AcqNs < belowNs &&
			r.key.CapNs >= newest[r.key.MID].key.CapNs {
			newest[r.key.MID] = r
		}
	}
	out := map[int64]bool{}
	for mid, r := range newest {
		if d, err := registry.Parse([]byte(r.payload)); err == nil && d.Type == "meter" {
			out[mid] = true
		}
	}
	return out
}

// latest are the readings of the meters as of an acq.
func (h *townHistory) latest(belowNs int64) map[record.Key]string {
	meters, out, acqs := h.meters(belowNs), map[record.Key]string{}, map[record.Key]int64{}
	for i, r := range h.rows {
		reading := r.key
		reading.AcqNs = 0
		if r.key.MOID == 1 && meters[r.key.MID] && r.key.AcqNs < belowNs && !h.hidden(i, false) &&
			r.key.AcqNs >= acqs[reading] {
			out[reading], acqs[reading] = r.payload, r.key.AcqNs
		}
	}
	return out
}

const meters = "type=meter"

func metersBox() record.Box {
	return record.Box{record.CID: {record.At(townCID)}, record.MOID: {record.At(1)}}
}

// checkLatest asks for the latest readings of the meters.
func (h *townHistory) checkLatest(c *client.Client) {
	h.Helper()
	got := map[record.Key]string{}
	q := &record.Query{View: record.ViewLatest, Select: meters, Box: metersBox()}
	for r, err := range c.Linearizable().Query(h.Context(), q) {
		if err != nil {
			h.Fatal(err)
		}
		reading := r.Key
		reading.AcqNs = 0
		got[reading] = string(r.Payload)
	}
	h.same("latest", got, h.latest(record.Acq.Max()))
}

func (h *townHistory) same(what string, got, want map[record.Key]string) {
	h.Helper()
	for k, v := range want {
		if got[k] != v {
			h.Fatalf("%s: %+v is %q, want %q; %d of %d", what, k, got[k], v, len(got), len(want))
		}
	}
	if len(got) != len(want) {
		h.Fatalf("%s: %d readings, want %d", what, len(got), len(want))
	}
}

// checkDiff applies what changed since an acq to what was there then of the devices that are meters
// now.
func (h *townHistory) checkDiff(c *client.Client, fromNs int64) {
	h.Helper()
	state, now := map[record.Key]string{}, h.meters(record.Acq.Max())
	past := metersBox()
	for r, err := range c.Query(h.Context(), &record.Query{View: record.ViewAsOf,
		AsOfAcqNs: fromNs, Box: past}) {
		if err != nil {
			h.Fatal(err)
		}
		if reading := r.Key; now[r.MID] {
			reading.AcqNs = 0
			state[reading] = string(r.Payload)
		}
	}
	for d, err := range c.Linearizable().Diff(h.Context(), &record.Diff{Box: metersBox(),
		FromNs: fromNs, ToNs: record.Acq.Max(), Select: meters}) {
		if err != nil {
			h.Fatal(err)
		}
		reading := d.New.Key
		reading.AcqNs = 0
		if d.Kind == record.DiffDeleted {
			delete(state, reading)
		} else {
			state[reading] = string(d.New.Payload)
		}
	}
	h.same("diff", state, h.latest(record.Acq.Max()))
}

// checkVersions asks for all versions of the readings of the meters.
func (h *townHistory) checkVersions(c *client.Client) {
	h.Helper()
	want, now := 0, h.meters(record.Acq.Max())
	for i, r := range h.rows {
		if r.key.MOID == 1 && now[r.key.MID] && !h.hidden(i, true) {
			want++
		}
	}
	got := 0
	for v, err := range c.Linearizable().Versions(h.Context(), &wire.Box{Box: metersBox(),
		Select: meters}) {
		if err != nil {
			h.Fatal(err)
		}
		if got++; !now[v.MID] {
			h.Fatalf("versions of device %d, which is no meter", v.MID)
		}
	}
	if got != want {
		h.Fatalf("%d versions, want %d", got, want)
	}
}

// checkFeed reads the changes of the meters: each reading of a device that was a meter when it
// came.
func (h *townHistory) checkFeed(c *client.Client, what string, got []record.Key) {
	h.Helper()
	if got == nil {
		q := &record.Query{Box: metersBox(), Select: meters}
		newest := int64(0) // the node may be behind the one that took the puts
		for _, r := range h.rows {
			newest = max(newest, r.key.AcqNs)
		}
		for b, err := range c.After(newest).PastChanges(h.Context(), q, 0) {
			if err != nil {
				h.Fatal(err)
			}
			for i := 0; b.Rows != nil && i < b.Rows.Len(); i++ {
				got = append(got, b.Rows.Key(i))
			}
		}
	}
	var want []record.Key
	for i, r := range h.rows {
		if r.key.MOID == 1 && h.meters(r.key.AcqNs + 1)[r.key.MID] && !h.hidden(i, true) {
			want = append(want, r.key)
		}
	}
	slices.SortFunc(want, record.Key.Compare)
	slices.SortFunc(got, record.Key.Compare)
	if !slices.Equal(got, want) {
		h.Fatalf("%s: %d changes, want %d", what, len(got), len(want))
	}
}

func (h *townHistory) check(c *client.Client, fromNs int64) {
	h.Helper()
	h.learn(c)
	h.checkLatest(c)
	h.checkDiff(c, fromNs)
	h.checkVersions(c)
	h.checkFeed(c, "past changes", nil)
}

// erase hides the readings of the meters, and describes them otherwise afterwards: the same stay
// hidden.
func (h *townHistory) erase(c *client.Client, purge bool) {
	h.Helper()
	h.learn(c)
	mids, act := h.meters(record.Acq.Max()), (*client.Client).Erase
	if purge {
		act = (*client.Client).Purge
	}
	if _, err := act(c, h.Context(), &wire.Box{Box: metersBox(), Select: meters}); err != nil {
		h.Fatal(err)
	}
	h.erased = append(h.erased, townErase{mids, len(h.rows), purge})
}

// TestSelectedActsInACluster diffs, follows, erases and reads readings of selected devices of three
// nodes while groups are split, and devices change what they are.
func TestSelectedActsInACluster(t *testing.T) {
	c := openTogether(t, 3, 1)
	h := &townHistory{town: newTown(t)}
	some := func() *client.Client { return dial(t, c.nodes[h.rng.IntN(len(c.nodes))]) }
	h.put(some())
	began, err := c.nodes[0].HorizonPast(t.Context(), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	followed := make(chan record.Key, 1<<16)
	go func() {
		defer close(followed)
		q := &record.Query{Box: metersBox(), Select: meters}
		for change, err := range dial(t, c.nodes[2]).Changes(ctx, q, 0) {
			if err != nil {
				t.Error(err)
				return
			}
			if change.Record != nil {
				followed <- change.Record.Key
			}
		}
	}()
	for round := range 3 {
		for range 4 {
			h.put(some())
		}
		if round == 0 {
			c.split(c.nodes[0], 1, 2) // the questions come while the groups part
		}
		h.check(some(), began)
		h.erase(some(), false)
		h.put(some())
		h.check(some(), began)
	}
	c.until("all parts have begun", func() bool { return c.parted() && c.settled(3) })
	h.check(some(), began)
	h.learn(some())
	want := 0
	for _, r := range h.rows {
		if r.key.MOID == 1 && h.meters(r.key.AcqNs + 1)[r.key.MID] {
			want++
		}
	}
	var got []record.Key
	for len(got) < want {
		key, more := <-followed
		if !more {
			t.Fatalf("%d changes were followed, want %d", len(got), want)
		}
		got = append(got, key)
	}
	h.checkFeed(nil, "followed", got)
	h.erase(some(), true)
	h.put(some())
	h.learn(some())
	h.checkLatest(some())
	h.checkVersions(some())
	h.checkFeed(some(), "after a purge", nil)
}

// TestSelectedActsAlone erases and purges readings of selected devices of one node, which then
// restarts and is restored.
func TestSelectedActsAlone(t *testing.T) {
	opt := Options{Dir: t.TempDir()}
	n := openTest(t, opt)
	h := &townHistory{town: newTown(t)}
	for range 3 {
		h.put(dial(t, n))
		h.erase(dial(t, n), false)
	}
	h.put(dial(t, n))
	h.erase(dial(t, n), true)
	h.put(dial(t, n))
	h.check(dial(t, n), time.Now().UnixNano())
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n = openTest(t, opt)
	h.check(dial(t, n), time.Now().UnixNano())
	events, err := n.Events(t.Context())
	if err != nil || len(events) != 4 || events[3].Kind != event.Purge ||
		len(events[3].Box[record.MID]) == 0 {
		t.Fatalf("events %+v, %v", events, err)
	}
	if _, err := n.EraseSelected(t.Context(), metersBox(), "type=valve"); err == nil {
		t.Error("an erase of no device is no error")
	}
}

// TestSelectedOverHTTP selects devices with the parameter of each route that reads or hides
// readings.
func TestSelectedOverHTTP(t *testing.T) {
	n := openTest(t, Options{})
	a := &asker{t, n}
	describe := func(mid int64, kind string) {
		t.Helper()
		if err := dial(t, n).DescribeDevices(t.Context(), townCID, []client.DescribedDevice{
			{MID: mid, FromNs: 1, Description: registry.Description{Type: kind}}}); err != nil {
			t.Fatal(err)
		}
	}
	describe(1, "meter")
	describe(2, "valve")
	a.expect("POST", "/v1/records?type=f64", `{"cid":9,"mid":1,"moid":1,"cap":1000,"value":1}
{"cid":9,"mid":2,"moid":1,"cap":1000,"value":2}
{"cid":9,"mid":2,"moid":1,"cap":1000,"value":3}`, 200)
	between, err := n.Horizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	describe(1, "valve")
	for _, path := range []string{"latest?", fmt.Sprintf("asof?at=%d&", time.Now().UnixNano()),
		"diff?from=0&", "records?"} {
		a.expect("GET", "/v1/"+path+"cid=9&type=f64&select=type%3Dvalve", "", 200, `"rows":2`,
			`"mid":1,`, `"mid":2,`)
		a.expect("GET", "/v1/"+path+"cid=9&type=f64&select=type%3Dmeter", "", 200, `"rows":0`)
		a.expect("GET", "/v1/"+path+"select=type%3Dmeter", "", 400, "choose one by cid")
	}
	for _, path := range []string{"asof?at=", "diff?from=0&to="} { // what we then believed
		path += fmt.Sprint(between)
		a.expect("GET", "/v1/"+path+"&cid=9&type=f64&select=type%3Dmeter", "", 200, `"rows":1`,
			`"mid":1,`)
		a.expect("GET", "/v1/"+path+"&cid=9&type=f64&select=type%3Dvalve", "", 200, `"rows":1`,
			`"mid":2,`)
	}
	a.expect("GET", "/v1/versions?cid=9&select=type%3Dvalve", "", 200, `"mid":1,`,
		`"latest":false`, `"rows":3`)
	a.expect("GET", "/v1/digest?cid=9&moid=1&select=type%3Dvalve", "", 200, `"rows":3,`)
	a.expect("GET", "/v1/digest?cid=9&moid=1&select=type%3Dmeter", "", 200, `"rows":0,`)
	a.expect("GET", "/v1/changes?cid=9&select=type%3Dmeter", "", 200, `"mid":1,`)
	a.expect("POST", "/v1/erase?cid=9&select=type%3Dvalve&dry_run=1", "", 200, `"records":2`,
		`"devices":2`, `"select_ns":`)
	a.expect("POST", "/v1/erase?cid=9&select=type%3Dpump", "", 400, "no device of tenant 9 meets")
	a.expect("POST", "/v1/erase?cid=9&select=type%3Dvalve", "", 200)
	a.expect("GET", "/v1/count?cid=9", "", 200, `"records":0`)
	a.expect("POST", "/v1/purge?cid=9&select=type%3Dvalve", "", 200)
	a.expect("GET", "/v1/count?cid=9&view=all", "", 200, `"records":0`)
	a.expect("GET", "/v1/events", "", 200, `"mid":"1..3"`)
}
