package csvimport

import (
	"context"
	"errors"
	"strings"
	"testing"

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
	f.Add(simple+"deleted: gone\n", "meter,time,kwh,gone\n1,0,,true\n1,0,1,false\n1,0,1,x\n")
	f.Fuzz(func(t *testing.T, mapping, text string) {
		m, err := ParseMapping([]byte(mapping))
		if err != nil || m.usesLookups() {
			return
		}
		for _, p := range m.parts() {
			if p.Join != nil {
				return // no files
			}
		}
		sent := int64(0)
		im, err := New(m, Options{Send: func(_ context.Context, b *record.Batch) error {
			sent += int64(b.Len())
			return b.Validate()
		}})
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
