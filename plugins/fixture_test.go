package plugins_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/plugins"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// fixture is a folder with records, a query and the answer.
type fixture struct {
	records []fixtureRecord
	query   struct {
		Params map[string]string `json:"params"`
		Group  []string          `json:"group"`
		Bucket string            `json:"bucket"`
	}
	expected []map[string]any
}

// fixtureRecord is a line as pentad get -o ndjson prints it.
type fixtureRecord struct {
	CID     int32     `json:"cid"`
	MID     int64     `json:"mid"`
	MOID    int32     `json:"moid"`
	Cap     time.Time `json:"cap"`
	Acq     time.Time `json:"acq"`
	Value   *float64  `json:"value"`
	Payload string    `json:"payload_hex"`
}

func readFixture(t *testing.T, dir string) *fixture {
	t.Helper()
	f := &fixture{}
	parts := map[string][]byte{"records.ndjson": nil, "query.json": nil, "expected.json": nil}
	for name := range parts {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		parts[name] = text
	}
	for line := range bytes.Lines(parts["records.ndjson"]) {
		var r fixtureRecord
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		f.records = append(f.records, r)
	}
	if err := json.Unmarshal(parts["query.json"], &f.query); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(parts["expected.json"]))
	d.UseNumber()
	if err := d.Decode(&f.expected); err != nil || len(f.records) == 0 {
		t.Fatalf("%d records, %v", len(f.records), err)
	}
	return f
}

func (f *fixture) batch(t *testing.T) *record.Batch {
	t.Helper()
	b := &record.Batch{}
	for _, r := range f.records {
		payload, err := hex.DecodeString(r.Payload)
		if err != nil {
			t.Fatal(err)
		}
		if r.Value != nil {
			payload = binary.LittleEndian.AppendUint64(nil, math.Float64bits(*r.Value))
		}
		b.AppendStamped(record.Key{CID: r.CID, MID: r.MID, MOID: r.MOID, CapNs: r.Cap.UnixNano(),
			AcqNs: r.Acq.UnixNano()}, payload)
	}
	return b
}

func stamp(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

// keyOf is the part of the answer that names the group of a record.
func (f *fixture) keyOf(t *testing.T, r *fixtureRecord) map[string]any {
	t.Helper()
	key := map[string]any{}
	for _, part := range f.query.Group {
		key[part] = map[string]int64{"cid": int64(r.CID), "mid": r.MID, "moid": int64(r.MOID)}[part]
	}
	if f.query.Bucket != "" {
		width, err := time.ParseDuration(strings.Replace(f.query.Bucket, "1d", "24h", 1))
		if err != nil {
			t.Fatal(err)
		}
		key["cap"] = stamp(r.Cap.UnixNano() / int64(width) * int64(width))
	}
	return key
}

// plain is a value as JSON compares it: numbers by value, also those that JSON has no form for.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return float64(n)
		}
		n, _ := v.Float64() // a number, the decoder says
		return n
	case float64:
		if v != v {
			return "NaN"
		}
		return v
	case uint64:
		return float64(v)
	case int64:
		return float64(v)
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case plugin.Moment:
		return stamp(int64(v))
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	}
	return v
}

func plainRow(row map[string]any) string {
	out := map[string]any{}
	for name, v := range row {
		out[name] = plain(v)
	}
	return fmt.Sprint(out)
}

func (f *fixture) compare(t *testing.T, dir string, got []map[string]any) {
	t.Helper()
	if len(got) != len(f.expected) {
		t.Errorf("%s: %d results, want %d", dir, len(got), len(f.expected))
		return
	}
	for i, want := range f.expected {
		if g, w := plainRow(got[i]), plainRow(want); g != w {
			t.Errorf("%s: result %d is\n%s\nwant\n%s", dir, i, g, w)
		}
	}
}

// aggregate runs the query; groups come by key.
func (f *fixture) aggregate(t *testing.T, m *wasmhost.Module, doc *plugin.Doc,
	params []byte) []map[string]any {
	t.Helper()
	ids, rows, gid := map[string]uint32{}, []map[string]any(nil), []uint32(nil)
	order := slices.Clone(f.records)
	slices.SortFunc(order, func(a, b fixtureRecord) int { return a.Cap.Compare(b.Cap) })
	slices.SortStableFunc(order, func(a, b fixtureRecord) int { return int(a.MID - b.MID) })
	for i := range order {
		key := f.keyOf(t, &order[i])
		if _, ok := ids[fmt.Sprint(key)]; !ok {
			ids[fmt.Sprint(key)] = uint32(len(rows))
			rows = append(rows, key)
		}
	}
	counts := make([]uint64, len(rows))
	for i := range f.records {
		g := ids[fmt.Sprint(f.keyOf(t, &f.records[i]))]
		gid = append(gid, g)
		counts[g]++
	}
	a := newAggregate(t, m, params)
	if err := a.Add(t.Context(), f.batch(t), gid, len(rows)); err != nil {
		t.Fatal(err)
	}
	results, err := a.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range results {
		fields, err := doc.Render(result)
		if err != nil {
			t.Fatal(err)
		}
		rows[i]["records"] = counts[i]
		for _, field := range fields {
			rows[i][field.Name] = field.Value
		}
	}
	return rows
}

// filter returns the records that are kept, by key.
func (f *fixture) filter(t *testing.T, m *wasmhost.Module, params []byte) []map[string]any {
	t.Helper()
	filter, err := m.NewFilter(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	defer filter.Close()
	keep := make([]uint64, (len(f.records)+63)/64)
	if err := filter.Keep(t.Context(), f.batch(t), keep); err != nil {
		t.Fatal(err)
	}
	var kept []fixtureRecord
	for i, r := range f.records {
		if keep[i/64]>>(i%64)&1 != 0 {
			kept = append(kept, r)
		}
	}
	slices.SortFunc(kept, func(a, b fixtureRecord) int { return a.Cap.Compare(b.Cap) })
	slices.SortStableFunc(kept, func(a, b fixtureRecord) int { return int(a.MID - b.MID) })
	var rows []map[string]any
	for _, r := range kept {
		row := map[string]any{"cid": int64(r.CID), "mid": r.MID, "moid": int64(r.MOID),
			"cap": stamp(r.Cap.UnixNano()), "acq": stamp(r.Acq.UnixNano()), "value": nil}
		if r.Value != nil {
			row["value"] = *r.Value
		} else {
			payload, err := hex.DecodeString(r.Payload)
			if err != nil {
				t.Fatal(err)
			}
			row["payload"] = base64.StdEncoding.EncodeToString(payload)
		}
		rows = append(rows, row)
	}
	return rows
}

// Every plugin has fixtures, whose answers were worked out by other means than this code.
func TestFixtures(t *testing.T) {
	for _, p := range plugins.Standard() {
		dirs, err := filepath.Glob(filepath.Join(p.Name, "testdata", "*"))
		if err != nil || len(dirs) == 0 {
			t.Errorf("%s has no fixtures, %v", p.Name, err)
			continue
		}
		m, doc := standard(t, p.Name)
		for _, dir := range dirs {
			f := readFixture(t, dir)
			params := encode(t, doc, f.query.Params)
			if m.Describe().Kinds == plugin.KindFilter {
				f.compare(t, dir, f.filter(t, m, params))
				continue
			}
			f.compare(t, dir, f.aggregate(t, m, doc, params))
		}
	}
}
