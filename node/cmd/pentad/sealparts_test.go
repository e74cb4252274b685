package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

// sealedRuns stores readings of which each is of a chain of its own, as if it came from a process
// of its own, and adds up what they are.
type sealedRuns struct {
	schema, keys string // files
	tenant       *seal.Tenant
	parsed       *seal.Schema
	w            *client.Writer
	sums         map[string]int64 // of all, and by state
}

func newSealedRuns(t *testing.T, db *client.Client) *sealedRuns {
	t.Helper()
	dir := t.TempDir()
	r := &sealedRuns{schema: filepath.Join(dir, "kwh.json"), sums: map[string]int64{},
		keys: filepath.Join(dir, "keys.json"), w: db.NewWriter(client.WriterOptions{})}
	source := []byte(`{"schema": 1, "max_records": 1000000, "envelope": true,
		"mac": {"scope": "tenant"}, "fields": [
		{"id": 1, "name": "kwh", "kind": "number", "max": 1000000, "sum": true},
		{"id": 2, "name": "state", "kind": "text", "equal": {"scope": "tenant"}}]}`)
	if err := os.WriteFile(r.schema, source, 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := seal.OpenFileKeyring(r.keys)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ring.Generate(1); err != nil {
		t.Fatal(err)
	}
	if r.parsed, err = seal.ParseSchema(source); err != nil {
		t.Fatal(err)
	}
	if r.tenant, err = seal.OpenTenant(ring, 1, r.parsed); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *sealedRuns) put(t *testing.T, mid int64, hour int) {
	t.Helper()
	k := record.Key{CID: 1, MID: mid, MOID: 9, CapNs: int64(hour) * int64(time.Hour)}
	w, err := r.tenant.NewWriter(t.Context(), r.parsed, k.MID, k.MOID)
	if err != nil {
		t.Fatal(err)
	}
	value, state := mid*7+int64(hour), [...]string{"off", "on"}[hour%2]
	payload, err := w.Append(nil, seal.Reading{CapNs: k.CapNs,
		Values: []seal.Value{{Number: value}, {Text: state}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.w.AddRecord(t.Context(), record.Record{Key: k, Payload: payload}); err != nil {
		t.Fatal(err)
	}
	r.sums[""] += value
	r.sums[state] += value
}

// TestSealSumInParts: sums over more chains than the list of one answer has room for are those of
// all readings: of many devices, and of one whose days are halved.
func TestSealSumInParts(t *testing.T) {
	addr, db := testNode(t)
	all := newSealedRuns(t, db)
	const devices, runs, ofOne = 300, 10, 70_000
	for hour := range runs {
		for mid := range int64(devices) {
			all.put(t, mid, hour)
		}
	}
	for hour := range ofOne {
		all.put(t, devices, hour)
	}
	if err := all.w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{nil, {"--group", "moid"}, {"--by", "state"}} {
		stdout, stderr, code := runCommand(t, addr, append([]string{"seal", "sum", "--schema",
			all.schema, "--keys", all.keys, "--cid", "1", "--moid", "9", "-o", "ndjson",
			"--require-mac"}, more...)...)
		if code != 0 {
			t.Fatal(stderr)
		}
		records := 0
		for line := range strings.Lines(stdout) {
			var got struct {
				Count int         `json:"count"`
				Sum   json.Number `json:"kwh_sum"`
				State string      `json:"state"`
			}
			if err := json.Unmarshal([]byte(line), &got); err != nil ||
				got.Sum.String() != fmt.Sprint(all.sums[got.State]) {
				t.Errorf("%q: %s, want %d, %v", more, line, all.sums[got.State], err)
			}
			records += got.Count
		}
		if records != devices*runs+ofOne {
			t.Errorf("%q: %d records", more, records)
		}
	}
}
