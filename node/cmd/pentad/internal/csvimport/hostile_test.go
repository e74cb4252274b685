package csvimport

import (
	"strings"
	"testing"
)

// Files as they are found outside: each line is stored or rejected with what to do about it, and
// all are counted.
func TestHostileFiles(t *testing.T) {
	f := func(name, mapping, text string, lines int64, records, rejects []string) {
		t.Helper()
		r := load(t, mapping, text)
		r.want(t, records, rejects)
		if r.summary.Lines != lines {
			t.Errorf("%s: %d lines, want %d", name, r.summary.Lines, lines)
		}
	}
	const one, two = "7/1/1 1970-01-01T00:00:00Z = 1", "7/2/1 1970-01-01T00:00:00Z = 1"
	const header = "meter,time,kwh\n"
	byName := strings.Replace(simple, "{column: meter}", "{column: meter, lookup: meter}", 1)
	text := strings.Replace(simple, "moid: 1", "moid: 1, type: text", 1)

	f("header in the middle", byName, header+"a,0,1\n"+header+"b,0,1\n", 3, []string{one, two},
		[]string{"3: the header again; are these several files in one?"})
	f("header in the middle of text", text, header+"1,0,x\r\n"+"meter,time,kwh\r\n", 2,
		[]string{"7/1/1 1970-01-01T00:00:00Z = x"},
		[]string{"3: the header again; are these several files in one?"})
	f("trailing separators", simple, header+"1,0,1,\n2,0,1\n", 2, []string{two}, []string{
		"2: 4 fields, expected 3; the last is empty: if lines end in a separator, set " +
			"expect_fields: 4 (--expect-fields 4)"})
	f("trailing separators, expected", simple+"expect_fields: 4\n", header+"1,0,1,\n2,0,1,\n", 2,
		[]string{one, two}, nil)
	f("missing columns", simple, header+"1,0\n\n,\n2,0,1\n", 3, []string{two}, []string{
		"2: 2 fields, expected 3", "4: 2 fields, expected 3"})
	f("CRLF, quotes and newlines", text, header+"1,0,\"a\r\n\"\"b\"\"\"\r\n\r\n2,0,\"\"\r\n", 2,
		[]string{"7/1/1 1970-01-01T00:00:00Z = a\r\n\"b\""}, nil)
	f("time without zone", simple, header+"1,2024-01-01 05:00,1\n2,0,1\n", 2, []string{two},
		[]string{`2: time "2024-01-01 05:00" is neither RFC 3339 with an offset nor whole ns; ` +
			`declare its format and zone, e.g. format: "%Y-%m-%d %H:%M", zone: Europe/Berlin ` +
			`(--time-format "%Y-%m-%d %H:%M" --zone Europe/Berlin)`})
	f("names in another encoding", byName, header+"Z\xfcrich,0,1\na,0,1\n", 2, []string{one},
		[]string{`2: mid: the name "Z\xfcrich" is not UTF-8; convert the file to UTF-8, e.g. ` +
			"from Windows: iconv -f WINDOWS-1252 -t UTF-8"})
	f("a space before a quote", simple, header+"1, \"0\",1\n2,0,1\n", 2, []string{two}, []string{
		`2: quotes: column "time": a quote inside a field that does not begin with one; put the ` +
			"field in quotes and double the quotes in it, or set no_quotes: true (--no-quotes), " +
			"by which quotes are text"})
	f("long lines", simple, header+"1,0,"+strings.Repeat("1", 2*maxLineBytes)+"\n2,0,1\n"+
		strings.Repeat(",", maxLineBytes+1), 3, []string{two},
		[]string{"2: line is longer than 1048576 bytes", "4: line is longer than 1048576 bytes"})
	f("blanks around all", simple, " meter ,\ttime, kwh\t\n 1 , 0\t, 1 \n\" 2\",0,\"1 \"\n", 2,
		[]string{one, two}, nil)

	f("empty keys and numbers that are too large", simple, header+",0,1\n1,,1\n"+
		"99999999999999999999,0,1\n1,2026-13-01T00:00:00Z,1\n1,2026-01-01T24:00:00Z,1\n1\n", 6, nil,
		[]string{"2: mid: the number is empty", "3: the time is empty",
			"4: mid: 99999999999999999999 is outside -9223372036854775808 to 9223372036854775806",
			`5: time "2026-13-01T00:00:00Z": month out of range`,
			`6: time "2026-01-01T24:00:00Z": hour out of range`, "7: 1 field, expected 3"})
}

// Files that are not what their name says, and headers that cannot be read, are errors that say so.
func TestHostileHeaders(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		r := load(t, simple, text)
		if r.err == nil || r.err.Error() != "a.csv"+want {
			t.Errorf("%.100q: %v, want %s", text, r.err, want)
		}
	}
	f("meter,time,kwh\r1,0,1\r2,0,1\r",
		`: lines end in CR alone; convert the file, e.g. tr '\r' '\n'`)
	f("sep=;\nmeter;time;kwh\n", ` line 1: sep=; names the separator for Excel; set skip_lines: 1 `+
		`and separator: ";" (--skip-lines 1 --separator ';')`)
	f("meter time kwh\n", `: the file seems to be separated by " ": give --separator " ", or `+
		`separator: " " in the mapping`)
	f("meter,time,kwh,kwh\n", `: line 6: value 1: column "kwh" occurs twice in the header; use `+
		"its number, 3 or 4")
	f("PK\x03\x04", ": the file is a ZIP archive or an Excel workbook; unpack it (unzip) or save "+
		"it as CSV")
	f("{\"meter\":1}", ": the file is JSON; use pentad put for lines of JSON, pentad import for "+
		"an export")
	f("\ufeff<?xml ?>\n", ": the file is XML; save it as CSV")
	f("meter,\x00time\n", " line 1: the header has a NUL byte: the file is not text")
	f(strings.Repeat("x", maxLineBytes)+"\n1,0,1\n",
		" line 1: header: line is longer than 1048576 bytes")
	f("Z\xe4hler,time,kwh\n1,0,1\n", `: line 3: mid: column "meter" is not in the header; it has `+
		"time, kwh, Z\xe4hler; the header is not UTF-8: convert the file to UTF-8, e.g. from "+
		"Windows: iconv -f WINDOWS-1252 -t UTF-8")
}
