package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// throughFiles sends the water meters of a city, 674,019 readings with hours that occur twice, from
// one node to another through Parquet, and what is around these hours through a file of each other
// format; test-long sends all through each, and -short leaves the others out.
func throughFiles(t *testing.T, addr string, db *client.Client) {
	for _, format := range exportFormats() {
		q, box, records := &record.Query{Order: record.OrderKey}, []string(nil), 674_019
		if format != exchange.Parquet && !rounds.Long() {
			if testing.Short() {
				continue
			}
			week := record.Range{From: time.Date(2016, 10, 24, 0, 0, 0, 0, time.UTC).UnixNano(),
				To: time.Date(2016, 10, 31, 0, 0, 0, 0, time.UTC).UnixNano()}
			q.Box[record.Cap] = record.RangeSet{week}
			box, records = []string{"--cap", "2016-10-24..2016-10-31"}, 0
		}
		want := byKey(t, db, q)
		file := filepath.Join(t.TempDir(), "water."+string(format))
		_, notes, code := runCommand(t, addr, append(
			[]string{"export", "--view", "all", "-f", file}, box...)...)
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s", format, code, notes)
		}
		to, copied := testNode(t)
		_, stored, code := runCommand(t, to, "import", file)
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s", format, code, stored)
		}
		got := byKey(t, copied, &record.Query{Order: record.OrderKey})
		if len(want) < 10_000 || records > 0 && len(got) != records || len(want) != len(got) {
			t.Fatalf("%s: %d records, want %d", format, len(got), len(want))
		}
		for i := range want {
			if !sameRecord(got[i], want[i]) {
				t.Fatalf("%s: record %d: %+v, want %+v", format, i, got[i], want[i])
			}
		}
		t.Logf("%s%s", notes, stored)
	}
}

// byKey returns what a query finds, in the order of keys, and versions of a reading by acq.
func byKey(t *testing.T, db *client.Client, q *record.Query) []record.Record {
	t.Helper()
	var out []record.Record
	scan(t, db, q, func(r record.Record) {
		r.Payload = append([]byte(nil), r.Payload...)
		out = append(out, r)
	})
	return out
}
