package csvimport

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/record"
)

// FuzzImport runs any mapping over any text. Whatever it sends must be storable, and every line
// is either stored or rejected.
func FuzzImport(f *testing.F) {
	f.Add(simple, "meter,time,kwh\n1,0,1\n")
	f.Add("separator: \";\"\nexpect_fields: 3\ncid: {column: 1}\nmid: {column: a}\n"+
		"moid: {column: 2}\n"+
		"cap: {columns: [\"@label\", b], format: \"%Y %H\", zone: Europe/Berlin}\nvalues: "+
		"[{columns: 2..=3}]\n", "a;b;c\n1;2;3\n")
	f.Add("cid: {constant: 1}\nmid: {constant: 2}\ncap: {columns: [t], format: \"%F %H\", "+
		"zone: {column: z, map: {a: Europe/Berlin, 06: -8}}}\nvalues: [{column: v, moid: 1}]\n",
		"t,z,v\n2024-10-27 02,a,1\n2024-01-01 00,06,1\n2024-01-01 00,b,1\n")
	f.Add(epaSite, "state,county,site,time,v\n06,1/2,3,1,1\n06,,3,1,1\n")
	f.Add(strings.Replace(epaSite, "values: [{column: v, moid: 1}]",
		"moid: {column: site, lookup: q, types: {a: text, b: i64}}\nvalues: [{column: v}]", 1),
		"state,county,site,time,v\n06,1,a,1,x\n06,1,b,1,1\n06,1,c,1,x\n")
	f.Add(simple+"deleted: gone\n", "meter,time,kwh,gone\n1,0,,true\n1,0,1,false\n1,0,1,x\n")
	f.Fuzz(func(t *testing.T, mapping, text string) {
		m, err := ParseMapping([]byte(mapping))
		if err != nil {
			return
		}
		if len(m.joins()) > 0 {
			return // no files
		}
		sent := int64(0)
		opt := Options{Dry: true, LookupPath: "not there",
			Types: quantity.NewDeclared(nil, quantity.F64)}
		opt.Send = func(_ context.Context, b *record.Batch) error {
			sent += int64(b.Len())
			return b.Validate()
		}
		im, err := New(m, opt)
		if err != nil {
			return
		}
		err = im.File(t.Context(), "a.csv", strings.NewReader(text))
		var invalid *record.InvalidError
		if errors.As(err, &invalid) {
			t.Fatalf("mapping %q, text %q: %v", mapping, text, err)
		}
		s := im.Summary()
		if s.Records != sent || s.Rejected > s.Lines {
			t.Fatalf("%+v, sent %d", s, sent)
		}
	})
}
