package csvimport

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
)

// result is what an import of one text did.
type result struct {
	records []string // "cid/mid/moid cap = payload", payload as f64
	rejects []string // "line: reason"
	summary Summary
	err     error
}

// load imports a text by a mapping in YAML.
func load(t *testing.T, mapping, text string, change ...func(*Options)) result {
	t.Helper()
	m, err := ParseMapping([]byte(mapping))
	if err != nil {
		return result{err: err}
	}
	return loadMapping(t, m, text, change...)
}

func loadMapping(t *testing.T, m *Mapping, text string, change ...func(*Options)) result {
	t.Helper()
	var r result
	var rejects bytes.Buffer
	opt := Options{Rejects: &rejects, LookupPath: filepath.Join(t.TempDir(), "ids.json")}
	opt.Send = func(_ context.Context, b *record.Batch) error {
		if err := b.Validate(); err != nil {
			return err
		}
		for i := range b.Len() {
			r.records = append(r.records, show(b.Record(i)))
		}
		return nil
	}
	for _, f := range change {
		f(&opt)
	}
	im, err := New(m, opt)
	if err != nil {
		return result{err: err}
	}
	r.err = im.File(t.Context(), "a.csv", strings.NewReader(text))
	r.summary = im.Summary()
	rows, err := csv.NewReader(&rejects).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		r.rejects = append(r.rejects, row[1]+": "+row[2])
	}
	if int64(len(r.rejects)) != r.summary.Rejected || int64(len(r.records)) != r.summary.Records {
		t.Errorf("%d records and %d rejects, but the summary says %+v", len(r.records),
			len(r.rejects), r.summary)
	}
	return r
}

func show(r record.Record) string {
	value := string(r.Payload)
	if len(r.Payload) == 8 {
		value = fmt.Sprint(math.Float64frombits(binary.LittleEndian.Uint64(r.Payload)))
	}
	if r.Tomb {
		value += "deleted"
	}
	return fmt.Sprintf("%d/%d/%d %s = %s", r.CID, r.MID, r.MOID, timeparse.Format(r.CapNs), value)
}

func (r result) want(t *testing.T, records, rejects []string) {
	t.Helper()
	if r.err != nil {
		t.Error(r.err)
	}
	if !slices.Equal(r.records, records) {
		t.Errorf("records:\n%s\nwant:\n%s", strings.Join(r.records, "\n"),
			strings.Join(records, "\n"))
	}
	if !slices.Equal(r.rejects, rejects) {
		t.Errorf("rejects:\n%s\nwant:\n%s", strings.Join(r.rejects, "\n"),
			strings.Join(rejects, "\n"))
	}
}

const simple = `
cid: {constant: 7}
mid: {column: meter}
cap: {columns: [time]}
values:
  - {column: kwh, moid: 1}
`

func TestSimple(t *testing.T) {
	r := load(t, simple, "\xef\xbb\xbfmeter,time,kwh\r\n"+
		"1,2024-01-01T00:00:00Z,1.5\r\n"+
		"\r\n"+
		"2,2024-01-01 01:00:00+01:00, 4e+05 \n"+
		"\"3\",1000000000,\"6\"")
	r.want(t, []string{
		"7/1/1 2024-01-01T00:00:00Z = 1.5",
		"7/2/1 2024-01-01T00:00:00Z = 400000",
		"7/3/1 1970-01-01T00:00:01Z = 6",
	}, nil)
	if r.summary.Lines != 3 || r.summary.Files != 1 {
		t.Errorf("%+v", r.summary)
	}
	if r := load(t, simple, ""); r.err == nil ||
		r.err.Error() != "a.csv: the file is empty: it has no header line" {
		t.Error(r.err)
	}
	load(t, simple, "meter,time,kwh\n").want(t, nil, nil)
}

func TestRejects(t *testing.T) {
	r := load(t, simple, "meter,time,kwh\n"+
		"1,2024-01-01T00:00:00Z\n"+
		"x,2024-01-01T00:00:00Z,1\n"+
		"1,2024-01-01T00:00:00,1\n"+
		"1,2024-01-01T00:00:00Z,abc\n"+
		"1,2024-01-01T00:00:00Z,NaN\n"+
		"9223372036854775807,2024-01-01T00:00:00Z,1\n"+
		"\"1\"x,2024-01-01T00:00:00Z,1\n"+
		"1,2024-01-01T00:00:00Z,1\n"+
		"1,2024-01-01T00:00:00Z,\"1\n")
	r.want(t, []string{"7/1/1 2024-01-01T00:00:00Z = 1"}, []string{
		"2: 2 fields, expected 3",
		`3: mid: "x" is not an integer; use a lookup to map names to ids`,
		`4: time "2024-01-01T00:00:00" is neither RFC 3339 with an offset nor whole ns; ` +
			`declare its format and zone, e.g. format: "%Y-%m-%dT%H:%M:%S", zone: Europe/Berlin ` +
			`(--time-format "%Y-%m-%dT%H:%M:%S" --zone Europe/Berlin)`,
		`5: column "kwh": "abc" is not an f64`,
		`6: column "kwh": "NaN" is not a finite number; if it means no value, skip it: ` +
			`skip: ["", "NaN"] (--skip '' --skip 'NaN')`,
		"7: mid: 9223372036854775807 is outside -9223372036854775808 to 9223372036854775806",
		`8: quotes: column "meter": text follows a closing quote`,
		`10: quotes: column "kwh": a quoted field is not closed`,
	})
	want := map[string]int64{"fields": 1, "key": 2, "time": 1, "value": 2, "quotes": 2}
	if !reflect.DeepEqual(r.summary.Reasons, want) || r.summary.First.Line != 2 {
		t.Errorf("%+v", r.summary)
	}
}

// TestRejectsKeepText imports a rejected line again, mended, from the rejects file alone.
func TestRejectsKeepText(t *testing.T) {
	var rejects bytes.Buffer
	line := "x,0,1" + strings.Repeat(" ", 10_000) + "."
	load(t, simple, "meter,time,kwh\n"+line+"\n", func(o *Options) {
		o.Rejects = io.MultiWriter(o.Rejects, &rejects)
	})
	rows, err := csv.NewReader(&rejects).ReadAll()
	if err != nil || len(rows) != 2 || rows[1][3] != line {
		t.Errorf("%.100q, %v", rows, err)
	}
}

func TestStrict(t *testing.T) {
	r := load(t, simple, "meter,time,kwh\n1,0,1\n2,0,x\n3,0,1\n",
		func(o *Options) { o.Strict = true })
	var reject *RejectError
	if !errors.As(r.err, &reject) || reject.Line != 3 || len(r.records) != 1 {
		t.Errorf("%v, %d records", r.err, len(r.records))
	}
	if r.err.Error() != `a.csv line 3: column "kwh": "x" is not an f64` {
		t.Error(r.err)
	}
}

// TestLineIsWhole checks that a line with one bad cell leaves no record behind.
func TestLineIsWhole(t *testing.T) {
	load(t, `
separator: ";"
expect_fields: 5
skip: ["-1"]
decimal: ","
cid: {constant: 1}
mid: {column: 1}
moid: {constant: 9}
cap: {columns: [tag, stunde], format: "%d.%m.%Y %H", zone: Europe/Berlin}
values:
  - {column: q}
  - {column: v, moid: 2}
`, "det;tag;stunde;q;v\n"+
		"5;01.01.2024;0;109;7,5\n"+
		"5;01.01.2024;1;109;x\n"+
		"5;01.07.2024;2;-1;3\n"+
		"bad;bad;bad;-1;-1\n").want(t, []string{
		"1/5/9 2023-12-31T23:00:00Z = 109",
		"1/5/2 2023-12-31T23:00:00Z = 7.5",
		"1/5/2 2024-07-01T00:00:00Z = 3",
	}, []string{`3: column "v": "x" is not an f64`})
}

// TestWide reads days with 24 values in a line, whose date stands in the header line only.
func TestWide(t *testing.T) {
	const mapping = `
separator: ";"
expect_fields: 5
cid: {constant: 1}
mid: {column: 1, lookup: counter}
cap: {columns: ["@header 1", "@label"], format: "Date: %Y_%m_%d %H:%M", zone: Europe/Berlin}
values:
  - {columns: 2..=4, moid: 3}
`
	load(t, mapping, "Date: 2015_03_29;1:00;2:00;3:00\n"+
		"A;10;;30;\n"+
		"B;10;20;30;\n"+
		"A;10;20\n").want(t, []string{
		"1/1/3 2015-03-29T00:00:00Z = 10",
		"1/1/3 2015-03-29T01:00:00Z = 30",
	}, []string{
		`3: local time "Date: 2015_03_29 2:00" does not exist in Europe/Berlin: clocks are set ` +
			"forward over it",
		"4: 3 fields, expected 5",
	})
	load(t, `
no_header: true
skip_lines: 1
cid: {column: 1}
mid: {column: 2}
moid: {column: 3}
cap: {columns: [4], format: unix}
values: [{column: "5", type: text}]
`, "comment\n1,2,3,4, five\n").want(t, []string{"1/2/3 1970-01-01T00:00:04Z =  five"}, nil)
	load(t, `
cid: {constant: 1}
mid: {column: "@file", lookup: file}
moid: {column: "@label", lookup: quantity}
cap: {columns: [t], format: unix}
values: [{columns: 2..4}]
`, "t,TEMP,PRES\n4,5,6\n").want(t, []string{"1/1/1 1970-01-01T00:00:04Z = 5",
		"1/1/2 1970-01-01T00:00:04Z = 6"}, nil)
}

func TestLookupIsStable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ids.json")
	keep := func(o *Options) { o.LookupPath = path }
	const mapping = `
cid: {constant: 1}
mid: {column: name, lookup: meter}
cap: {columns: [t], format: unix}
values: [{column: v, moid: 1}]
`
	r := load(t, mapping, "name,t,v\nb,1,1\na,1,1\nbad,1,x\nb,2,1\n", keep)
	if got := fmt.Sprint(r.records); got != "[1/1/1 1970-01-01T00:00:01Z = 1 "+
		"1/2/1 1970-01-01T00:00:01Z = 1 1/1/1 1970-01-01T00:00:02Z = 1]" || r.summary.NewIDs != 2 {
		t.Errorf("%s, %d new ids", got, r.summary.NewIDs)
	}
	r = load(t, mapping, "name,t,v\nc,1,1\na,1,1\n", keep)
	if got := fmt.Sprint(r.records); got != "[1/3/1 1970-01-01T00:00:01Z = 1 "+
		"1/2/1 1970-01-01T00:00:01Z = 1]" || r.summary.NewIDs != 1 {
		t.Errorf("second run: %s, %d new ids", got, r.summary.NewIDs)
	}

	// The file must hold the ids by the time the rows leave.
	r = load(t, mapping, "name,t,v\nd,1,1\n", keep, func(o *Options) {
		send := o.Send
		o.Send = func(ctx context.Context, b *record.Batch) error {
			source, err := os.ReadFile(path)
			if err != nil || !bytes.Contains(source, []byte(`"d": 4`)) {
				t.Errorf("rows leave before their ids are stored: %s, %v", source, err)
			}
			return send(ctx, b)
		}
	})
	if r.err != nil {
		t.Error(r.err)
	}

	// An import that runs at the same time must not give the same ids.
	first, err := OpenLookups(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := OpenLookups(path)
	if err != nil {
		t.Fatal(err)
	}
	first.ID("meter", []byte("e"))
	second.ID("meter", []byte("f"))
	if err := first.Save(); err != nil {
		t.Error(err)
	}
	if err := second.Save(); !errors.Is(err, ErrLookupChanged) {
		t.Errorf("second import: %v", err)
	}
	for _, bad := range []string{"{}", `{"format":"pentad-lookup-1","tables":{"a":{"x":1,"y":1}}}`,
		`{"format":"pentad-lookup-1","table":{}}`, "name,id\n"} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenLookups(path); err == nil {
			t.Errorf("lookup file %q is taken", bad)
		}
	}
	r = load(t, mapping, "", func(o *Options) { o.LookupPath = "" })
	if r.err == nil || !strings.Contains(r.err.Error(), "--lookup-file") {
		t.Error(r.err)
	}
}

func TestJoin(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "d.csv"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := func(o *Options) { o.Dir = dir }
	mapping := `
cid: {column: det, join: {file: d.csv, key: det_id, value: site}, lookup: site}
mid: {column: det}
cap: {columns: [t], format: unix}
values: [{column: v, moid: 1}]
`
	const text = "det,t,v\n11,1,1\n21,1,1\n12,1,1\n99,1,1\n"
	write("det_id,site,lane\n11,TE1,a\n12,TE1,b\n21,TE2,a\n21,TE2,b\n")
	load(t, mapping, text, in).want(t, []string{
		"1/11/1 1970-01-01T00:00:01Z = 1",
		"2/21/1 1970-01-01T00:00:01Z = 1",
		"1/12/1 1970-01-01T00:00:01Z = 1",
	}, []string{`5: cid: "99" is not in d.csv`})

	write("det_id,site\n11,TE1\n11,TE2\n12,TE1\n21,TE2\n")
	if r := load(t, mapping, text, in); r.err == nil ||
		!strings.Contains(r.err.Error(), `line 3: key "11" is "TE2" here and "TE1" before`) {
		t.Error(r.err)
	}
	last := strings.Replace(mapping, "value: site", "value: site, duplicates: last", 1)
	if r := load(t, last, text, in); r.err != nil || !strings.HasPrefix(r.records[1], "1/21/1") {
		t.Errorf("%v %v", r.records, r.err)
	}
	for _, bad := range []string{"", "id,site\n1,2\n", "det_id,site\n1\n"} {
		write(bad)
		if r := load(t, mapping, text, in); r.err == nil {
			t.Errorf("join file %q is taken", bad)
		}
	}
}

func TestMappingRefuses(t *testing.T) {
	f := func(mapping, want string) {
		t.Helper()
		r := load(t, mapping, "meter,time,kwh,kwh2,kwh2\n1,2,3,4,5\n")
		if r.err == nil || !strings.Contains(r.err.Error(), want) ||
			strings.Contains(r.err.Error(), "\n") {
			t.Errorf("%s\nerror %v, want one line with %q", mapping, r.err, want)
		}
	}
	change := func(old, new string) string { return strings.Replace(simple, old, new, 1) }
	f(simple+"sepatator: x\n", `line 7: unknown key "sepatator"; did you mean separator?`)
	f(change("column: meter", "columm: meter"),
		`line 3: mid: unknown key "columm"; did you mean column or columns?`)
	f("cid: [", "line 1")
	f(change("cid: {constant: 7}", ""), "cid: missing")
	f(change("{constant: 7}", "{}"), "cid: give either a constant or a column")
	f(change("{constant: 7}", "{constant: 7, lookup: a}"), "neither join nor lookup")
	f(change("{constant: 7}", "{constant: -7}"), "cid: -7 is outside")
	f(change("columns: [time]", "columns: []"), "cap: missing")
	f(change("columns: [time]", `columns: [time], format: "%Y-%m-%d"`), "set the zone")
	f(change("columns: [time]", `columns: [time], zone: UTC`), "leave out the zone")
	f(change("columns: [time]", `columns: [time], format: "%d", zone: UTC`), "needs a year")
	f(change("columns: [time]", `columns: [time], format: "%F", zone: Mars`),
		`unknown time zone "Mars"`)
	f(change("columns: [time]", `columns: [time], fold: third`), `fold "third" is unknown`)
	f(change("columns: [time]", `columns: ["@nothing"]`), "@label, @header N and @file")
	f(change("columns: [time]", `columns: ["@header 9"]`), "the header has cells 1 to 5")
	f(change("column: kwh", "column: kw"),
		`line 6: value 1: column "kw" is not in the header; did you mean kwh or kwh2?; it has `+
			`kwh, kwh2, kwh2, `)
	f(change("column: kwh", "column: kwh2"), "occurs twice")
	f(change("column: kwh", "column: 6"), "column 6: lines have 5")
	f(change("column: kwh", "columns: 2..=9"), "columns 2..=9: lines have 5")
	f(change("column: kwh", "columns: 4..2"), "use e.g. 2..=25")
	f(change(", moid: 1", ""), "moid: missing; set it")
	f(change("moid: 1", "moid: 1, type: f16"), `type "f16" is unknown`)
	f(change("moid: 1", "moid: 1, type: hex"), "cells are f64, f32, i64, i32, u32 or text")
	f(change("moid: 1", "moid: 9999999999"), "moid: 9999999999 is outside")
	f(simple+"separator: ab\n", "is not one ASCII character")
	f(simple+"decimal: x\n", `decimal "x"`)
	f(simple+"no_header: true\n", "there is no header line")
}

func TestGzip(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte("meter,time,kwh\n1,0,1\n"))
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	load(t, simple, packed.String()).want(t, []string{"7/1/1 1970-01-01T00:00:00Z = 1"}, nil)
	if r := load(t, simple, packed.String()[:packed.Len()-6]); r.err == nil {
		t.Error("a cut gzip file is taken")
	}
}

// TestManyLines crosses batches, and payloads of several lengths.
func TestManyLines(t *testing.T) {
	var text strings.Builder
	text.WriteString("meter,time,kwh\n")
	const n = 3*batchRecords + 17
	for i := range n {
		fmt.Fprintf(&text, "%d,%d,%s\n", i, i, strings.Repeat("x", i%4))
	}
	mapping := strings.Replace(simple, "moid: 1", "moid: 1, type: text", 1)
	r := load(t, mapping+"skip: [xx]\n", text.String())
	if r.err != nil || r.summary.Lines != n || r.summary.Records+r.summary.Skipped != n ||
		r.summary.Skipped != n/4 {
		t.Errorf("%+v %v", r.summary, r.err)
	}
	long := "meter,time,kwh\n1,0," + strings.Repeat("9", maxLineBytes) + "\n2,0,1\n"
	load(t, simple, long).want(t, []string{"7/2/1 1970-01-01T00:00:00Z = 1"},
		[]string{"2: line is longer than 1048576 bytes"})
}

func TestSendFails(t *testing.T) {
	broken := errors.New("no node")
	calls := 0
	r := load(t, simple, "meter,time,kwh\n1,0,1\n", func(o *Options) {
		o.Send = func(context.Context, *record.Batch) error { calls++; return broken }
	})
	if !errors.Is(r.err, broken) || calls != 1 || r.summary.Records != 0 {
		t.Errorf("%v, %d calls, %+v", r.err, calls, r.summary)
	}
}

// A line that says so deletes each of its readings; it has no values, and says nothing else.
func TestDeletedLines(t *testing.T) {
	const wide = `
cid: {constant: 1}
mid: {column: meter}
moid: {constant: 3}
cap: {columns: [time]}
deleted: gone
values: [{column: a}, {column: b, moid: 4}]
`
	r := load(t, wide, "meter,time,a,b,gone\n1,0,1,,false\n1,0,,,true\n2,0,5,6,\n2,0, ,, true \n"+
		"3,0,1,,true\n4,0,1,2,yes\n")
	if r.err != nil {
		t.Fatal(r.err)
	}
	want := []string{"1/1/3 1970-01-01T00:00:00Z = 1", "1/1/3 1970-01-01T00:00:00Z = deleted",
		"1/1/4 1970-01-01T00:00:00Z = deleted", "1/2/3 1970-01-01T00:00:00Z = 5",
		"1/2/4 1970-01-01T00:00:00Z = 6", "1/2/3 1970-01-01T00:00:00Z = deleted",
		"1/2/4 1970-01-01T00:00:00Z = deleted"}
	if !slices.Equal(r.records, want) {
		t.Errorf("%q", r.records)
	}
	rejects := []string{`6: column "a": "1" is a value of a deleted reading`,
		`7: column "gone": deleted is "yes", neither true nor false`}
	if !slices.Equal(r.rejects, rejects) {
		t.Errorf("%q", r.rejects)
	}
	if r = load(t, wide, "meter,time,a,b\n1,0,1,2\n"); r.err == nil ||
		!strings.Contains(r.err.Error(), "deleted: ") {
		t.Errorf("a column that is not there: %v", r.err)
	}
}
