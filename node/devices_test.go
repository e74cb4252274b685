package node

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// TestNameDevicesAtOnce lets clients name overlapping sets of devices at the same time; a restart
// changes nothing.
func TestNameDevicesAtOnce(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, Options{Dir: dir})
	ids := nameAtOnce(t, []*Node{n})
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n = openTest(t, Options{Dir: dir})
	checkDevices(t, dial(t, n), ids)
}

// nameAtOnce names devices of two tenants by several clients at the same time, and finds that a
// name has one id for all of them, which one call created.
func nameAtOnce(t *testing.T, nodes []*Node) (ids [2]map[string]int64) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ids = [2]map[string]int64{{}, {}}
	var created [2]int
	var mu sync.Mutex // guards both
	var wg sync.WaitGroup
	for number := range 6 {
		rng := rand.New(rand.NewPCG(seed, uint64(number)))
		c := dial(t, nodes[number%len(nodes)])
		wg.Go(func() {
			for range 10 {
				cid, asked := rng.IntN(2), make([]string, 1+rng.IntN(9))
				for i := range asked {
					asked[i] = fmt.Sprintf("site/%d", rng.IntN(40))
				}
				got, fresh, err := c.NameDevices(t.Context(), int32(cid), asked)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				created[cid] += fresh
				for i, name := range asked {
					if id, ok := ids[cid][name]; ok && id != got[i] || got[i] < 1<<40 {
						t.Errorf("tenant %d: %s has id %d, and another client got %d", cid, name,
							got[i], id)
					}
					ids[cid][name] = got[i]
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for cid := range ids {
		if created[cid] != len(ids[cid]) {
			t.Errorf("tenant %d: %d ids created, want %d", cid, created[cid], len(ids[cid]))
		}
	}
	return ids
}

// checkDevices finds all names and no id twice.
func checkDevices(t *testing.T, c *client.Client, ids [2]map[string]int64) {
	t.Helper()
	// What lost is not stored, so that copies of the newest versions name the same devices.
	if rows := claimsOf(t, c); len(rows) != len(ids[0])+len(ids[1]) {
		t.Errorf("%d claims of %d names", len(rows), len(ids[0])+len(ids[1]))
	}
	for cid := range ids {
		devices, err := c.Devices(t.Context(), int32(cid))
		if err != nil || len(devices) != len(ids[cid]) {
			t.Fatalf("tenant %d: %d devices, want %d; %v", cid, len(devices), len(ids[cid]), err)
		}
		names := map[int64]string{}
		for i, d := range devices {
			if ids[cid][d.Name] != d.MID || names[d.MID] != "" ||
				i > 0 && devices[i-1].Name > d.Name {
				t.Errorf("tenant %d: %s has id %d, want %d; the id is also of %q", cid, d.Name,
					d.MID, ids[cid][d.Name], names[d.MID])
			}
			names[d.MID] = d.Name
		}
	}
}

func TestDeviceNames(t *testing.T) {
	n := openTest(t, Options{Dir: t.TempDir()})
	c := dial(t, n)
	many := make([]string, 2345)
	for i := range many {
		many[i] = fmt.Sprint("d", i%2000)
	}
	first, created, err := c.NameDevices(t.Context(), 1, many)
	if err != nil || created != 2000 || first[0] != first[2000] || first[999] != first[0]+999 {
		t.Fatalf("%d created, ids %d ...; %v", created, first[0], err)
	}
	found, err := c.FindDevices(t.Context(), 1, []string{"d1", "none", "d0"})
	if err != nil || found[0] != first[1] || found[1] != 0 || found[2] != first[0] {
		t.Errorf("found %d, want those of %d; %v", found, first[:2], err)
	}
	if other, err := c.FindDevices(t.Context(), 2, []string{"d1"}); err != nil || other[0] != 0 {
		t.Errorf("another tenant has d1 as %d; %v", other, err)
	}
	for _, bad := range []string{"", "a\nb", "\xff", strings.Repeat("x", 257), "*", "42", "-1",
		"1..5", "1..=5", "1-5", "1,2", " 7", "a ", "oulu/t\u0430"} {
		if _, _, err := c.NameDevices(t.Context(), 1, []string{"ok", bad}); err == nil {
			t.Errorf("the name %q was taken", bad)
		}
	}

	// A name is taken back.
	rows := claimsOf(t, c)
	if len(rows) != 2000 {
		t.Fatalf("%d claims of names, want 2000", len(rows))
	}
	var b record.Batch
	b.AppendTomb(rows[0].Key)
	if _, err := c.Put(t.Context(), &b, [16]byte{}, 0); err != nil {
		t.Fatal(err)
	}
	if all, err := c.Devices(t.Context(), 1); err != nil || len(all) != 1999 {
		t.Fatalf("%d devices, want 1999; %v", len(all), err)
	}
	gone := string(rows[0].Payload[8:])
	again, created, err := c.NameDevices(t.Context(), 1, []string{gone, gone})
	if err != nil || created != 1 || again[0] != again[1] || again[0] != first[0]+2000 {
		t.Errorf("%s is %d of %d created, want %d; %v", gone, again, created, first[0]+2000, err)
	}
}

// claimsOf returns the records that give names to devices.
func claimsOf(t *testing.T, c *client.Client) (rows []record.Record) {
	t.Helper()
	q := &record.Query{Order: record.OrderKey}
	q.Box[record.MOID] = record.RangeSet{record.At(record.NameMOID)}
	for r, err := range c.Query(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		r.Payload = append([]byte(nil), r.Payload...)
		rows = append(rows, r)
	}
	return rows
}

// TestRemovedRename removes the description that a device has since it got another name: selectors
// still find it by that name, and by no other one.
func TestRemovedRename(t *testing.T) {
	c := dial(t, openTest(t, Options{}))
	kind := "meter"
	if _, err := c.ChangeDevices(t.Context(), 1, []client.DeviceChange{
		{Name: "old", FromNs: 1, Change: registry.Change{Type: &kind}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RenameDevice(t.Context(), 1, "old", "new", 5); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RemoveDescription(t.Context(), 1, "new", 5); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ChangeDevices(t.Context(), 1, []client.DeviceChange{
		{Name: "old", FromNs: 9, Change: registry.Change{Type: &kind}}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"old", "new"} {
		ids, err := c.FindDevices(t.Context(), 1, []string{name})
		if err != nil {
			t.Fatal(err)
		}
		found, err := c.SelectDevices(t.Context(), 1, "name="+name)
		if err != nil || len(found) != 1 || found[0].MID != ids[0] {
			t.Errorf("%s is %d, and its selector finds %+v; %v", name, ids[0], found, err)
		}
	}
}
