package main

import (
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// The water meters of a city, 674,019 readings with hours that occur twice, go from one node to
// another through a file of each form (only Parquet with -short).
func TestRealDataThroughFiles(t *testing.T) {
	addr, db := testNode(t)
	ids := filepath.Join(t.TempDir(), "ids.json")
	runImport(t, addr, 0, "--mapping", "examples/daiad-water.yaml", "--lookup-file", ids,
		"--strict", realData(t, "daiad-water/swm_trialA.csv.gz"))
	want := byKey(t, db)
	for _, form := range exportForms() {
		if testing.Short() && form != exchange.Parquet {
			continue
		}
		file := filepath.Join(t.TempDir(), "water."+string(form))
		_, notes, code := runCommand(t, addr, "export", "-f", file)
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s", form, code, notes)
		}
		to, copied := testNode(t)
		_, stored, code := runCommand(t, to, "import", file)
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s", form, code, stored)
		}
		got := byKey(t, copied)
		if len(got) != 674_019 || len(want) != len(got) {
			t.Fatalf("%s: %d records, want %d", form, len(got), len(want))
		}
		for i := range want {
			if !sameRecord(got[i], want[i]) {
				t.Fatalf("%s: record %d: %+v, want %+v", form, i, got[i], want[i])
			}
		}
		t.Logf("%s%s", notes, stored)
	}
}

// byKey returns all records by key, and versions of a reading by acq.
func byKey(t *testing.T, db *client.Client) []record.Record {
	t.Helper()
	var out []record.Record
	scan(t, db, &record.Query{Order: record.OrderKey}, func(r record.Record) {
		r.Payload = append([]byte(nil), r.Payload...)
		out = append(out, r)
	})
	return out
}
