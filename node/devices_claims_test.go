package node

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestGivenIDsAreFree has devices that were numbered by hand where ids of names begin: no name gets
// the id of one, whether it has readings or a description.
func TestGivenIDsAreFree(t *testing.T) {
	n := openTest(t, Options{Dir: t.TempDir()})
	c := dial(t, n)
	used := map[int64]bool{}
	b := &record.Batch{}
	for i := range int64(3000) {
		if i%1100 < 1050 || i > 2500 && i%7 == 0 { // dense runs, and a gap of 50
			mid := record.FirstGivenID + i
			used[mid] = true
			b.Append(record.Key{CID: 1, MID: mid, MOID: 1, CapNs: 1}, f64(1))
		}
	}
	if _, err := c.Put(t.Context(), b, [16]byte{}, 0); err != nil {
		t.Fatal(err)
	}
	described := client.DescribedDevice{MID: record.FirstGivenID + 3500}
	if err := c.DescribeDevices(t.Context(), 1, []client.DescribedDevice{described}); err != nil {
		t.Fatal(err)
	}
	used[described.MID] = true
	var mu sync.Mutex
	var wg sync.WaitGroup
	named := map[int64]string{}
	for w := range 4 {
		wg.Go(func() {
			for i := range 6 {
				names := make([]string, 1+i*37)
				for k := range names {
					names[k] = fmt.Sprintf("w%d/%d/%d", w, i, k)
				}
				ids, _, err := dial(t, n).NameDevices(t.Context(), 1, names)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for k, id := range ids {
					if used[id] || named[id] != "" {
						t.Errorf("%s has id %d, which is that of %q", names[k], id, named[id])
					}
					named[id] = names[k]
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	ids, _, err := c.NameDevices(t.Context(), 2, []string{"x"})
	if err != nil || ids[0] != record.FirstGivenID {
		t.Errorf("the first id of another tenant is %d; %v", ids, err)
	}
}

// TestNamesOfManyClients names devices from more clients than the node takes puts and queries of:
// each tries until it is not overloaded.
func TestNamesOfManyClients(t *testing.T) {
	n := openTest(t, Options{Dir: t.TempDir(), MaxPuts: 2, MaxQueries: 2, MaxWaiting: 1})
	var wg sync.WaitGroup
	for i := range 45 {
		c := dial(t, n)
		wg.Go(func() {
			names := []string{fmt.Sprint("site/", i), fmt.Sprint("site/", (i+1)%45)}
			if _, _, err := c.NameDevices(t.Context(), 1, names); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	devices, err := dial(t, n).Devices(t.Context(), 1)
	if err != nil || len(devices) != 45 {
		t.Errorf("%d names, want 45; %v", len(devices), err)
	}
}

// TestDescribeUnlessNewer describes one device by two clients: the second is told, over the network
// and in a cluster, too.
func TestDescribeUnlessNewer(t *testing.T) {
	t.Run("node", func(t *testing.T) {
		c := dial(t, openTest(t, Options{Dir: t.TempDir()}))
		describeUnlessNewer(t, c, c)
	})
	t.Run("cluster", func(t *testing.T) {
		c := openTogether(t, 3, 2)
		describeUnlessNewer(t, dial(t, c.nodes[0]), dial(t, c.nodes[1]))
	})
}

func describeUnlessNewer(t *testing.T, a, b *client.Client) {
	t.Helper()
	some := func(kind string) []client.DescribedDevice {
		return []client.DescribedDevice{{MID: 7, Description: registry.Description{Type: kind}},
			{MID: 7 << 8, FromNs: 5}}
	}
	f := func(c *client.Client, kind string, newestNs int64, want wire.Kind) {
		t.Helper()
		err := c.DescribeUnlessNewer(t.Context(), 1, some(kind), newestNs)
		var e *wire.Error
		if want == 0 && err == nil || errors.As(err, &e) && e.Kind == want {
			return
		}
		t.Errorf("%s: %v, want %v", kind, err, want)
	}
	f(a, "first", 0, 0)
	f(b, "second", 0, wire.KindConflict)
	newestNs := int64(0)
	q := &record.Query{Box: record.Box{record.MOID: {record.At(record.DescriptionMOID)}}}
	for r, err := range b.Linearizable().Query(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		newestNs = max(newestNs, r.AcqNs)
	}
	f(b, "second", newestNs, 0)
	f(a, "third", newestNs, wire.KindConflict)
	if err := a.DescribeUnlessNewer(t.Context(), 1, some("none"), -1); err == nil {
		t.Error("an acq below 0 is taken for no condition")
	}
	devices, err := a.SelectDevices(t.Context(), 1, "type=second")
	if err != nil || len(devices) != 1 {
		t.Errorf("%+v, %v", devices, err)
	}
	if err := a.DescribeDevices(t.Context(), 1, some("fourth")); err != nil {
		t.Error(err) // without a condition
	}
}

// TestHostileDescriptions puts descriptions that are too large, or say what cannot be, in all ways
// in which records are put: none is stored.
func TestHostileDescriptions(t *testing.T) {
	n := openTest(t, Options{Dir: t.TempDir()})
	c, a := dial(t, n), &asker{t, n}
	f := func(want string, d registry.Description) {
		t.Helper()
		err := c.DescribeDevices(t.Context(), 1, []client.DescribedDevice{{Description: d}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	keys := func(count, size int) registry.Description {
		d := registry.Description{Attributes: map[string]registry.Value{}}
		for i := range count {
			d.Attributes[fmt.Sprint("k", i)] = registry.Text(strings.Repeat("x", size))
		}
		return d
	}
	place := func(lat, lon float64) registry.Description {
		return registry.Description{Place: &registry.Place{Lat: lat, Lon: lon}}
	}
	nan := math.NaN()
	f("the latitude NaN", place(nan, 0))
	f("the longitude NaN", place(0, nan))
	f("10000 attributes, at most 1000", keys(10_000, 1))
	f("at most 256", keys(1, 257))
	f("at most 65536", keys(1000, 256))
	f("bytes, at most", registry.Description{Metadata: strings.Repeat("x", 1<<20)})
	f("not printable", registry.Description{Type: "a\x00b"})
	f("not printable", registry.Description{Name: "a\u202eb"})
	f("look alike", registry.Description{Name: "oulu/t\u0430"}) // a Cyrillic letter
	f("reads as ids", registry.Description{Name: "42"})
	line := `{"cid":1,"mid":1,"moid":-2147483645,"cap":1,"base64":"` +
		strings.Repeat("AAAA", 300_000) + `"}`
	a.expect("POST", "/v1/records", line, 422, "1 of 1 records are wrong")
	b := &record.Batch{}
	b.Append(record.Key{CID: 1, MID: 1, MOID: record.DescriptionMOID}, []byte("x"))
	if _, err := c.Put(t.Context(), b, [16]byte{}, 0); err == nil ||
		!strings.Contains(err.Error(), "this is none") {
		t.Errorf("a frame: %v", err)
	}
	all, err := c.SelectDevices(t.Context(), 1, "")
	if err != nil || len(all) != 0 {
		t.Errorf("%d devices are described; %v", len(all), err)
	}
}

// TestDescribedNames describes a device with a name that another one has.
func TestDescribedNames(t *testing.T) {
	c := dial(t, openTest(t, Options{Dir: t.TempDir()}))
	ids, _, err := c.NameDevices(t.Context(), 1, []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	f := func(mid int64, name string, want bool) {
		t.Helper()
		d := client.DescribedDevice{MID: mid, Description: registry.Description{Name: name}}
		err := c.DescribeDevices(t.Context(), 1, []client.DescribedDevice{d})
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(),
			"which is that of device "+fmt.Sprint(ids[0])) {
			t.Errorf("device %d as %s: %v", mid, name, err)
		}
	}
	f(ids[0], "a", true)
	f(ids[1], "a", false)
	f(7, "a", false)
	f(7, "c", true) // no device has it yet
	f(7, "", true)
	both := []client.DescribedDevice{{MID: 8, Description: registry.Description{Name: "d"}},
		{MID: 9, Description: registry.Description{Name: "d"}}}
	if err := c.DescribeDevices(t.Context(), 1, both); err == nil {
		t.Error("two devices are described with one name")
	}
}

// TestNamesAreRemoved erases and purges names and descriptions: they are gone, and what is purged
// is in no version.
func TestNamesAreRemoved(t *testing.T) {
	n := openTest(t, Options{Dir: t.TempDir()})
	c := dial(t, n)
	ids, _, err := c.NameDevices(t.Context(), 1, []string{"alice", "bob"})
	if err != nil {
		t.Fatal(err)
	}
	var devices []client.DescribedDevice
	for i, name := range []string{"alice", "bob"} {
		devices = append(devices, client.DescribedDevice{MID: ids[i],
			Description: registry.Description{Name: name}})
	}
	if err := c.DescribeDevices(t.Context(), 1, devices); err != nil {
		t.Fatal(err)
	}
	// All of a device by its id, reserved moids included: its description goes, its name stays.
	box := record.Box{record.CID: {record.At(1)}, record.MID: {record.At(ids[0])},
		record.MOID: {record.All(record.MOID)}}
	if _, err := n.Purge(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	found, err := c.FindDevices(t.Context(), 1, []string{"alice", "bob"})
	if err != nil || !slices.Equal(found, ids) {
		t.Errorf("ids %d, want %d; %v", found, ids, err)
	}
	if all, err := c.SelectDevices(t.Context(), 1, ""); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	// The name goes with the record of its claim.
	key := record.NameClaimKey(1, "alice")
	box = record.Box{record.CID: {record.At(1)}, record.MID: {record.At(key.MID)},
		record.MOID: {record.At(record.NameMOID)}, record.Cap: {record.At(key.CapNs)}}
	for _, remove := range []func(){func() {
		if _, err := n.Erase(t.Context(), box); err != nil {
			t.Fatal(err)
		}
	}, func() {
		if _, err := n.Purge(t.Context(), box); err != nil {
			t.Fatal(err)
		}
	}} {
		remove()
		named, err := c.Devices(t.Context(), 1)
		if err != nil || len(named) != 1 || named[0].Name != "bob" {
			t.Errorf("%+v, %v", named, err)
		}
	}
	if rows := claimsOf(t, c); len(rows) != 1 {
		t.Errorf("%d versions of names, want that of bob", len(rows))
	}
	again, created, err := c.NameDevices(t.Context(), 1, []string{"alice", "bob"})
	if err != nil || created != 1 || again[0] == ids[0] || again[1] != ids[1] {
		t.Errorf("ids %d after %d, %d created; %v", again, ids, created, err)
	}
}

// TestChangesOfNow changes one device by clients whose clocks differ: none hides what another said.
func TestChangesOfNow(t *testing.T) {
	n := openTest(t, Options{Dir: t.TempDir()})
	c := dial(t, n)
	const clients = 8
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			change := client.DeviceChange{Name: "q", FromNs: int64(100 - i), Last: true}
			change.Attributes = map[string]registry.Value{
				fmt.Sprintf("a%d", i): registry.Number(1)}
			changes := []client.DeviceChange{change}
			if _, err := c.ChangeDevices(t.Context(), 1, changes); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	devices, err := c.SelectDevices(t.Context(), 1, "name=q")
	if err != nil || len(devices) != 1 || len(devices[0].Attributes) != clients {
		t.Errorf("%+v, want %d attributes; %v", devices, clients, err)
	}
	a := &asker{t, n}
	for _, body := range []string{`null`, ` null `, `[]`} {
		a.expect("PUT", "/v1/devices/q?cid=1", body, 400, "body")
	}
	early := client.DeviceChange{Name: "q", FromNs: 1}
	early.Type = new(string)
	*early.Type = "meter"
	did, err := c.ChangeDevices(t.Context(), 1, []client.DeviceChange{early})
	if err != nil || did.Described != 1 || did.Followed != 1 {
		t.Errorf("%+v, %v", did, err)
	}
}
