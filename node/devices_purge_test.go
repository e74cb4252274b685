package node

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// TestPurgeDevice gives few names to many devices in turn, with readings and descriptions, purges
// devices at random, and compares what is left in the view of all versions with a map.
func TestPurgeDevice(t *testing.T) {
	t.Run("node", func(t *testing.T) { purgeDevices(t, dial(t, openTest(t, Options{})), 120) })
	t.Run("cluster", func(t *testing.T) {
		purgeDevices(t, dial(t, openTogether(t, 3, 4).nodes[1]), 20)
	})
}

func purgeDevices(t *testing.T, db *client.Client, steps int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const cid = 1
	names := []string{"a", "b", "c"}
	held := map[string]int64{}   // who has a name
	ever := map[int64][]string{} // names that a device has or had
	readings := map[int64]int{}  // of a device
	purged := map[int64]bool{}   // never to be seen again
	put := func(mid int64) {
		var b record.Batch
		b.Append(record.Key{CID: cid, MID: mid, MOID: 7, CapNs: rng.Int64N(50)}, []byte("x"))
		if _, err := db.Put(t.Context(), &b, [16]byte{}, 0); err != nil {
			t.Fatal(err)
		}
		readings[mid]++
	}
	describe := func(mid int64, name string) {
		if err := db.DescribeDevices(t.Context(), cid, []client.DescribedDevice{{MID: mid,
			FromNs: rng.Int64N(50), Description: registry.Description{Name: name,
				Type: "meter"}}}); err != nil {
			t.Fatal(err)
		}
	}
	for range steps {
		name := names[rng.IntN(len(names))]
		mid := held[name]
		switch n := rng.IntN(10); {
		case mid == 0:
			ids, created, err := db.NameDevices(t.Context(), cid, []string{name})
			if err != nil || created != 1 || purged[ids[0]] {
				t.Fatal(ids, created, purged, err)
			}
			held[name], ever[ids[0]] = ids[0], []string{name}
		case n < 4:
			put(mid)
		case n < 6:
			describe(mid, name)
		case n < 7: // the name becomes free, and the device has none
			if _, _, err := db.RemoveDevice(t.Context(), cid, name); err != nil {
				t.Fatal(err)
			}
			delete(held, name)
		default:
			by := name
			if rng.IntN(2) == 0 {
				by = fmt.Sprint(mid)
			}
			if some := otherDevice(rng, ever, purged); rng.IntN(3) == 0 && some != 0 {
				mid, by = some, fmt.Sprint(some)
			}
			checkPurge(t, db, cid, by, client.DevicePurge{MID: mid,
				Records: uint64(readings[mid]), Names: ever[mid]})
			for name, of := range held {
				if of == mid {
					delete(held, name)
				}
			}
			purged[mid] = true
			delete(readings, mid)
			delete(ever, mid)
		}
		checkLeft(t, db, cid, held, readings, purged)
	}
}

func otherDevice(rng *rand.Rand, ever map[int64][]string, purged map[int64]bool) int64 {
	for mid := range ever {
		if !purged[mid] && rng.IntN(2) == 0 {
			return mid
		}
	}
	return 0
}

func checkPurge(
	t *testing.T, db *client.Client, cid int32, by string, want client.DevicePurge,
) {
	t.Helper()
	would, err := db.PreviewPurge(t.Context(), cid, by)
	if err != nil {
		t.Fatal(err)
	}
	did, err := db.PurgeDevice(t.Context(), cid, by)
	if err != nil || did.MID != want.MID || did.Records != want.Records ||
		!slices.Equal(did.Names, want.Names) || fmt.Sprint(would) != fmt.Sprint(did) {
		t.Fatalf("purge of %s: %+v, preview %+v, want %+v; %v", by, did, would, want, err)
	}
	_, err = db.PurgeDevice(t.Context(), cid, fmt.Sprint(want.MID))
	if device := (*client.DeviceError)(nil); !errors.As(err, &device) || !device.Missing {
		t.Fatalf("a second purge of %d: %v", want.MID, err)
	}
}

// checkLeft compares names and readings of all versions with maps.
func checkLeft(t *testing.T, db *client.Client, cid int32, held map[string]int64,
	readings map[int64]int, purged map[int64]bool) {
	t.Helper()
	devices, err := db.Devices(t.Context(), cid)
	if err != nil || len(devices) != len(held) {
		t.Fatalf("devices %v, want %v; %v", devices, held, err)
	}
	for _, d := range devices {
		if held[d.Name] != d.MID {
			t.Fatalf("devices %v, want %v", devices, held)
		}
	}
	left := map[int64]int{}
	q := record.Query{Box: record.Everything()}
	if _, err := db.Linearizable().Scan(t.Context(), &q, func(b *record.Batch) error {
		for i := range b.Len() {
			mid, named, err := record.ParseNameClaim(b.Key(i), b.Payload(i))
			if b.MOID[i] == record.NameMOID && !b.Tomb(i) && (err != nil || purged[mid]) {
				t.Errorf("the name %s of %d is left: %v", named, mid, err)
			}
			if b.MOID[i] == 7 {
				left[b.MID[i]]++
			}
			ended := b.MOID[i] == record.DeviceNameMOID && len(b.Payload(i)) == 0
			if b.MOID[i] != record.NameMOID && b.MOID[i] != record.IDBlockMOID && !ended &&
				purged[b.MID[i]] {
				t.Errorf("a record of %d is left: %v", b.MID[i], b.Key(i))
			}
		}
		return nil
	}); err != nil || fmt.Sprint(left) != fmt.Sprint(readings) {
		t.Fatalf("readings %v, want %v; %v", left, readings, err)
	}
}

// TestPurgeSmallDevice purges a device whose number is that under which names are stored.
func TestPurgeSmallDevice(t *testing.T) {
	n := openTest(t, Options{})
	db, a := dial(t, n), &asker{t, n}
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprint("m", i))
	}
	ids, _, err := db.NameDevices(t.Context(), 1, names)
	if err != nil {
		t.Fatal(err)
	}
	for _, mid := range []int64{record.NameClaimKey(1, "m7").MID, record.IDClaimKey(1, 0).MID} {
		body := strings.Repeat(fmt.Sprintf(
			`{"cid":1,"mid":%d,"moid":7,"cap":1,"value":5}`+"\n", mid), 2)
		a.expect("POST", "/v1/records?type=f64", body, 200)
		path := fmt.Sprintf("/v1/devices/%d?cid=1", mid)
		a.expect("DELETE", path+"&dry_run=1", "", 400, `"part":"dry_run"`)
		want := fmt.Sprintf(`{"cid":1,"mid":%d,"removed":"%d","descriptions":0,"records":2`, mid,
			mid)
		a.expect("DELETE", path+"&purge=1&dry_run=1", "", 200, want, `"dry_run":true`)
		a.expect("DELETE", path+"&purge=1", "", 200, want)
		a.expect("DELETE", path+"&purge=1", "", 404, "no readings")
	}
	found, err := db.FindDevices(t.Context(), 1, names)
	if err != nil || !slices.Equal(found, ids) {
		t.Errorf("names are lost: %v, %v", found, err)
	}
	fresh, _, err := db.NameDevices(t.Context(), 1, []string{"new"})
	if err != nil || slices.Contains(ids, fresh[0]) {
		t.Errorf("the id %v is given again: %v", fresh, err)
	}
	a.expect("PUT", "/v1/devices/m7?cid=1", `{"type":"meter"}`, 200)
	a.expect("DELETE", "/v1/devices/m7?cid=1&purge=1", "", 200, `"descriptions":1,"records":0,`+
		`"names":["m7"]`)
	a.expect("GET", "/v1/devices/m7?cid=1", "", 404)
}

// TestPurgeOfUnfinishedRename purges the name that a rename claimed before its device was removed:
// the device never had it, and keeps its readings.
func TestPurgeOfUnfinishedRename(t *testing.T) {
	db := dial(t, openTest(t, Options{}))
	ids, _, err := db.NameDevices(t.Context(), 1, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", ""} { // the claims of a rename, and a removal
		var b record.Batch
		b.Append(record.DeviceNameKey(1, ids[0]), []byte(name))
		if name != "" {
			b.Append(record.NameClaimKey(1, "b"), record.AppendNameClaim(nil, ids[0], "b"))
			b.Append(record.Key{CID: 1, MID: ids[0], MOID: 7}, []byte("x"))
		}
		if _, err := db.Put(t.Context(), &b, [16]byte{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	p, err := db.PurgeDevice(t.Context(), 1, "b")
	if device := (*client.DeviceError)(nil); !errors.As(err, &device) || !device.Missing {
		t.Errorf("purged %+v, %v", p, err)
	}
	checkPurge(t, db, 1, "a", client.DevicePurge{MID: ids[0], Records: 1,
		Names: []string{"a", "b"}})
}
