package csvimport

import (
	"strings"
	"testing"
)

// A number is read as the mapping says, or rejected with the way out: nothing is guessed.
func TestNumbers(t *testing.T) {
	f := func(options, cell, value, reason string) {
		t.Helper()
		r := load(t, simple+"separator: ;\n"+options, "meter;time;kwh\n1;0;"+cell+"\n")
		got, why := strings.Join(r.records, " "), strings.Join(r.rejects, " ")
		wantRecord, wantReject := "", ""
		if value != "" {
			wantRecord = "7/1/1 1970-01-01T00:00:00Z = " + value
		}
		if reason != "" {
			wantReject = `2: column "kwh": ` + reason
		}
		if r.err != nil || got != wantRecord || why != wantReject {
			t.Errorf("%s %s: %v, %s, %s; want %s, %s", options, cell, r.err, got, why, wantRecord,
				wantReject)
		}
	}
	const (
		comma  = `decimal: ","` + "\n"
		german = comma + `thousands: "."` + "\n"
		french = comma + `thousands: " "` + "\n"
		us     = `thousands: ","` + "\n"
		point  = ` has a point, but the decimal separator is ","; if points separate thousands, ` +
			`set thousands: "." (--thousands .)`
		way = ` is not an f64; set decimal: "," (--decimal ,) for a decimal comma, or thousands: ` +
			`"," (--thousands ,)`
	)
	f("", "1.5", "1.5", "")
	f("", "1,5", "", `"1,5"`+way)
	f("", "1,234.5", "", `"1,234.5"`+way)
	f("", "1e400", "", `"1e400" is beyond the range of an f64`)
	f(comma, "1,5", "1.5", "")
	f(comma, "-1,5e2", "-150", "")
	f(comma, "7", "7", "")
	f(comma, "1.234", "", `"1.234"`+point)
	f(comma, "1,2,3", "", `"1,2,3" is not an f64`)
	f(comma, "x,5", "", `"x,5" is not an f64`)
	f(german, "1.234", "1234", "")
	f(german, "-1.234.567,25", "-1.23456725e+06", "")
	f(german, "1234,5", "1234.5", "")
	f(german, "1.23", "", `"1.23" is not grouped in thousands by "."`)
	f(german, "1.2345", "", `"1.2345" is not grouped in thousands by "."`)
	f(german, ".234", "", `".234" is not grouped in thousands by "."`)
	f(german, "1,234.5", "", `"1,234.5" is not grouped in thousands by "."`)
	f(french, "1\u00a0234,5", "1234.5", "")
	f(french, "12\u202f34", "", "\"12\\u202f34\" is not grouped in thousands by \" \"")
	f(us, "1,234.5", "1234.5", "")
	f(us, "1,5", "", `"1,5" is not grouped in thousands by ","`)

	skip := func(skips, flags string) string {
		return " is not an f64; if it means no value, skip it: skip: [" + skips + "] (" + flags +
			")"
	}
	f("", "NA", "", `"NA"`+skip(`"", "NA"`, "--skip '' --skip 'NA'"))
	f(`skip: ["-1"]`+"\n", "", "", `""`+skip(`"-1", ""`, "--skip '-1' --skip ''"))
	f("", "n/a", "", `"n/a"`+skip(`"", "n/a"`, "--skip '' --skip 'n/a'"))
	f("", "-inf", "", `"-inf" is not a finite number; if it means no value, skip it: skip: ["", `+
		`"-inf"] (--skip '' --skip '-inf')`)
	f("", "abc", "", `"abc" is not an f64`)
}

// Columns have their name in errors, with the number where two have it.
func TestColumnTitles(t *testing.T) {
	h := newHeader([]string{"a", "", "b", "b"})
	for i, want := range []string{`column "a"`, "column 2", `column 3 ("b")`, `column 4 ("b")`,
		"column 5"} {
		if got := h.title(i); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
}

// A quote inside a field is rejected, or text if the mapping says so. An open quote of the header
// is one of its line.
func TestStrayQuotes(t *testing.T) {
	const byName = "cid: {constant: 1}\nmid: {column: name, lookup: meter}\ncap: {columns: [t]}\n" +
		"values: [{column: v, moid: 1}]\n"
	const text = "name,t,v\nab\"c,0,1\nab,0,1\n"
	load(t, byName, text).want(t, []string{"1/1/1 1970-01-01T00:00:00Z = 1"}, []string{
		`2: quotes: column "name": a quote inside a field that does not begin with one; put the ` +
			`field in quotes and double the quotes in it, or set no_quotes: true (--no-quotes), ` +
			`by which quotes are text`})
	load(t, byName+"no_quotes: true\n", text+"\"x\",0,1\n").want(t,
		[]string{"1/1/1 1970-01-01T00:00:00Z = 1", "1/2/1 1970-01-01T00:00:00Z = 1",
			"1/3/1 1970-01-01T00:00:00Z = 1"}, nil)

	open := "# a comment\nname,\"t,v\n" + strings.Repeat("a,0,1\n", 200)
	r := load(t, "skip_lines: 1\n"+byName, open)
	const want = "a.csv line 2: header: quotes: column 2: a quoted field is not closed"
	if r.err == nil || r.err.Error() != want {
		t.Errorf("%v, want %s", r.err, want)
	}
}

// Files that have no header say what they have.
func TestNoHeaderLine(t *testing.T) {
	for text, want := range map[string]string{
		"":       "a.csv: the file has 0 lines, and skip_lines is 2",
		"x\n":    "a.csv: the file has 1 lines, and skip_lines is 2",
		"x\ny\n": "a.csv: the file ends at line 2, before the header",
		"x\ny\n \nz": "a.csv line 3: the header is a blank line; pass over it with skip_lines " +
			"(--skip-lines)",
	} {
		r := load(t, simple+"skip_lines: 2\n", text)
		if r.err == nil || r.err.Error() != want {
			t.Errorf("%q: %v, want %s", text, r.err, want)
		}
	}
}
