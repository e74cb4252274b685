package csvimport

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A mapping that is wrong says in which line, what there is and what is nearest.
func TestMappingPlaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.yaml")
	f := func(mapping, text, want string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(mapping), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := LoadMapping(path)
		if err == nil {
			r := loadMapping(t, m, text)
			err = r.err
		}
		if err == nil || strings.ReplaceAll(err.Error(), path, "m.yaml") != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	const text = "meter,time,kwh\n1,0,1\n"
	change := func(old, new string) string { return strings.Replace(simple, old, new, 1) }
	f(simple+"seperator: x\n", text, `m.yaml:7: unknown key "seperator"; did you mean separator?; `+
		`there are separator, no_quotes, no_header, skip_lines, expect_fields, skip, type, `+
		`decimal, thousands, cid, mid, moid, cap, values, deleted`)
	f(change("{column: meter}", "{column: [a, b]}"), text,
		`m.yaml:3: mid: "column" takes one name; use "columns" for several`)
	f(change("{column: meter}", "meter"), text, `m.yaml:3: "mid" takes keys, e.g. {column: name}; `+
		`there are constant, column, join, lookup, columns, types`)
	f(change("[time]", "time"), text, `m.yaml:4: cap: "columns" takes a list, e.g. [a, b]`)
	f(change("constant: 7", "constant: seven"), text,
		`m.yaml:2: cid: "constant" takes an integer, not "seven"`)
	f(simple+"no_header: maybe\n", text,
		`m.yaml:7: "no_header" takes true or false, not "maybe"`)
	f(change("moid: 1", "moid: x"), text, `m.yaml:6: value 1: "moid" takes an integer, not "x"`)
	f(change("column: kwh", "column: [a, b]"), text,
		`m.yaml:6: value 1: "column" takes one name; give each column a value of its own`)
	f(change("column: meter", "column: metr"), text, `a.csv: m.yaml:3: mid: column "metr" is not `+
		`in the header; did you mean meter?; it has meter, time, kwh`)
	f(change("column: kwh", "column: Kwhs"), text, `a.csv: m.yaml:6: value 1: column "Kwhs" is `+
		`not in the header; did you mean kwh?; it has kwh, time, meter`)
	f(change("column: kwh", "column: 9"), text, `a.csv: m.yaml:6: value 1: column 9: lines have 3`)
	f(change("[time]", "[time], format: '%F', zone: Europe/Berln"), text,
		`m.yaml:4: cap: unknown time zone "Europe/Berln"; did you mean Europe/Berlin?`)
	f("just text", text, `m.yaml:1: a mapping has keys, e.g. cid, mid, cap and values`)
	f("cid: {constant: 1}\ncap: {columns: [time]}\n", text,
		`m.yaml: mid: missing; give a constant or a column`)
	f("", text, `m.yaml: cap: missing; name the columns of the time, e.g. `+
		`cap: {columns: [date, hour]} or --cap column=date+hour`)

	const other = `a.csv: the file seems to be separated by %: give --separator %, or separator: ` +
		`% in the mapping`
	for separator, name := range map[string]string{";": `";"`, "\t": `"tab"`, "|": `"|"`} {
		f(simple, strings.ReplaceAll(text, ",", separator), strings.ReplaceAll(other, "%", name))
	}
	f(simple+"separator: ';'\n", text, strings.ReplaceAll(other, "%", `","`))
	byNumber := strings.NewReplacer("meter", "1", "time", "2", "kwh", "3").Replace(simple)
	f(byNumber+"no_header: true\n", "1;2;3\n", strings.ReplaceAll(other, "%", `";"`))
	f(simple, "meter\n1\n",
		`a.csv: m.yaml:4: cap: column "time" is not in the header; it has meter`)
}

// A flag in place of a key of the file has no line there.
func TestOverride(t *testing.T) {
	m, err := ParseMapping([]byte(simple))
	if err != nil {
		t.Fatal(err)
	}
	m.MID.Column = "metr"
	m.Override("mid")
	r := loadMapping(t, m, "meter,time,kwh\n")
	if r.err == nil || !strings.HasPrefix(r.err.Error(), `a.csv: mid: column "metr" is not in`) {
		t.Error(r.err)
	}
}
