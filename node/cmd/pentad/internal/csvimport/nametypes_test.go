package csvimport

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

const byName = `
cid: {constant: 1}
mid: {column: m}
moid: {column: what, lookup: quantity}
cap: {columns: [t], format: unix}
values: [{column: v}]
`

const namedText = "m,what,t,v\n1,PM2.5,1,7.5\n1,remark,1,wet\n1,count,1,3\n1,PM2.5,2,dry\n"

// TestTypesOfNames: the quantity of a value is the id of a name, and the name has its type.
func TestTypesOfNames(t *testing.T) {
	f := func(moid string, declared []plugin.Quantity, records, rejects, undeclared string) {
		t.Helper()
		m, err := ParseMapping([]byte(strings.Replace(byName, "lookup: quantity", moid, 1)))
		if err == nil {
			err = m.Check()
		}
		if err != nil {
			t.Fatal(err)
		}
		types := quantity.NewDeclared(declared, quantity.F64)
		if _, err := m.FitTypes(types); err != nil {
			t.Fatal(err)
		}
		var got []string
		var named []plugin.Quantity
		var im *Importer
		opt := Options{Types: types, LookupPath: filepath.Join(t.TempDir(), "ids.json")}
		opt.Send = func(_ context.Context, b *record.Batch) error {
			named = append(named, im.Undeclared()...)
			for i := range b.Len() {
				r := b.Record(i)
				got = append(got, fmt.Sprintf("%d:%d", r.MOID, len(r.Payload)))
			}
			return nil
		}
		if im, err = New(m, opt); err != nil {
			t.Fatal(err)
		}
		if err := im.File(t.Context(), "a.csv", strings.NewReader(namedText)); err != nil {
			t.Fatal(err)
		}
		s := im.Summary()
		var names []string
		for _, q := range named {
			if q.Name == "" { // to be told of, not declared
				continue
			}
			names = append(names, fmt.Sprintf("%d %s %s", q.MOID, q.Name, q.Type))
		}
		if strings.Join(got, " ") != records || s.Rejects.String() != rejects ||
			strings.Join(names, ", ") != undeclared {
			t.Errorf("%s: records %s, rejects %s, undeclared %s", moid, got, &s.Rejects, names)
		}
	}
	const dry = `a.csv line 5: column "v": "dry" is not an f64`
	f("lookup: quantity", nil, "1:8 2:8", `a.csv line 3: column "v": "wet" is not an f64; `+
		`line 5: column "v": "dry" is not an f64`, "")
	f("lookup: quantity, types: {remark: text, count: i32}", nil, "1:8 2:3 3:4", dry,
		"2 remark text, 3 count i32")
	f("lookup: quantity, types: {remark: text, PM2.5: f32}", nil, "1:4 2:3 3:8",
		`a.csv line 5: column "v": "dry" is not an f32`, "1 PM2.5 f32, 2 remark text")
	// What is declared holds without types, also for a name that has no id yet.
	f("lookup: quantity", []plugin.Quantity{{MOID: 2, Name: "r", Type: "text"},
		{MOID: 3, Name: "c", Type: "i32"}}, "1:8 2:3 3:4", dry, "")
	f("lookup: quantity, types: {remark: text}", []plugin.Quantity{{MOID: 2, Name: "r",
		Type: "f64"}}, "1:8 3:8", "a.csv line 3: column \"v\": the mapping reads text, but "+
		"quantity 2 (r) is declared as f64; line 5: column \"v\": \"dry\" is not an f64", "")
}

func TestTypesOfNamesRefuses(t *testing.T) {
	for types, want := range map[string]string{
		"{a: bytes}": `line 4: moid: types: "a": type "bytes" is unknown`,
		"{a: hex}":   `line 4: moid: types: "a": type "hex" is unknown`,
	} {
		r := load(t, strings.Replace(byName, "quantity}", "quantity, types: "+types+"}", 1),
			namedText)
		if r.err == nil || !strings.Contains(r.err.Error(), want) {
			t.Errorf("%v, want %s", r.err, want)
		}
	}
	r := load(t, strings.Replace(byName, "{column: m}", "{column: m, types: {a: f64}}", 1),
		namedText)
	if r.err == nil || !strings.Contains(r.err.Error(), "mid: types: only for a moid") {
		t.Error(r.err)
	}
	// A type of all values holds for all names, each of which is declared.
	typed := strings.Replace(byName, "{column: v}", "{column: v, type: text}", 1)
	if r := load(t, typed, namedText); r.err != nil || !slices.Equal(r.records[1:2],
		[]string{"1/1/2 1970-01-01T00:00:01Z = wet"}) {
		t.Errorf("%v, %v", r.records, r.err)
	}
}
