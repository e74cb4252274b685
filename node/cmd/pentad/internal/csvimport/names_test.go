package csvimport

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const epaSite = `
cid: {constant: 1}
mid: {columns: [state, county, site], lookup: site}
cap: {columns: [time], format: unix}
values: [{column: v, moid: 1}]
`

// TestNameOfColumns: rows have one id if, and only if, they have the same texts in all columns.
func TestNameOfColumns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ids.json")
	keep := func(o *Options) { o.LookupPath = path }
	load(t, epaSite, "state,county,site,time,v\n"+
		"06,037,1103,1,1\n"+
		" 06 ,\"037\",1103,2,2\n"+
		"6,037,1103,3,3\n"+
		"06,037,,4,4\n"+
		"a/b,c,d,5,5\n"+
		"a,b/c,d,6,6\n"+
		"a,b,c/d,7,7\n"+
		"a\\,b,c,8,8\n"+
		"a,\\/b,c,9,9\n"+
		"06,037,1103,10,10\n", keep).want(t, []string{
		"1/1/1 1970-01-01T00:00:01Z = 1",
		"1/1/1 1970-01-01T00:00:02Z = 2",
		"1/2/1 1970-01-01T00:00:03Z = 3",
		"1/3/1 1970-01-01T00:00:05Z = 5",
		"1/4/1 1970-01-01T00:00:06Z = 6",
		"1/5/1 1970-01-01T00:00:07Z = 7",
		"1/6/1 1970-01-01T00:00:08Z = 8",
		"1/7/1 1970-01-01T00:00:09Z = 9",
		"1/1/1 1970-01-01T00:00:10Z = 10",
	}, []string{`5: mid: column "site" is empty; a name of several columns needs all of them`})
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{`"06/037/1103": 1`, `"6/037/1103": 2`, `"a\\/b/c/d": 3`,
		`"a/b\\/c/d": 4`, `"a/b/c\\/d": 5`, `"a\\\\/b/c": 6`, `"a/\\\\\\/b/c": 7`} {
		if !strings.Contains(string(source), name) {
			t.Errorf("%s is not in %s", name, source)
		}
	}
	// A file that has the name in one column has the same ids.
	one := strings.Replace(epaSite, "columns: [state, county, site]", "column: aqs", 1)
	load(t, one, "aqs,time,v\n06/037/1103,1,1\n", keep).want(t,
		[]string{"1/1/1 1970-01-01T00:00:01Z = 1"}, nil)
	for old, want := range map[string]string{
		", lookup: site}":         "line 3: mid: several columns make a name; add a lookup",
		"columns: [state":         "line 3: mid: give either column or columns",
		"columns: [state, county": `line 3: mid: column "conty" is not in the header; did you`,
	} {
		change := map[string]string{", lookup: site}": "}", "columns: [state": "column: a, " + old,
			"columns: [state, county": "columns: [state, conty"}[old]
		r := load(t, strings.Replace(epaSite, old, change, 1), "state,county,site,time,v\n")
		if r.err == nil || !strings.Contains(r.err.Error(), want) {
			t.Errorf("%v, want %s", r.err, want)
		}
	}
}

const rowZones = `
cid: {constant: 1}
mid: {column: m}
cap: {columns: [t], format: "%F %H:%M", zone: ZONE}
values: [{column: v, moid: 1}]
`

// TestZonePerRow: the zone of a row is that of a column, of a map or of a join.
func TestZonePerRow(t *testing.T) {
	dir := t.TempDir()
	sites := "state,site,offset\n06,1,-8\n06,2, America/Denver\nx/y,1,+05:30\n"
	if err := os.WriteFile(filepath.Join(dir, "sites.csv"), []byte(sites), 0o600); err != nil {
		t.Fatal(err)
	}
	in := func(o *Options) { o.Dir = dir }
	f := func(zone, text string, records, rejects []string) {
		t.Helper()
		load(t, strings.Replace(rowZones, "ZONE", zone, 1), text, in).want(t, records, rejects)
	}
	// An hour that occurs twice, and one that does not exist, are those of the zone of the row.
	f("{column: tz}", "m,t,v,tz\n"+
		"1,2024-07-01 12:00,1,Europe/Berlin\n"+
		"2,2024-07-01 12:00,1,UTC\n"+
		"3,2024-07-01 12:00,1,-8\n"+
		"4,2024-07-01 12:00,1,+05:30\n"+
		"5,2024-07-01 12:00,1,\n"+
		"6,2024-07-01 12:00,1,Europe/Berln\n"+
		"7,2024-03-31 02:30,1,Europe/Berlin\n"+
		"7,2024-03-31 02:30,1,America/New_York\n"+
		"8,2024-10-27 02:30,1,Europe/Berlin\n"+
		"8,2024-10-27 02:30,2,Europe/Berlin\n"+
		"9,2024-10-27 02:30,2,America/New_York\n"+
		"9,2024-10-27 02:30,2,99\n", []string{
		"1/1/1 2024-07-01T10:00:00Z = 1",
		"1/2/1 2024-07-01T12:00:00Z = 1",
		"1/3/1 2024-07-01T20:00:00Z = 1",
		"1/4/1 2024-07-01T06:30:00Z = 1",
		"1/7/1 2024-03-31T06:30:00Z = 1",
		"1/8/1 2024-10-27T00:30:00Z = 1",
		"1/9/1 2024-10-27T06:30:00Z = 2",
	}, []string{
		`6: zone: column "tz" is empty`,
		`7: unknown time zone "Europe/Berln"; did you mean Europe/Berlin?`,
		`8: local time "2024-03-31 02:30" does not exist in Europe/Berlin: clocks are set ` +
			`forward over it`,
		`11: local time of 2024-10-27T00:30:00Z occurs twice, and an earlier line has this key; ` +
			`fold both-as-versions keeps both as versions`,
		`13: unknown time zone "99"; write an IANA name (Europe/Berlin), UTC or an offset ` +
			`(+08:00)`,
	})
	f("{column: c, map: {DE: Europe/Berlin, 06: -8, FR: Europe/Paris}}", "m,t,v,c\n"+
		"1,2024-07-01 12:00,1,DE\n2,2024-07-01 12:00,1,06\n3,2024-07-01 12:00,1,6\n",
		[]string{"1/1/1 2024-07-01T10:00:00Z = 1", "1/2/1 2024-07-01T20:00:00Z = 1"},
		[]string{`4: zone: "6" is not in the map`})
	f(`{column: c, map: {"DE": "Europe/Berlin", '06': '-08:00'}}`, "m,t,v,c\n"+
		"1,2024-07-01 12:00,1,DE\n2,2024-07-01 12:00,1,06\n",
		[]string{"1/1/1 2024-07-01T10:00:00Z = 1", "1/2/1 2024-07-01T20:00:00Z = 1"}, nil)
	const join = "{columns: [s, m], join: {file: sites.csv, keys: [state, site], value: offset}}"
	f(join, "m,t,v,s\n"+
		"1,2024-07-01 12:00,1,06\n2,2024-07-01 12:00,1,06\n1,2024-07-01 12:00,1,x/y\n"+
		"3,2024-07-01 12:00,1,06\n",
		[]string{"1/1/1 2024-07-01T20:00:00Z = 1", "1/2/1 2024-07-01T18:00:00Z = 1",
			"1/1/1 2024-07-01T06:30:00Z = 1"}, []string{`5: zone: "06/3" is not in sites.csv`})
}

func TestZoneRefuses(t *testing.T) {
	for zone, want := range map[string]string{
		"Europe/Berln":                      `line 4: cap: unknown time zone "Europe/Berln"`,
		"{column: a, columns: [b]}":         "line 4: cap: zone: give either column or columns",
		"{columns: [m, t]}":                 "line 4: cap: zone: several columns need a map or",
		"{map: {a: UTC}}":                   "line 4: cap: zone: give either column or columns",
		"{column: m, map: {a: Mars}}":       `line 4: cap: zone: map: "a": unknown time zone`,
		"{column: m, join: {file: a}}":      "line 4: cap: zone: join: needs file, key and value",
		"{column: m, mapp: {a: b}}":         `line 4: cap.zone: unknown key "mapp"; did you mean m`,
		"{column: x}":                       `line 4: cap: zone: column "x" is not in the header`,
		"[UTC]":                             `line 4: cap: "zone" takes keys, not a list`,
		"{column: m, map: [a]}":             `line 4: cap.zone: "map" takes keys, not a list`,
		"{column: m, map: {a: {b: c}}}":     `line 4: "a" takes one value`,
		"{column: m, join: {file: [a, b]}}": `line 4: cap.zone.join: "file" takes one value`,
	} {
		r := load(t, strings.Replace(rowZones, "ZONE", zone, 1), "m,t,v\n1,2024-07-01 12:00,1\n")
		if r.err == nil || !strings.Contains(r.err.Error(), want) {
			t.Errorf("%s: %v, want %s", zone, r.err, want)
		}
	}
}
