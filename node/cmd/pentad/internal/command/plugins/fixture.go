package plugins

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/input"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/offline"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
)

// Files of a fixture.
const (
	fixtureRecords  = "records.ndjson"
	fixtureQuery    = "query.json"
	fixtureExpected = "expected.json"
)

func (a *app) pluginTestCommand() *cobra.Command {
	var data string
	var update bool
	c := &cobra.Command{
		Use:   "test [FILE.wasm]",
		Short: "Test a plugin on records in files",
		Long: `Test a plugin on records in files, with the code that runs it on a node but without a node. Each
directory in testdata is a test:

  records.ndjson  records, as printed by pentad get -o ndjson
  query.json      {"params": {"offset": 0}, "group": ["mid"], "bucket": "15m", "type": "f64"}:
                  all optional; type is the type of values in records, e.g. text, which the
                  plugin then reads them as; "bucket" can be replaced by
                  "window": {"every": "1mo", "tz": "Europe/Berlin"}
  expected.json   the output of pentad plugin run -o json or, for a filter, of pentad get -o json;
                  or {"error": "part of the message"}

An aggregate runs in one instance, and in two that are merged. Both must give the same result; last
bits may differ if the module declares it in its flags. The figures are those of this machine: time
and fuel per record, the call that came closest to its fuel limit, memory pages of 64 KiB.`,
		Args: cli.Arguments(0, 1, ""),
		Example: `  pentad plugin test peaks.wasm
  pentad plugin test peaks.wasm --update
  pentad plugin test build/out.wasm --data testdata -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.pluginTest(c.Context(), strings.Join(args, ""), data, update)
		},
	}
	c.Flags().StringVar(&data, "data", "",
		"directory of the tests (default: testdata next to the module)")
	c.Flags().BoolVar(&update, "update", false, "write the results to expected.json")
	return c
}

func (a *app) pluginTest(ctx context.Context, path, data string, update bool) error {
	var err error
	if path == "" {
		if path, err = onlyModule("."); err != nil {
			return err
		}
	}
	wasm, err := queryflags.ReadModule(path)
	if err != nil {
		return err
	}
	if data == "" {
		data = filepath.Join(filepath.Dir(path), "testdata")
	}
	found, err := filepath.Glob(filepath.Join(data, "*", fixtureRecords))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no tests in %s: a test is a directory with %s; see pentad plugin test "+
			"--help", data, fixtureRecords)
	}
	if err != nil {
		return err
	}
	r, err := offline.New(ctx, wasm)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := a.Writer(false, cli.Left("test"), cli.Left("result"), cli.Right("records"),
		cli.Right("answers"), cli.Right("ns_per_record"), cli.Right("fuel_per_record"),
		cli.Left("fuel_peak"), cli.Right("fuel_peak_percent"), cli.Right("memory_pages"),
		cli.Right("memory_limit"))
	if err != nil {
		return err
	}
	failed, undeclared := 0, false
	for _, name := range found {
		t := &fixture{dir: filepath.Dir(name), runner: r, update: update}
		result := "pass"
		if err := t.run(ctx); ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil {
			result = "fail"
			failed++
			fmt.Fprintf(a.Stderr, "%s: %v\n", t.dir, err)
		} else if t.updated {
			result = "updated"
		}
		undeclared = undeclared || t.out.Undeclared
		if err := w.Row(t.row(result)...); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if undeclared {
		a.Note("last bits of results depend on how records are split and merged, e.g. in sums " +
			"of floating-point numbers; set the flag DEPENDS_ON_BATCHES, or repeated queries " +
			"may give different results")
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d tests failed", failed, len(found))
	}
	return nil
}

// fixture is a test in a folder.
type fixture struct {
	dir     string
	runner  *offline.Runner
	update  bool
	updated bool

	by      record.GroupBy
	params  []byte
	kind    quantity.Type
	misread error // why the plugin would misread values in records; nil: it would not
	records record.Batch
	out     offline.Outcome
	answers int
}

func (t *fixture) row(result string) []output.Value {
	u := &t.out.Usage
	percent := 100 * float64(u.PeakFuel) / float64(max(1, u.PeakBudget))
	peak := ""
	if u.PeakBudget > 0 {
		peak = fmt.Sprintf("%s %s of %s", u.PeakExport, output.Thousands(u.PeakFuel),
			output.Thousands(u.PeakBudget))
	}
	return []output.Value{output.Text(filepath.Base(t.dir)), output.Text(result),
		output.Count(t.records.Len()), output.Count(t.answers),
		figure(t.out.NsPerRecord), figure(t.out.FuelPerRecord), output.Text(peak),
		output.Computed(percent), output.Count(u.MemoryBytes >> 16),
		output.Count(t.runner.MemoryPages())}
}

// figure is a number that could be measured and is not 0, else nothing.
func figure(f float64) output.Value {
	if f > 0 {
		return output.Computed(f)
	}
	return output.Null()
}

func (t *fixture) run(ctx context.Context) error {
	if err := t.readQuery(); err != nil {
		return fmt.Errorf("%s: %w", fixtureQuery, err)
	}
	if err := t.readRecords(); err != nil {
		return fmt.Errorf("%s: %w", fixtureRecords, err)
	}
	var err error
	t.out, err = t.runner.Run(ctx, &t.records, t.params, t.by)
	if err == nil {
		return t.check()
	}
	if refused := (*offline.MergeError)(nil); errors.As(err, &refused) {
		return err
	}
	text, readErr := os.ReadFile(filepath.Join(t.dir, fixtureExpected))
	var want struct {
		Error string `json:"error"`
	}
	if readErr != nil || json.Unmarshal(text, &want) != nil || want.Error == "" ||
		!strings.Contains(err.Error(), want.Error) {
		return err
	}
	return nil
}

func (t *fixture) readQuery() error {
	var q struct {
		Params map[string]any `json:"params"`
		Group  []string       `json:"group"`
		Bucket string         `json:"bucket"`
		Window *struct {
			Every string `json:"every"`
			Zone  string `json:"tz"`
		} `json:"window"`
		Type string `json:"type"`
	}
	text, err := os.ReadFile(filepath.Join(t.dir, fixtureQuery))
	if errors.Is(err, os.ErrNotExist) {
		text, err = []byte("{}"), nil
	}
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(&q); err != nil {
		return err
	}
	if t.kind, err = output.ParsePayloadType(cli.OrElse(q.Type, "f64")); err != nil {
		return err
	}
	group := strings.Join(q.Group, ",")
	if q.Bucket != "" {
		group = strings.TrimPrefix(group+",cap="+q.Bucket, ",")
	}
	if t.by, err = queryflags.ParseGroup(group); err == nil {
		err = queryflags.OnlyParts(t.by, "tests have no devices")
	}
	if err != nil {
		return err
	}
	if q.Window != nil {
		t.by.Window, err = calendar.ParseEvery(q.Window.Every, q.Window.Zone)
		if err != nil {
			return fmt.Errorf("window: every %.80q: %w", q.Window.Every, err)
		}
	}
	values := map[string]string{}
	for name, value := range q.Params {
		values[name] = fmt.Sprint(value)
	}
	if err := t.fitValues(values, q.Type); err != nil {
		return err
	}
	t.params, err = t.runner.Doc.EncodeParams(values)
	return err
}

// fitValues lets the plugin read values in records as what they are: of the type that query.json
// names. Without one they are f64, and only a record with a value is an error for a plugin that
// reads something else.
func (t *fixture) fitValues(params map[string]string, named string) error {
	switch {
	case t.kind.Raw():
		return nil
	case named != "":
		return t.runner.Doc.FitValues(params, named)
	}
	err := t.runner.Doc.FitValues(maps.Clone(params), t.kind.String())
	if err != nil {
		t.misread = fmt.Errorf(`%w; set "type" in %s`, err, fixtureQuery)
	}
	return nil
}

func (t *fixture) readRecords() error {
	f, err := os.Open(filepath.Join(t.dir, fixtureRecords))
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 2*record.MaxPayloadBytes)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := t.addRecord(lines.Bytes(), n); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

// addRecord adds a record with its acq, or with the number of its line where it has none. Deleted
// ones are left out: plugins do not see them.
func (t *fixture) addRecord(line []byte, n int) error {
	r, err := input.ParseLine(line, t.kind)
	if err != nil || r.Tomb {
		return err
	}
	in, _, err := input.DecodeLine(line)
	if err != nil {
		return err
	}
	if t.misread != nil && len(in.Value) > 0 {
		return t.misread
	}
	r.AcqNs = int64(n)
	if len(in.AcqNs) > 0 {
		if r.AcqNs, err = strconv.ParseInt(string(in.AcqNs), 10, 64); err != nil {
			return fmt.Errorf("acq_ns: %w", err)
		}
	} else if len(in.Acq) > 0 {
		layout, err := timeparse.Compile("rfc3339")
		if err != nil {
			return err
		}
		if r.AcqNs, err = layout.Parse(bytes.Trim(in.Acq, `"`)); err != nil {
			return fmt.Errorf("acq: %w", err)
		}
	}
	t.records.AppendStamped(r.Key, r.Payload)
	return nil
}

// twin is the second member of a time, which says the same once more.
var twin = regexp.MustCompile(`,"(cap|acq)_ns":-?[0-9]+`)

// lines returns the answer as lines of JSON.
func (t *fixture) lines() ([]string, error) {
	var text bytes.Buffer
	if t.runner.Aggregates() {
		w := output.NewWriter(&text, output.Options{Format: output.NDJSON},
			queryflags.GroupColumns(t.by, t.runner.Doc, nil)...)
		if err := queryflags.WriteGroups(w, t.by, t.runner.Doc, nil, t.out.Groups); err != nil {
			return nil, err
		}
	} else {
		w := output.NewWriter(&text, output.Options{Format: output.NDJSON}, cli.Right("cid"),
			cli.Right("mid"), cli.Right("moid"), cli.Left("cap"), cli.Left("acq"),
			output.PayloadColumn(t.kind))
		for _, i := range t.out.Kept {
			k := t.records.Key(i)
			if err := w.Row(output.Int(k.CID), output.Int(k.MID), output.Int(k.MOID),
				output.Time(k.CapNs), output.Time(k.AcqNs),
				output.Payload(t.kind, t.records.Payload(i))); err != nil {
				return nil, err
			}
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
	}
	all := strings.TrimSpace(twin.ReplaceAllString(text.String(), ""))
	if all == "" {
		return nil, nil
	}
	return strings.Split(all, "\n"), nil
}

// check holds the answer against expected.json, or writes it there.
func (t *fixture) check() error {
	got, err := t.lines()
	if err != nil {
		return err
	}
	t.answers = len(got)
	name := filepath.Join(t.dir, fixtureExpected)
	text, err := os.ReadFile(name)
	if err != nil && !(t.update && errors.Is(err, os.ErrNotExist)) {
		return fmt.Errorf("%w; use --update to write it", err)
	}
	var rows []json.RawMessage
	wrong := json.Unmarshal(text, &rows)
	if wrong != nil && !t.update {
		return fmt.Errorf("%s: %w; it must be a list of rows", fixtureExpected, wrong)
	}
	want := make([]string, len(rows))
	for i, row := range rows {
		var line bytes.Buffer
		if err := json.Compact(&line, row); err != nil {
			return err
		}
		want[i] = twin.ReplaceAllString(line.String(), "")
	}
	diff := diffLines(want, got)
	if wrong == nil && diff == "" {
		return nil
	}
	if !t.update {
		return fmt.Errorf("the result differs (-expected +result)\n%s", diff)
	}
	t.updated = true
	body := "[\n" + strings.Join(got, ",\n") + "\n]\n"
	if len(got) == 0 {
		body = "[]\n"
	}
	return os.WriteFile(name, []byte(body), 0o644)
}

// maxDiffLines keeps the first lines in sight.
const maxDiffLines = 40

// diffLines shows what differs between rows of JSON, "" for nothing: what is between the first and
// the last rows that are the same.
func diffLines(want, got []string) string {
	from, wantTo, gotTo := 0, len(want), len(got)
	for from < min(wantTo, gotTo) && sameJSON(want[from], got[from]) {
		from++
	}
	for wantTo > from && gotTo > from && sameJSON(want[wantTo-1], got[gotTo-1]) {
		wantTo--
		gotTo--
	}
	var lines []string
	for i := from; i < max(wantTo, gotTo); i++ {
		if i < wantTo && i < gotTo && sameJSON(want[i], got[i]) {
			continue
		}
		if i < wantTo {
			lines = append(lines, "- "+want[i])
		}
		if i < gotTo {
			lines = append(lines, "+ "+got[i])
		}
	}
	if len(lines) > maxDiffLines {
		lines = append(lines[:maxDiffLines], fmt.Sprintf("and %d more", len(lines)-maxDiffLines))
	}
	return strings.Join(lines, "\n")
}

// sameJSON compares objects of JSON, whatever the order of their members.
func sameJSON(a, b string) bool {
	var values [2]any
	for i, text := range []string{a, b} {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if d.Decode(&values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
