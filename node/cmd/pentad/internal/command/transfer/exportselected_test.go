package transfer

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// TestExportSelectedVersions exports all versions of selected devices, more than a box has ranges
// for, and finds exactly these where the file is imported, in the order of their versions.
func TestExportSelectedVersions(t *testing.T) {
	r := random(t)
	addr, db := testNode(t)
	const devices = 5000
	var described []client.DescribedDevice
	selected := map[int64]bool{}
	for mid := range int64(devices) {
		kind := "meter"
		if r.IntN(3) == 0 {
			kind = "pump"
		}
		selected[1+mid] = kind == "pump"
		described = append(described, client.DescribedDevice{MID: 1 + mid,
			Description: registry.Description{Type: kind}})
	}
	if err := db.DescribeDevices(t.Context(), 1, described); err != nil {
		t.Fatal(err)
	}
	var want []record.Record // by acq
	w := db.NewWriter(client.WriterOptions{BatchRecords: 5000})
	for range 20_000 {
		one := record.Record{Key: record.Key{CID: 1, MID: 1 + r.Int64N(devices), MOID: 7,
			CapNs: r.Int64N(3)}, Payload: []byte{byte(r.Int()), byte(r.Int())}}
		if err := w.AddRecord(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		if selected[one.MID] {
			want = append(want, one)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var mids []int64
	for mid, is := range selected {
		if is {
			mids = append(mids, mid)
		}
	}
	slices.Sort(mids)
	if sets := deviceRanges(mids); len(sets) < 2 {
		t.Fatalf("%d devices are in %d sets: nothing is tested", len(mids), len(sets))
	}
	file := filepath.Join(t.TempDir(), "pumps.parquet")
	if _, stderr, code := runCommand(t, addr, "export", "--cid", "1", "--view", "all", "--select",
		"type=pump", "-f", file); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	to, copied := testNode(t)
	if _, stderr, code := runCommand(t, to, "import", file); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	got := storedRecords(t, copied)
	byReading := func(a, b record.Record) int {
		a.AcqNs, b.AcqNs = 0, 0 // stable: versions stay in their order
		return a.Key.Compare(b.Key)
	}
	slices.SortStableFunc(got, byReading)
	slices.SortStableFunc(want, byReading)
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		got[i].AcqNs = 0
		if got[i].Key != want[i].Key || string(got[i].Payload) != string(want[i].Payload) {
			t.Fatalf("record %d: %v, want %v", i, got[i], want[i])
		}
	}
}
