package seal

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// stored is a record as a node has it.
type stored struct {
	key     record.Key
	payload []byte
}

// evidence is what a node gives to a client: a record that is opened, and a sum, together with what
// the client asked for.
type evidence struct {
	record stored
	sum    *Partial
}

// lying is a node that changes what it has. Readings of mid 42 are asked for, of which there are
// ten; those of mid 43 belong to the same tenant.
type lying struct {
	*testing.T
	tenant *Tenant
	schema *Schema
	own    []stored // of mid 42, from number 0 on
	old    stored   // the version of reading 3 that was corrected
	other  []stored // of mid 43
}

func newLying(t *testing.T, mac bool) *lying {
	l := &lying{T: t}
	l.tenant, l.schema = meter(t, func(d *Definition) {
		d.Envelope = true
		d.Fields[0].Trend = &Trend{UnitNs: 1, MaxUnits: 1000}
		if mac {
			d.MAC = &MAC{Scope: OfTenant}
		}
	})
	add := func(mid int64, to *[]stored) {
		w, err := l.tenant.NewWriter(context.Background(), l.schema, mid, 7)
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(10) {
			k := record.Key{CID: 1, MID: mid, MOID: 7, CapNs: i}
			if i == 3 && mid == 42 {
				l.old = stored{k, mustSeal(t, w, i, 99)}
			}
			*to = append(*to, stored{k, mustSeal(t, w, i, 100+i)})
		}
	}
	add(42, &l.own)
	add(43, &l.other)
	return l
}

// of is the sum of records.
func (l *lying) of(all ...stored) *Partial {
	l.Helper()
	p := NewPartial(l.schema)
	for _, r := range all {
		if err := p.Add(r.key, r.payload); err != nil {
			l.Fatal(err)
		}
	}
	return p
}

// instead is the sum of the ten with another one in the place of reading 3.
func (l *lying) instead(r stored) *Partial {
	all := slices.Clone(l.own)
	all[3] = r
	return l.of(all...)
}

// lies returns what the node does, by name.
func (l *lying) lies() map[string]evidence {
	l.Helper()
	flipped := stored{l.own[3].key, bytes.Clone(l.own[3].payload)}
	flipped.payload[headerBytes] ^= 1
	flag := stored{l.own[3].key, bytes.Clone(l.own[3].payload)}
	flag.payload[20] |= flagDelta
	moved := stored{l.own[3].key, l.own[3].payload}
	moved.key.CapNs = 900
	renamed := stored{l.own[3].key, l.other[3].payload}
	dropped := l.of(slices.Delete(slices.Clone(l.own), 3, 4)...)
	named := l.of(l.own...) // names all ten, and has the sum of nine
	named.lanes, named.mac = dropped.lanes, dropped.mac
	twice := l.of(l.own...)
	for i := range twice.lanes {
		twice.lanes[i] = twice.lanes[i].plus(loadLane(l.own[3].payload[l.schema.lanes[i].offset:],
			l.schema.lanes[i].width))
	}
	times := l.of(l.own...)
	times.times[0][0] = wideOf(5000)
	return map[string]evidence{
		"flipped lane":   {flipped, l.instead(flipped)},
		"flag":           {flag, l.instead(flag)},
		"swapped cap":    {moved, l.instead(moved)},
		"old version":    {l.old, l.instead(l.old)},
		"other's name":   {renamed, l.instead(renamed)},
		"foreign record": {l.other[3], l.instead(l.other[3])},
		"dropped, named": {l.own[0], named},
		"left out":       {l.own[0], dropped},
		"added twice":    {l.own[0], twice},
		"times":          {l.own[0], times},
	}
}

// TestLies holds what is noticed of what a node may do, and what is not: the table of
// sdk/docs/sealing.md.
func TestLies(t *testing.T) {
	only42 := Expect{Series: func(mid int64, _ int32) bool { return mid == 42 }}
	for _, c := range []struct {
		lie             string
		open, mac, lean error // of the record, of the sum with a MAC, and of one without
	}{
		{"flipped lane", ErrTampered, ErrTampered, nil},
		{"flag", ErrTampered, nil, nil},
		{"swapped cap", ErrTampered, nil, nil},
		{"old version", nil, nil, nil},
		{"other's name", ErrTampered, ErrTampered, ErrImplausible},
		{"foreign record", nil, ErrUnexpected, ErrUnexpected},
		{"dropped, named", nil, ErrTampered, ErrImplausible},
		{"left out", nil, nil, nil},
		{"added twice", nil, ErrTampered, ErrImplausible},
		{"times", nil, nil, nil},
	} {
		for _, mac := range []bool{true, false} {
			l := newLying(t, mac)
			e, want := l.lies()[c.lie], c.lean
			if mac {
				want = c.mac
			}
			_, err := l.tenant.Open(context.Background(), e.record.key, e.record.payload)
			if !errors.Is(err, c.open) {
				t.Errorf("%s: the record opens with %v, want %v", c.lie, err, c.open)
			}
			s, err := l.tenant.Decrypt(context.Background(), e.sum, only42)
			if !errors.Is(err, want) {
				t.Errorf("%s, MAC %v: the sum has %v, want %v", c.lie, mac, err, want)
			}
			if err == nil && s.Authentic != mac {
				t.Errorf("%s: it says authentic %v, MAC %v", c.lie, s.Authentic, mac)
			}
		}
	}
	l := newLying(t, true)
	only42.MinCount = 10 // who knows how many there are notices that one is missing
	if _, err := l.tenant.Decrypt(context.Background(), l.lies()["left out"].sum,
		only42); !errors.Is(err, ErrUnexpected) {
		t.Errorf("nine of ten: %v", err)
	}
	only42.NoDeltas, only42.MinCount = true, 0
	if _, err := l.tenant.Decrypt(context.Background(), l.lies()["flag"].sum,
		only42); !errors.Is(err, ErrUnexpected) {
		t.Errorf("a reading that was made a correction by difference: %v", err)
	}
	p, part := l.of(l.own...), l.of(l.own[:2]...)
	if err := p.Merge(part); !errors.Is(err, ErrDuplicate) {
		t.Errorf("a partial twice: %v", err)
	}
	if _, err := ParsePartial(l.schema, l.doubled(part)); !errors.Is(err, ErrDuplicate) {
		t.Errorf("a partial that a node merged twice: %v", err)
	}
}

// doubled is what a node makes of a partial and itself: it adds, and lists the runs twice.
func (l *lying) doubled(p *Partial) []byte {
	whole := p.Append(nil)
	series := p.appendSeries(nil)
	front := len(whole) - len(series)
	out := append(bytes.Clone(whole[:front]), 2)
	return append(append(out, series[1:]...), series[1:]...)
}
