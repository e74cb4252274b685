package seal

import (
	"bytes"
	"context"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// FuzzParsePartial: no bytes make it panic, and what it takes is written as it came.
func FuzzParsePartial(f *testing.F) {
	def := Definition{ID: 7, MaxRecords: 1000, MAC: &MAC{}, Fields: []Field{{ID: 1, Name: "x",
		Kind: Number, Max: 9, Sum: true, Histogram: []int64{1},
		Trend: &Trend{UnitNs: 1, MaxUnits: 9}}}}
	s, err := NewSchema(def)
	if err != nil {
		f.Fatal(err)
	}
	var keys MemoryKeyring
	keys.Generate(1)
	tenant, err := OpenTenant(&keys, 1, s)
	if err != nil {
		f.Fatal(err)
	}
	w, err := tenant.NewWriter(context.Background(), s, 42, 7)
	if err != nil {
		f.Fatal(err)
	}
	p := NewPartial(s)
	f.Add(p.Append(nil))
	for i := range 40 {
		payload, err := w.Append(nil, Reading{CapNs: 3, Values: []Value{{Number: 2}}})
		if err != nil {
			f.Fatal(err)
		}
		if i%3 == 0 {
			if err := p.Add(record.Key{CID: 1, MID: 42, MOID: 7, CapNs: 3}, payload); err != nil {
				f.Fatal(err)
			}
		}
	}
	f.Add(p.Append(nil))
	f.Fuzz(func(t *testing.T, source []byte) {
		p, err := ParsePartial(s, source)
		if err != nil {
			return
		}
		again, err := ParsePartial(s, p.Append(nil))
		if err != nil || !bytes.Equal(again.Append(nil), p.Append(nil)) {
			t.Errorf("written and read again: %v", err)
		}
	})
}

// FuzzOpen: no payload makes it panic.
func FuzzOpen(f *testing.F) {
	def := Definition{ID: 7, MaxRecords: 1000, MAC: &MAC{}, Envelope: true, Fields: []Field{
		{ID: 1, Name: "x", Kind: Number, Max: 9, Sum: true}, {ID: 2, Name: "s", Kind: Text}}}
	s, err := NewSchema(def)
	if err != nil {
		f.Fatal(err)
	}
	var keys MemoryKeyring
	keys.Add(1, 1, Key{1})
	tenant, err := OpenTenant(&keys, 1, s)
	if err != nil {
		f.Fatal(err)
	}
	w, err := tenant.NewWriter(context.Background(), s, 42, 7)
	if err != nil {
		f.Fatal(err)
	}
	payload, err := w.Append(nil, Reading{Values: []Value{{Number: 2}, {Text: "on"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload)
	f.Fuzz(func(_ *testing.T, payload []byte) {
		_, _ = tenant.Open(context.Background(), record.Key{CID: 1, MID: 42, MOID: 7}, payload)
	})
}
