//go:build cgo

package duckdb

import (
	"database/sql"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2"
)

// exports are files that pentad export wrote: 100 readings 0, 0.25, 0.5 ... of 5 devices, a second
// version of 1000, a tombstone, and two payloads that are no number.
const exports = "../../../node/cmd/pentad/internal/command/transfer/testdata/exports"

// DuckDB reads what pentad export wrote: columns, types, nulls and every number.
func TestReadsExports(t *testing.T) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	f := func(question string, want ...any) {
		t.Helper()
		got := make([]any, len(want))
		into := make([]any, len(want))
		for i := range got {
			into[i] = &got[i]
		}
		if err := db.QueryRowContext(t.Context(), question).Scan(into...); err != nil {
			t.Fatalf("%s: %v", question, err)
		}
		for i := range want {
			if fmt.Sprint(got[i]) != fmt.Sprint(want[i]) {
				t.Errorf("%s: column %d: %v, want %v", question, i, got[i], want[i])
			}
		}
	}
	file := func(name string) string { return "'" + filepath.Join(exports, name) + "'" }
	parquet := "read_parquet(" + file("v1.parquet") + ")"
	sum := 99*100/2*0.25 + 1000
	f("SELECT count(*), count(payload), count(value), sum(value), count(*) FILTER (deleted) FROM "+
		parquet, 104, 103, 101, sum, 1)
	f("SELECT min(mid), max(mid), min(cid), max(moid) FROM "+parquet, math.MinInt64,
		math.MaxInt64-1, 1, 2)
	f("SELECT typeof(cid), typeof(mid), typeof(payload), typeof(deleted), typeof(value) FROM "+
		parquet+" LIMIT 1", "INTEGER", "BIGINT", "BLOB", "BOOLEAN", "DOUBLE")
	f("SELECT count(*), count(DISTINCT cap) FROM "+parquet+
		" WHERE cap BETWEEN '2026-01-01' AND '2026-01-02'", 102, 20)
	f("SELECT min(acq)::VARCHAR, octet_length(max(payload)) FROM "+parquet+" WHERE mid = 1",
		"2026-11-21 00:00:00+00", 8)
	csv := "read_csv(" + file("v1.csv") + ")"
	f("SELECT count(*), sum(value::DOUBLE), count(*) FILTER (deleted) FROM "+csv, 104, sum, 1)
	lines := "read_json(" + file("v1.ndjson") + ", format = 'newline_delimited')"
	f("SELECT count(cid), sum(value::DOUBLE), count(*) FILTER (deleted) FROM "+lines, 104, sum, 1)
}
