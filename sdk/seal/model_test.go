package seal

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// sealed is a payload and what it was made of.
type sealed struct {
	key     record.Key
	reading Reading
	payload []byte
}

// farm is a tenant with random series, and the readings that were sealed for them.
type farm struct {
	t       *testing.T
	r       *rand.Rand
	schema  *Schema
	keyring MemoryKeyring
	tenant  *Tenant
	all     []sealed
}

const farmTenant = 3

func newFarm(t *testing.T, seed uint64) *farm {
	t.Logf("seed %d", seed)
	f := &farm{t: t, r: rand.New(rand.NewPCG(seed, 1))}
	f.keyring.Generate(farmTenant)
	var err error
	if f.schema, err = NewSchema(randomDefinition(f.r)); err != nil {
		t.Fatal(err)
	}
	f.tenant, err = OpenTenant(&f.keyring, farmTenant, f.schema)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func randomDefinition(r *rand.Rand) Definition {
	def := Definition{ID: uint16(r.Uint32()), MaxRecords: 1 << (10 + r.IntN(30)),
		Envelope: r.IntN(2) == 0}
	if r.IntN(2) == 0 {
		def.MAC = &MAC{Scope: OfTenant}
	}
	for i := range 1 + r.IntN(4) {
		f := Field{ID: uint16(i*7 + 1), Name: fmt.Sprintf("field-%d", i), Kind: Number,
			Digits: uint8(r.IntN(5)), Max: 1 << r.IntN(31), Sum: true}
		f.SumSquares = r.IntN(2) == 0
		if r.IntN(3) == 0 {
			f.Trend = &Trend{OriginNs: r.Int64N(1e15), UnitNs: 1 + r.Int64N(1e9), MaxUnits: 1 << 50}
		}
		for b := int64(-3); r.IntN(3) > 0 && b < 9; b++ {
			f.Histogram = append(f.Histogram, b*int64(f.Max)/8)
			if len(f.Histogram) > 1 && f.Histogram[len(f.Histogram)-2] >= b*int64(f.Max)/8 {
				f.Histogram = f.Histogram[:len(f.Histogram)-1]
			}
		}
		if r.IntN(3) == 0 {
			f.Order = &Order{AcknowledgeLeakage: true}
			if r.IntN(2) == 0 {
				f.Order.Width, f.Order.Buckets = 1+f.Max/8, 16
				f.Order.Low = -int64(f.Max)
			}
		}
		if r.IntN(3) == 0 {
			f.Equal = &Equal{PeriodNs: r.Int64N(2) * 86400e9}
		}
		def.Fields = append(def.Fields, f)
	}
	if def.Envelope {
		def.Fields = append(def.Fields, Field{ID: 99, Name: "state", Kind: Text, Equal: &Equal{}})
	}
	return def
}

func (f *farm) values() []Value {
	values := make([]Value, len(f.schema.def.Fields))
	for i := range values {
		if field := &f.schema.def.Fields[i]; field.Kind == Text {
			values[i].Text = []string{"", "open", "closed", "õ"}[f.r.IntN(4)]
		} else {
			limit := int64(field.Max)
			values[i].Number = f.r.Int64N(2*limit+1) - limit
		}
	}
	return values
}

// fill seals readings of some series by some writers each, with corrections of both kinds.
func (f *farm) fill(records int) {
	ctx := context.Background()
	for len(f.all) < records {
		key := record.Key{CID: farmTenant, MID: f.r.Int64N(4) - 2, MOID: int32(f.r.IntN(3)) - 1}
		w, err := f.tenant.NewWriter(ctx, f.schema, key.MID, key.MOID)
		if err != nil {
			f.t.Fatal(err)
		}
		if f.r.IntN(5) == 0 {
			f.keyring.Generate(farmTenant)
		}
		var readings []Reading
		for range 1 + f.r.IntN(200) {
			r := Reading{CapNs: f.r.Int64N(1e15), Values: f.values()}
			if f.schema.def.Envelope {
				r.Opaque = bytes.Repeat([]byte{7}, f.r.IntN(20))
			}
			readings = append(readings, r)
			if f.schema.def.Envelope && f.r.IntN(10) == 0 {
				readings = append(readings, Reading{CapNs: r.CapNs, Values: f.values(),
					Before: r.Values})
			}
		}
		f.seal(w, key, readings)
	}
}

func (f *farm) seal(w *Writer, key record.Key, readings []Reading) {
	var payloads [][]byte
	var err error
	if f.r.IntN(2) == 0 {
		payloads, err = w.AppendBatch(nil, readings)
	} else {
		for _, r := range readings {
			var p []byte
			if p, err = w.Append(nil, r); err != nil {
				break
			}
			payloads = append(payloads, p)
		}
	}
	if err != nil {
		f.t.Fatal(err)
	}
	for i, p := range payloads {
		key.CapNs = readings[i].CapNs
		f.all = append(f.all, sealed{key, readings[i], p})
	}
}

// sum adds records to several partials, which go through bytes and are merged in random order.
func (f *farm) sum(chosen []sealed) *Partial {
	partials := make([]*Partial, 1+f.r.IntN(5))
	for i := range partials {
		partials[i] = NewPartial(f.schema)
	}
	for _, i := range f.r.Perm(len(chosen)) {
		c := &chosen[i]
		if err := partials[f.r.IntN(len(partials))].Add(c.key, c.payload); err != nil {
			f.t.Fatal(err)
		}
	}
	all := NewPartial(f.schema)
	for _, p := range partials {
		parsed, err := ParsePartial(f.schema, p.Append(nil))
		if err != nil {
			f.t.Fatal(err)
		}
		if err := all.Merge(parsed); err != nil {
			f.t.Fatal(err)
		}
	}
	return all
}

// TestModel compares sums that were made of sealed payloads with those of the plain readings.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for round := range uint64(20) {
		f := newFarm(t, seed+round)
		f.fill(600)
		for _, c := range f.all {
			f.checkOpen(c)
		}
		var chosen []sealed
		share := f.r.Float64()
		for _, c := range f.all {
			// A correction by difference goes with what it corrects: it stands behind it.
			if c.reading.Before != nil {
				n := len(chosen)
				if n > 0 && &chosen[n-1].reading.Values[0] == &c.reading.Before[0] {
					chosen = append(chosen, c)
				}
			} else if f.r.Float64() < share {
				chosen = append(chosen, c)
			}
		}
		p := f.sum(chosen)
		sums, err := f.tenant.Decrypt(context.Background(), p, Expect{})
		if err != nil {
			t.Fatal(err)
		}
		f.checkSums(sums, chosen)
	}
}

func (f *farm) checkOpen(c sealed) {
	f.t.Helper()
	o, err := f.tenant.Open(context.Background(), c.key, c.payload)
	if err != nil {
		f.t.Fatal(err)
	}
	if o.Authentic != f.schema.def.Envelope || !bytes.Equal(o.Opaque, c.reading.Opaque) {
		f.t.Fatalf("opened %+v, want %+v", o, c.reading)
	}
	for i, v := range c.reading.Values {
		if o.Values[i] != v {
			f.t.Fatalf("field %d is %v, want %v", i, o.Values[i], v)
		}
	}
}

// plain are the sums of a field over readings, of which a correction replaces the one before it.
type plain struct {
	n, sum, squares, times, timeSquares, products *big.Int
	buckets                                       []uint64
}

func (f *farm) plain(i int, chosen []sealed) plain {
	field := &f.schema.def.Fields[i]
	var p plain
	for _, v := range []**big.Int{&p.n, &p.sum, &p.squares, &p.times, &p.timeSquares, &p.products} {
		*v = new(big.Int)
	}
	p.buckets = make([]uint64, len(field.Histogram)+1)
	mul := func(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }
	for k, c := range chosen {
		if k+1 < len(chosen) && chosen[k+1].reading.Before != nil {
			continue // corrected
		}
		v, at := c.reading.Values[i].Number, int64(0)
		if field.Trend != nil {
			at = (c.key.CapNs - field.Trend.OriginNs) / field.Trend.UnitNs
			if at*field.Trend.UnitNs > c.key.CapNs-field.Trend.OriginNs {
				at--
			}
		}
		p.n.Add(p.n, big.NewInt(1))
		p.sum.Add(p.sum, big.NewInt(v))
		p.squares.Add(p.squares, mul(v, v))
		p.times.Add(p.times, big.NewInt(at))
		p.timeSquares.Add(p.timeSquares, mul(at, at))
		p.products.Add(p.products, mul(v, at))
		bucket := 0
		for _, bound := range field.Histogram {
			if v >= bound {
				bucket++
			}
		}
		p.buckets[bucket]++
	}
	return p
}

func (f *farm) checkSums(got *Sums, chosen []sealed) {
	t := f.t
	t.Helper()
	for i := range f.schema.def.Fields {
		field := &f.schema.def.Fields[i]
		if field.Kind == Text {
			continue
		}
		want := f.plain(i, chosen)
		if got.Count() != want.n.Uint64() {
			t.Fatalf("count %d, want %v", got.Count(), want.n)
		}
		if sum, err := got.Sum(field.Name); err != nil ||
			sum != formatUnits(want.sum, field.Digits) {
			t.Fatalf("sum of %s: %s, %v, want %s", field.Name, sum, err,
				formatUnits(want.sum, field.Digits))
		}
		if len(field.Histogram) > 0 {
			buckets, err := got.Histogram(field.Name)
			if err != nil || fmt.Sprint(buckets) != fmt.Sprint(want.buckets) {
				t.Fatalf("histogram of %s: %v, %v, want %v", field.Name, buckets, err, want.buckets)
			}
		}
		f.checkSpread(got, field, want)
	}
}

// checkSpread compares mean, variance and trend with what floating-point numbers of 300 bits say.
func (f *farm) checkSpread(got *Sums, field *Field, want plain) {
	t := f.t
	t.Helper()
	float := func(v *big.Int) *big.Float { return new(big.Float).SetPrec(300).SetInt(v) }
	n, scale := float(want.n), float(power10(field.Digits))
	quo := func(a, b *big.Float) float64 {
		v, _ := new(big.Float).SetPrec(300).Quo(a, b).Float64()
		return v
	}
	near := func(name string, v, w float64) {
		t.Helper()
		if math.Abs(v-w) > 1e-12*math.Abs(w) {
			t.Fatalf("%s of %s: %v, want %v", name, field.Name, v, w)
		}
	}
	mul := func(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(300).Mul(a, b) }
	sub := func(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(300).Sub(a, b) }
	mean, ok, err := got.Mean(field.Name)
	if err != nil || ok != (want.n.Sign() > 0) {
		t.Fatalf("mean of %s: %v, %v", field.Name, ok, err)
	}
	if ok {
		near("mean", mean, quo(float(want.sum), mul(n, scale)))
	}
	if v, ok, err := got.Variance(field.Name); field.SumSquares && err != nil {
		t.Fatal(err)
	} else if ok {
		one := big.NewFloat(1)
		above := sub(float(want.squares), new(big.Float).Quo(mul(float(want.sum),
			float(want.sum)), n))
		near("variance", v, quo(above, mul(sub(n, one), mul(scale, scale))))
	}
	if field.Trend == nil {
		return
	}
	at, slope, ok, err := got.Trend(field.Name)
	if err != nil {
		t.Fatal(err)
	}
	if ok {
		st, stt := float(want.times), float(want.timeSquares)
		sm, smt := float(want.sum), float(want.products)
		below := mul(sub(mul(n, stt), mul(st, st)), scale)
		near("slope", slope, quo(sub(mul(n, smt), mul(st, sm)), below))
		near("value at the origin", at, quo(sub(mul(sm, stt), mul(st, smt)), below))
	}
}
