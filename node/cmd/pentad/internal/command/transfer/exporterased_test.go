package transfer

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// An export leaves out exactly what erases hide, so that where it is imported nothing is visible
// that is not here.
func TestExportLeavesErasedOut(t *testing.T) {
	r := random(t)
	addr, db := testNode(t)
	records := oddRecords(r, 4000)
	for part := range slices.Chunk(records, 500) {
		w := db.NewWriter(client.WriterOptions{})
		for _, one := range part {
			if err := w.AddRecord(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := storedRecords(t, db)
		some := now[r.IntN(len(now))].Key
		boxes := []record.Box{
			{record.CID: {record.At(int64(some.CID))}, record.MID: {record.At(some.MID)}},
			{record.MOID: {record.At(int64(some.MOID))}, record.Cap: {record.At(some.CapNs)}},
			{record.Acq: {{From: some.AcqNs, To: some.AcqNs + 1 + r.Int64N(50)}}},
		}
		if _, err := db.Erase(t.Context(), &wire.Box{Box: boxes[r.IntN(3)]}); err != nil {
			t.Fatal(err)
		}
	}
	var want []record.Record
	all := storedRecords(t, db)
	for v, err := range db.Versions(t.Context(), &wire.Box{Everything: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if v.HiddenAcqNs == 0 {
			v.Payload = slices.Clone(v.Payload)
			want = append(want, v.Record)
		}
	}
	if len(want) == 0 || len(want) == len(all) {
		t.Fatalf("of %d records %d are not erased: nothing is tested", len(all), len(want))
	}
	file := filepath.Join(t.TempDir(), "all.ndjson")
	if _, stderr, code := runCommand(t, addr, "export", "--view", "all", "-f", file); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	to, copied := testNode(t)
	if _, stderr, code := runCommand(t, to, "import", file, "-o", "json"); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	got := storedRecords(t, copied)
	if len(got) != len(want) {
		t.Fatalf("%d records came back; %d of %d are not erased", len(got), len(want), len(all))
	}
	sameVersions(t, got, want)
}

// What is kept of devices is bounded, and what was dropped is found again.
func TestErasedForgetsDevices(t *testing.T) {
	e := &erased{byDevice: map[device][]*wire.Hiding{}, events: []wire.Hiding{
		{AcqNs: 10, Box: record.Box{record.MID: {record.At(0)}}}}}
	for range 2 {
		for mid := range int64(maxDevices + 1) {
			if e.hides(record.Key{MID: mid, AcqNs: 9}) != (mid == 0) ||
				e.hides(record.Key{MID: mid, AcqNs: 10}) || len(e.byDevice) > maxDevices {
				t.Fatalf("device %d, %d known", mid, len(e.byDevice))
			}
		}
	}
}
