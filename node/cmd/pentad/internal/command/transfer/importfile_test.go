package transfer

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/sdk/record"
)

// imported is the answer of import -o json.
type imported struct {
	Files, Lines, Records, Skipped, Rejected int64
}

// importAs imports a file by flags and returns the summary.
func importAs(t *testing.T, addr string, wantCode int, args ...string) (s imported, notes string) {
	t.Helper()
	args = append([]string{"import", "-o", "json"}, args...)
	stdout, stderr, code := runCommand(t, addr, args...)
	if code != wantCode {
		t.Fatalf("exit code %d, want %d: %s", code, wantCode, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &s); stdout != "" && err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	return s, stderr
}

// A Parquet file that DuckDB wrote, of 1,000 rows at 15 minutes, with names of meters, a float that
// is null in every tenth row, a small unsigned number and a date.
func TestImportDuckDBParquet(t *testing.T) {
	addr, db := testNode(t)
	ids := filepath.Join(t.TempDir(), "ids.json")
	s, _ := importAs(t, addr, 0, "testdata/duckdb.parquet", "--cid", "1", "--mid",
		"column=meter,lookup=meter", "--cap", "column=at", "--value", "column=kwh,moid=1",
		"--value", "column=volt,moid=2,type=i64", "--lookup-file", ids)
	if want := (imported{1, 1000, 1900, 100, 0}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	for i, r := range storedRecords(t, db) {
		n := (r.CapNs - 1_767_225_600_000_000_000) / (15 * 60 * 1_000_000_000)
		want := binary.LittleEndian.AppendUint64(nil, uint64(n*3))
		if r.MOID == 1 {
			want = binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(n)/8))
		}
		if r.CID != 1 || r.MID != n%3+1 || !bytes.Equal(r.Payload, want) {
			t.Fatalf("record %d: %+v, %x, want %x", i, r.Key, r.Payload, want)
		}
	}
	_, notes := importAs(t, addr, 6, "testdata/duckdb.parquet", "--cid", "1", "--mid",
		"column=volt", "--cap", "column=at", "--value", "column=meter,moid=1")
	if !strings.Contains(notes, `1,000 of 1,000 lines rejected`) ||
		!strings.Contains(notes, `"meter 0" is not an f64`) {
		t.Error(notes)
	}
}

// A stream of three rows with a time without a zone, texts of which one is null, a decimal, which
// is not read, and truth values.
func TestImportArrowByMapping(t *testing.T) {
	addr, db := testNode(t)
	const file = "testdata/remarks.arrow"
	mapping := filepath.Join(t.TempDir(), "remarks.yaml")
	text := `skip: ["-"]
cid: {constant: 3}
mid: {column: id}
cap: {columns: [at], zone: Europe/Berlin}
values: [{column: remark, moid: 9, type: text}]
deleted: gone
`
	if err := os.WriteFile(mapping, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := importAs(t, addr, 0, file, "--mapping", mapping)
	if want := (imported{1, 3, 3, 0, 0}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	got := fmt.Sprint(describe(storedRecords(t, db)))
	const at = "2026-07-01T10:00:00.000000000Z"
	const want = `[3/0/9 ` + at + ` "" 3/1/9 ` + at + ` "ü" 3/2/9 ` + at + ` deleted]`
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	_, notes := importAs(t, addr, 6, file, "--cid", "1", "--mid", "column=id", "--cap", "column=at",
		"--value", "column=price,moid=1")
	if !strings.Contains(notes, `"a cell of unsupported type decimal(9, 2)" is not an f64`) {
		t.Error(notes)
	}
}

func describe(records []record.Record) (out []string) {
	for _, r := range records {
		what := fmt.Sprintf("%q", r.Payload)
		if r.Tomb {
			what = "deleted"
		}
		out = append(out, fmt.Sprintf("%d/%d/%d %s %s", r.CID, r.MID, r.MOID,
			record.FormatNs(r.CapNs), what))
	}
	return out
}

// Files that cannot be imported say what is wrong and what to do.
func TestImportRefuses(t *testing.T) {
	addr, _ := testNode(t)
	dir := t.TempDir()
	f := func(name, content string, code int, want string, args ...string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, notes := importAs(t, addr, code, append([]string{path}, args...)...)
		if !strings.Contains(notes, want) {
			t.Errorf("%s: %s, want %s", name, notes, want)
		}
	}
	header := `{"pentad_export":1,"box":{},"view":"all","horizon":""}` + "\n"
	f("a.csv", "a,b\n1,2\n", 2, "line 1 has no column cid, which an export has; files of other "+
		"systems need a mapping")
	f("a.ndjson", `{"cid":1}`, 2, "use pentad put")
	f("b.ndjson", `{"pentad_export":2}`, 7,
		"format version 2 is newer than version 1 of this program")
	f("c.ndjson", header+`{"cid":1,"mid":2,"moid":3,"cap":"2026-01-01T00:00:00Z"}`, 7,
		"line 2: payload is missing, and the record is not deleted")
	f("d.ndjson", header+`{"end":{"records":1}}`, 7, "the end line says 1 records, but 0 were read")
	f("e.ndjson", header+`{"cid":-1,"mid":2,"moid":3,"cap":"0","payload":""}`, 7,
		"line 2: cid: -1 is outside 0 to 2147483646")
	f("f.parquet", "PAR1xxxxPAR1", 7, "footer: ")
	f("g.csv", "a,b\n1,2\n", 2, "--format: unknown format \"xlsx\"", "--format", "xlsx")
	f("h.ndjson", header, 2, "use pentad put for lines of JSON", "--cid", "1", "--mid",
		"column=a", "--cap", "column=b", "--value", "column=c,moid=1")
}

// An import says which acqs its records have: as of the first is what was before it, as of the end
// is what it stored. A second run says the same.
func TestImportAcqs(t *testing.T) {
	addr, _ := testNode(t)
	path := filepath.Join(t.TempDir(), "a.csv")
	files := []string{"id,at,v\n1,1,1\n", "id,at,v\n1,1,2\n1,2,2\n"}
	count := func(asOf string) string {
		t.Helper()
		stdout, stderr, code := runCommand(t, addr, "export", "--asof", asOf, "-o", "csv")
		if code != 0 {
			t.Fatal(stderr)
		}
		return fmt.Sprint(strings.Count(stdout, "\n") - 1)
	}
	var last map[string]any
	for i, text := range append(files, files[1]) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code := runCommand(t, addr, "import", "csv", "-o", "json", "--cid", "1",
			"--mid", "column=id", "--cap", "column=at", "--value", "column=v,moid=1", path)
		var s map[string]any
		if err := json.Unmarshal([]byte(stdout), &s); err != nil || code != 0 {
			t.Fatal(err, stderr)
		}
		from, until := s["from_acq"].(string), s["until_acq"].(string)
		got := count(from) + " " + count(until)
		if want := []string{"0 1", "1 2", "1 2"}[i]; got != want {
			t.Errorf("import %d: as of %s and %s %s readings, want %s", i, from, until, got, want)
		}
		if i == 2 && (last["from_acq"] != from || last["until_acq"] != until) {
			t.Errorf("the second run: %v, want %v", s, last)
		}
		last = s
	}
}

// Every flag of a mapping is known as one: else import would leave it aside without a word.
func TestMappingFlags(t *testing.T) {
	var f importFlags
	c := &cobra.Command{}
	f.add(c)
	for _, name := range mappingFlags() {
		if c.Flags().Lookup(name) == nil {
			t.Errorf("there is no flag %s", name)
		}
		if err := c.Flags().MarkHidden(name); err != nil {
			t.Error(err)
		}
	}
	if c.HasAvailableFlags() {
		t.Errorf("mappingFlags leaves out\n%s", c.Flags().FlagUsages())
	}
}
