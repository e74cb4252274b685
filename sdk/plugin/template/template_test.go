package template_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/leaks"
	"github.com/pentad-db/pentad/cluster-test/required"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/plugin/template"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// write makes the folder of a new plugin.
func write(t *testing.T, language, name string, growing bool) string {
	t.Helper()
	files, err := template.Files(language, name, growing)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// module returns what running make in a new folder builds. What is not built by Go is checked in;
// make guests-verify in plugins holds it against its source.
func module(t *testing.T, language, name string, growing bool) []byte {
	t.Helper()
	path := filepath.Join("testdata", language+".wasm")
	if growing {
		path = filepath.Join("testdata", language+"-growing.wasm")
	}
	if language == "go" {
		path = filepath.Join(buildGo(t, name, growing), name+".wasm")
	}
	wasm, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// buildGo runs make for the template in Go against this version of the sdk.
func buildGo(t *testing.T, name string, growing bool) string {
	t.Helper()
	dir := write(t, "go", name, growing)
	top, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	const path = "github.com/pentad-db/pentad"
	for _, args := range [][]string{
		{"go", "mod", "edit", "-require=" + path + "@v0.0.0", "-replace=" + path + "=" + top},
		{"make"}} {
		c := exec.CommandContext(t.Context(), args[0], args[1:]...)
		c.Dir = dir
		if text, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, text)
		}
	}
	return dir
}

func TestFiles(t *testing.T) {
	for i := range 2 * len(template.Languages()) {
		language := template.Languages()[i/2]
		dir := write(t, language, "my-plugin_2", i%2 == 0)
		names := ""
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			names += strings.TrimPrefix(path, dir) + "\n"
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), "PLUGIN_NAME") || filepath.Ext(path) == ".tmpl" {
				t.Errorf("%s: %s is not filled in", language, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"/Makefile", "/README.md", "/testdata/example/expected.json",
			"/testdata/example/query.json", "/testdata/example/records.ndjson"} {
			if !strings.Contains(names, want+"\n") {
				t.Errorf("%s has no %s, but\n%s", language, want, names)
			}
		}
		text, err := os.ReadFile(filepath.Join(dir, "Makefile"))
		if err != nil || !strings.Contains(string(text), "\nmy-plugin_2.wasm: ") {
			t.Errorf("%s: make does not build my-plugin_2.wasm, %v\n%s", language, err, text)
		}
	}
	if _, err := template.Files("cobol", "x", false); err == nil ||
		!strings.Contains(err.Error(), `"cobol"; there are c, go`) {
		t.Errorf("cobol: %v", err)
	}
}

// queryFile is query.json.
type queryFile struct {
	Params map[string]string `json:"params"`
	Group  []string          `json:"group"`
	Bucket string            `json:"bucket"`
}

// answer is a group of expected.json, for results of one field.
type answer struct {
	MID     int64     `json:"mid"`
	Cap     time.Time `json:"cap"`
	Records int       `json:"records"`
	Mean    float64   `json:"mean"`
}

func readJSON(t *testing.T, dir, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "testdata", "example", name))
	if err != nil {
		t.Fatal(err)
	}
	if name == "records.ndjson" {
		text = []byte("[" + strings.Join(strings.Split(strings.TrimSpace(string(text)), "\n"),
			",") + "]")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// line is a line of records.ndjson.
type line struct {
	CID   int32     `json:"cid"`
	MID   int64     `json:"mid"`
	MOID  int32     `json:"moid"`
	Cap   time.Time `json:"cap"`
	CapNs int64     `json:"cap_ns"`
	Acq   time.Time `json:"acq"`
	AcqNs int64     `json:"acq_ns"`
	Value float64   `json:"value"`
}

// example is the fixture of a template as what a host takes.
type example struct {
	params  map[string]string
	batch   record.Batch
	gid     []uint32
	answers []answer // without the means
	want    []answer
}

func readExample(t *testing.T, dir string) *example {
	t.Helper()
	var lines []line
	var q queryFile
	e := &example{}
	readJSON(t, dir, "records.ndjson", &lines)
	readJSON(t, dir, "query.json", &q)
	readJSON(t, dir, "expected.json", &e.want)
	bucket, err := time.ParseDuration(q.Bucket)
	if err != nil || !slices.Equal(q.Group, []string{"mid"}) {
		t.Fatalf("%+v, %v: this test groups by mid and a bucket", q, err)
	}
	e.params = q.Params
	for _, l := range lines {
		if l.Cap.UnixNano() != l.CapNs || l.Acq.UnixNano() != l.AcqNs {
			t.Errorf("%+v: its times differ", l)
		}
		key := record.Key{CID: l.CID, MID: l.MID, MOID: l.MOID, CapNs: l.CapNs, AcqNs: l.AcqNs}
		e.batch.AppendStamped(key, binary.LittleEndian.AppendUint64(nil,
			math.Float64bits(l.Value)))
		a := answer{MID: l.MID, Cap: l.Cap.Truncate(bucket)}
		i := slices.IndexFunc(e.answers, func(b answer) bool {
			return b.MID == a.MID && b.Cap.Equal(a.Cap)
		})
		if i < 0 {
			i = len(e.answers)
			e.answers = append(e.answers, a)
		}
		e.answers[i].Records++
		e.gid = append(e.gid, uint32(i))
	}
	return e
}

// TestExamples runs the example of each template in the module that the template builds.
func TestExamples(t *testing.T) {
	h, err := wasmhost.New(t.Context(), wasmhost.Options{GoProfile: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	for _, language := range template.Languages() {
		t.Run(language, func(t *testing.T) {
			m, err := h.Load(t.Context(), module(t, language, "mean", false))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			doc, err := plugin.ParseDoc(m.Describe().Doc)
			if err != nil || m.Name() != "mean" || doc.Name != "mean" {
				t.Fatalf("%q calls itself %+v, %v", m.Name(), doc, err)
			}
			runExample(t, m, doc, readExample(t, write(t, language, "mean", false)))
			refuses(t, m, doc)
		})
	}
}

func runExample(t *testing.T, m *wasmhost.Module, doc *plugin.Doc, e *example) {
	t.Helper()
	params, err := doc.EncodeParams(e.params)
	if err != nil {
		t.Fatal(err)
	}
	into, from := aggregate(t, m, params), aggregate(t, m, nil)
	defer into.Close()
	defer from.Close()
	if into.PayloadPrefix() != 8 || from.PayloadPrefix() != 8 {
		t.Errorf("it reads %d and %d bytes of payloads, want 8", into.PayloadPrefix(),
			from.PayloadPrefix())
	}
	if err := from.Add(t.Context(), &e.batch, e.gid, len(e.answers)); err != nil {
		t.Fatal(err)
	}
	states, err := from.States(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := into.Merge(t.Context(), states, nil); err != nil {
		t.Fatal(err)
	}
	// A group without records has a result, too.
	if err := into.Add(t.Context(), &record.Batch{}, nil, len(e.answers)+1); err != nil {
		t.Fatal(err)
	}
	results, err := into.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range e.answers {
		e.answers[i].Mean = math.Float64frombits(binary.LittleEndian.Uint64(results[i]))
	}
	if !slices.Equal(e.answers, e.want) {
		t.Errorf("answers are\n%+v, expected.json has\n%+v", e.answers, e.want)
	}
	if bits := binary.LittleEndian.Uint64(results[len(e.answers)]); bits != 0x7ff8<<48 {
		t.Errorf("the mean of nothing is %#x", bits)
	}
}

func aggregate(t *testing.T, m *wasmhost.Module, params []byte) *wasmhost.Aggregate {
	t.Helper()
	a, err := m.NewAggregate(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// refuses checks that parameters and payloads that cannot be read are named.
func refuses(t *testing.T, m *wasmhost.Module, doc *plugin.Doc) {
	t.Helper()
	want := func(err error, status int32, text string) {
		t.Helper()
		var e *wasmhost.Error
		if !errors.As(err, &e) || e.Status != status || !strings.Contains(e.Message, text) {
			t.Errorf("error %v, want status %d and %q", err, status, text)
		}
	}
	for text, params := range map[string][]byte{"8 bytes": make([]byte, 7), "at most": {7: 1}} {
		_, err := m.NewAggregate(t.Context(), params)
		want(err, plugin.StatusParams, text)
	}
	params, err := doc.EncodeParams(map[string]string{"offset": "4"})
	if err != nil {
		t.Fatal(err)
	}
	for _, sizes := range [][]int{{12, 11}, {11, 11}} {
		var b record.Batch
		for _, size := range sizes {
			b.Append(record.Key{}, make([]byte, size))
		}
		a := aggregate(t, m, params)
		want(a.Add(t.Context(), &b, nil, 1), plugin.StatusPayload,
			"has a payload of 11 bytes, the number ends at byte 12")
		a.Close()
	}
}

// TestColumnsHeader builds a new plugin in C that reads columns, as it stands.
func TestColumnsHeader(t *testing.T) {
	if _, err := exec.LookPath("clang-19"); err != nil {
		required.Skip(t, required.Clang, "a plugin in C with columns.h; apt-get install clang-19 "+
			"lld-19")
	}
	dir := write(t, "c", "peak", false)
	source := filepath.Join(dir, "plugin.c")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`#include "pentad.h"`), []byte(`#include "columns.h"`), 1)
	if err := os.WriteFile(source, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "make")
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("make: %v\n%s", err, out)
	}
}
