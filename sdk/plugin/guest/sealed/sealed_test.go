package sealed

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/plugin/guest"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

// owner has the keys, which this package has not.
func owner(t testing.TB) (*seal.Tenant, *seal.Schema) {
	t.Helper()
	s, err := seal.NewSchema(seal.Definition{ID: 7, MaxRecords: 1e9, Envelope: true,
		MAC: &seal.MAC{Scope: seal.OfTenant}, Fields: []seal.Field{{ID: 1, Name: "x",
			Kind: seal.Number, Max: 1 << 40, Sum: true, SumSquares: true, Histogram: []int64{0},
			Trend: &seal.Trend{OriginNs: -9, UnitNs: 7, MaxUnits: 1 << 50},
			Order: &seal.Order{AcknowledgeLeakage: true}, Equal: &seal.Equal{}}}})
	if err != nil {
		t.Fatal(err)
	}
	var keys seal.MemoryKeyring
	keys.Generate(1)
	tenant, err := seal.OpenTenant(&keys, 1, s)
	if err != nil {
		t.Fatal(err)
	}
	return tenant, s
}

// rows are records of a few series in random order, some of which correct others by difference.
func rows(t testing.TB, tenant *seal.Tenant, s *seal.Schema, r *rand.Rand, n int) (
	b *guest.Batch, values []int64) {
	b = &guest.Batch{Offsets: []uint32{0}}
	var all []record.Record
	for len(all) < n {
		k := record.Key{CID: 1, MID: r.Int64N(3), MOID: r.Int32N(2)}
		w, err := tenant.NewWriter(context.Background(), s, k.MID, k.MOID)
		if err != nil {
			t.Fatal(err)
		}
		var before []seal.Value
		for range 1 + r.IntN(n) {
			x := seal.Reading{CapNs: r.Int64N(1e15) - 5e14, Values: []seal.Value{
				{Number: r.Int64N(1<<41) - 1<<40}}}
			if before != nil && r.IntN(4) == 0 {
				x.Before = before
			}
			before, k.CapNs = x.Values, x.CapNs
			p, err := w.Append(nil, x)
			if err != nil {
				t.Fatal(err)
			}
			if r.IntN(8) > 0 {
				all = append(all, record.Record{Key: k, Payload: p})
				values = append(values, x.Values[0].Number)
			}
		}
	}
	r.Shuffle(len(all)/2, func(i, j int) {
		all[i], all[j] = all[j], all[i]
		values[i], values[j] = values[j], values[i]
	})
	b.Rows = len(all)
	for _, x := range all {
		b.CID, b.MID = append(b.CID, x.Key.CID), append(b.MID, x.Key.MID)
		b.MOID, b.CapNs = append(b.MOID, x.Key.MOID), append(b.CapNs, x.Key.CapNs)
		b.Data = append(b.Data, x.Payload...)
		b.Offsets = append(b.Offsets, uint32(len(b.Data)))
	}
	return b, values
}

// TestSum: what is added up here in any parts is what sdk/seal adds up.
func TestSum(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	tenant, s := owner(t)
	l, err := ParseLayout([]byte(s.Layout()))
	if err != nil {
		t.Fatal(err)
	}
	if one, err := ParseSchema([]byte(s.Layout())); err != nil || one != l.Schema {
		t.Fatalf("schema %+v, %v, want %+v", one, err, l.Schema)
	}
	for range 20 {
		b, _ := rows(t, tenant, s, r, 1+r.IntN(300))
		want, whole := seal.NewPartial(s), Sum{}
		parts := make([]Sum, 1+r.IntN(4))
		for i := range b.Rows {
			k := record.Key{CID: b.CID[i], MID: b.MID[i], MOID: b.MOID[i], CapNs: b.CapNs[i]}
			if err := want.Add(k, b.Payload(i)); err != nil {
				t.Fatal(err)
			}
			if err := parts[r.IntN(len(parts))].Add(l, b, i, b.Payload(i)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range parts {
			if err := whole.Load(l, parts[i].Append(l, nil)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := seal.ParsePartial(s, whole.Append(l, nil))
		if err != nil || !bytes.Equal(got.Append(nil), want.Append(nil)) ||
			whole.Count() != uint64(b.Rows) {
			t.Fatalf("%d parts of %d rows: another sum, %v", len(parts), b.Rows, err)
		}
	}
}

// TestTags: tags compare as values do, and a token selects them.
func TestTags(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	tenant, s := owner(t)
	b, values := rows(t, tenant, s, r, 200)
	var series []seal.Series
	for i := range int64(6) {
		series = append(series, seal.Series{MID: i / 2, MOID: int32(i % 2)})
	}
	low := r.Int64N(1<<40) - 1<<39
	text, err := tenant.RangeToken(context.Background(), s, "x",
		seal.Range{Low: low, High: seal.Everything.High}, series...)
	if err != nil {
		t.Fatal(err)
	}
	inRange, err := ParseToken([]byte(text))
	if err != nil || !inRange.IsRange() || inRange.IsEqual() {
		t.Fatalf("%+v, %v", inRange, err)
	}
	if text, err = tenant.EqualToken(context.Background(), s, "x", seal.Value{Number: values[0]},
		seal.Period{}, series...); err != nil {
		t.Fatal(err)
	}
	equal, err := ParseToken([]byte(text))
	if err != nil || equal.IsRange() || !equal.IsEqual() {
		t.Fatalf("%+v, %v", equal, err)
	}
	tag := func(i int) []byte { return b.Payload(i)[inRange.Offset:][:inRange.Width] }
	for i, v := range values {
		is, err := inRange.InRange(b, i, b.Payload(i))
		if err != nil || is != (v >= low) {
			t.Errorf("row %d with %d is in the range from %d: %v, %v", i, v, low, is, err)
		}
		if is, err = equal.IsOne(b, i, b.Payload(i)); err != nil || is != (v == values[0]) {
			t.Errorf("row %d with %d is one with %d: %v, %v", i, v, values[0], is, err)
		}
		if got := CompareOrder(tag(i), tag(0)); b.MID[i] == b.MID[0] && b.MOID[i] == b.MOID[0] &&
			got != seal.CompareOrder(tag(i), tag(0)) {
			t.Errorf("%d and %d compare as %d", v, values[0], got)
		}
	}
}

// FuzzLoad: bytes from outside are taken or refused, and what is taken is saved and taken again.
func FuzzLoad(f *testing.F) {
	tenant, s := owner(f)
	l, err := ParseLayout([]byte(s.Layout()))
	if err != nil {
		f.Fatal(err)
	}
	b, _ := rows(f, tenant, s, rand.New(rand.NewPCG(1, 1)), 60)
	var sum Sum
	for i := range b.Rows {
		if err := sum.Add(l, b, i, b.Payload(i)); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(sum.Append(l, nil))
	f.Add(new(Sum).Append(l, nil))
	front := new(Sum).Append(l, nil)
	front[len(front)-1] = 1 // series, in which a chain has a bitmap
	series := append(make([]byte, 16), 1)
	series = append(append(series, make([]byte, 12)...), runsBitmap, 1, 9, 0xff, 1)
	f.Add(append(front, series...))
	f.Fuzz(func(t *testing.T, src []byte) {
		var one, two Sum
		if one.Load(l, src) != nil {
			return
		}
		first := one.Append(l, nil)
		if err := two.Load(l, first); err != nil || !bytes.Equal(two.Append(l, nil), first) {
			t.Errorf("%x is saved as %x, and again as %x, %v", src, first, two.Append(l, nil), err)
		}
	})
}

// FuzzTexts: layouts and tokens from outside are taken or refused; what is taken reads no payload
// beyond its end.
func FuzzTexts(f *testing.F) {
	tenant, s := owner(f)
	token, err := tenant.RangeToken(context.Background(), s, "x", seal.Range{Low: 1, High: 1 << 40},
		seal.Series{MID: 1, MOID: 1}, seal.Series{MID: 2, MOID: 1})
	if err != nil {
		f.Fatal(err)
	}
	b, _ := rows(f, tenant, s, rand.New(rand.NewPCG(1, 1)), 10)
	f.Add([]byte(s.Layout()))
	f.Add([]byte(token))
	f.Add([]byte("7:0a0b0c 40 16 24 16;1 * 7 -,-"))
	f.Add([]byte("1:000000 24 0 16@-3/0"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if l, err := ParseLayout(text); err == nil {
			var sum Sum
			for i := range b.Rows {
				_ = sum.Add(l, b, i, b.Payload(i))
			}
			l.Tag(uint64(len(text)))
			sum.Append(l, nil)
		}
		if one, err := ParseSchema(text); err == nil {
			one.Header(b.Payload(0))
		}
		t2, err := ParseToken(text)
		if err != nil {
			return
		}
		for i := range b.Rows {
			if t2.IsRange() {
				_, _ = t2.InRange(b, i, b.Payload(i))
			}
			_, _ = t2.IsOne(b, i, b.Payload(i)[:min(len(b.Payload(i)), 30+i)])
		}
	})
}
