package seal

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// meter is a tenant with a lean schema of one value.
func meter(t *testing.T, change func(*Definition)) (*Tenant, *Schema) {
	t.Helper()
	def := Definition{ID: 7, MaxRecords: 1e12, Fields: []Field{{ID: 1, Name: "energy",
		Kind: Number, Digits: 3, Max: 1e6, Sum: true}}}
	if change != nil {
		change(&def)
	}
	s, err := NewSchema(def)
	if err != nil {
		t.Fatal(err)
	}
	var keys MemoryKeyring
	keys.Generate(1)
	tenant, err := OpenTenant(&keys, 1, s)
	if err != nil {
		t.Fatal(err)
	}
	return tenant, s
}

func writer(t *testing.T, tenant *Tenant, s *Schema) *Writer {
	t.Helper()
	w, err := tenant.NewWriter(context.Background(), s, 42, 7)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func mustSeal(t *testing.T, w *Writer, capNs, v int64) []byte {
	t.Helper()
	p, err := w.Append(nil, Reading{CapNs: capNs, Values: []Value{{Number: v}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestReuseLeaks: two plaintexts under one sequence number tell their difference without a key. So
// no function takes a sequence number, and a correction has another one than what it corrects.
func TestReuseLeaks(t *testing.T) {
	tenant, s := meter(t, nil)
	w := writer(t, tenant, s)
	copied := *w // as a machine that is resumed twice
	stream := *w.pads[0]
	stream.rows = bytes.Clone(stream.rows)
	copied.pads = []*padStream{&stream}
	a, b := mustSeal(t, w, 0, 1000), mustSeal(t, &copied, 0, 1066)
	difference := loadLane(b[headerBytes:], 8).minus(loadLane(a[headerBytes:], 8))
	if difference != wideOf(66) {
		t.Errorf("the attack finds %v; it should find 66", difference)
	}
	first, err := ParseHeader(a)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseHeader(mustSeal(t, w, 0, 1066))
	if err != nil || again.Seq != first.Seq+1 || again.Chain != first.Chain {
		t.Errorf("a correction has the place %+v after %+v, %v", again, first, err)
	}
}

// TestAnotherChain: a writer that finds itself in another process, after a day, or at the last
// sequence number begins another chain with number 1.
func TestAnotherChain(t *testing.T) {
	tenant, s := meter(t, nil)
	for name, change := range map[string]func(*Writer){
		"process": func(w *Writer) {
			w.place, w.looked = "1 of another boot", w.looked.Add(-2*placeEvery)
		},
		"day":   func(w *Writer) { w.dated = w.dated.Add(-maxChainAge - 1) },
		"clock": func(w *Writer) { w.dated = w.dated.Add(2 * maxClockJump) },
		"last":  func(w *Writer) { w.header.Seq = maxChainSeq },
	} {
		w := writer(t, tenant, s)
		before, _ := ParseHeader(mustSeal(t, w, 0, 1))
		change(w)
		payload := mustSeal(t, w, 0, 2)
		after, err := ParseHeader(payload)
		if err != nil || after.Chain == before.Chain || after.Seq != 1 {
			t.Errorf("%s: %+v after %+v, %v", name, after, before, err)
		}
		o, err := tenant.Open(context.Background(), record.Key{CID: 1, MID: 42, MOID: 7}, payload)
		if err != nil || o.Values[0].Number != 2 {
			t.Errorf("%s: opened %v, %v", name, o.Values, err)
		}
	}
}

// TestFirstNumberHasAnAnchor: row 0 of the pads belongs to no record, so a header with number 0 is
// refused.
func TestFirstNumberHasAnAnchor(t *testing.T) {
	tenant, s := meter(t, nil)
	payload := mustSeal(t, writer(t, tenant, s), 0, 1)
	clear(payload[16:20])
	if _, err := ParseHeader(payload); !errors.Is(err, ErrNotSealed) {
		t.Errorf("number 0: %v", err)
	}
}

// TestUnknownIsRefused: versions, suites and flags of later programs are not guessed at.
func TestUnknownIsRefused(t *testing.T) {
	tenant, s := meter(t, nil)
	good := mustSeal(t, writer(t, tenant, s), 0, 1)
	for at, value := range map[int]byte{0: 2, 1: 2, 20: 1 << 2} {
		payload := bytes.Clone(good)
		payload[at] = value
		if _, err := ParseHeader(payload); !errors.Is(err, ErrNotSealed) {
			t.Errorf("byte %d is %d: %v", at, value, err)
		}
	}
	_, err := tenant.Open(context.Background(), record.Key{CID: 1, MID: 42, MOID: 7},
		append(bytes.Clone(good), 0))
	if !errors.Is(err, ErrNotSealed) {
		t.Errorf("a byte more: %v", err)
	}
}

// TestOverflowIsRefused: a schema whose sums could overflow is refused, and so is a value beyond
// its bound.
func TestOverflowIsRefused(t *testing.T) {
	def := Definition{ID: 1, MaxRecords: math.MaxUint64, Fields: []Field{{ID: 1, Name: "x",
		Kind: Number, Max: math.MaxInt64, Sum: true, SumSquares: true}}}
	if _, err := NewSchema(def); err == nil || !strings.Contains(err.Error(), "overflow") {
		t.Errorf("a schema that overflows: %v", err)
	}
	for _, c := range []struct {
		max, records uint64
		want         int
	}{{1 << 20, 1 << 42, 8}, {1 << 20, 1 << 43, 16}, {1<<63 - 1, 1<<64 - 1, 16}} {
		def.Fields[0] = Field{ID: 1, Name: "x", Kind: Number, Max: c.max, Sum: true}
		def.MaxRecords = c.records
		s, err := NewSchema(def)
		if err != nil || s.lanes[0].width != c.want {
			t.Errorf("max %d, %d records: %v, want %d bytes", c.max, c.records, err, c.want)
		}
	}
	tenant, s := meter(t, nil)
	for _, v := range []int64{1e6 + 1, -1e6 - 1, math.MinInt64} {
		r := Reading{Values: []Value{{Number: v}}}
		if _, err := writer(t, tenant, s).Append(nil, r); err == nil {
			t.Errorf("%d was sealed", v)
		}
	}
}

// TestOrderNeedsAnAcknowledgement: what order tells a node must be accepted in the schema.
func TestOrderNeedsAnAcknowledgement(t *testing.T) {
	def := Definition{ID: 1, MaxRecords: 1, Fields: []Field{{ID: 1, Name: "x", Kind: Number,
		Max: 9, Sum: true, Order: &Order{}}}}
	if _, err := NewSchema(def); err == nil || !strings.Contains(err.Error(), "acknowledge") {
		t.Errorf("order without an acknowledgement: %v", err)
	}
}

// TestOrderTags: the comparison has the order of values, and the order of bytes has not.
func TestOrderTags(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	o := newOrderCipher(&Key{1})
	wrong := 0
	for _, field := range []Field{{Order: &Order{}, Max: math.MaxInt64},
		{Order: &Order{}, Max: math.MaxInt32},
		{Order: &Order{Low: -500, Width: 10, Buckets: 64}, Max: 1000}} {
		width := 8
		if field.Max == math.MaxInt64 {
			width = 16
		}
		for range 20_000 {
			a, b := r.Int64N(int64(field.Max))-r.Int64N(int64(field.Max)),
				r.Int64N(int64(field.Max))-r.Int64N(int64(field.Max))
			if r.IntN(4) == 0 {
				b = a + int64(r.IntN(3)) - 1
			}
			want := compareInts(a, b)
			if field.Order.Width > 0 {
				want = compareInts(int64(field.Order.bucket(a)), int64(field.Order.bucket(b)))
			}
			x, y := o.tag(nil, &field, width, a), o.tag(nil, &field, width, b)
			if got := CompareOrder(x, y); got != want {
				t.Fatalf("%d and %d compare as %d, want %d", a, b, got, want)
			}
			if bytes.Compare(x, y) != want {
				wrong++
			}
		}
	}
	if wrong < 1000 {
		t.Errorf("the order of bytes was wrong only %d times; the test shows nothing", wrong)
	}
}

func compareInts(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// TestOrderTellsValues: who knows how values are distributed reads them from order tags, without a
// key. That is why order must be acknowledged.
func TestOrderTellsValues(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	o := newOrderCipher(&Key{1})
	f := &Field{Order: &Order{}, Max: math.MaxInt32}
	type one struct {
		value int64
		tag   []byte
	}
	all, known := make([]one, 5000), make([]int64, 5000)
	for i := range all {
		v := int64(21000 + 3000*r.NormFloat64()) // thousandths of a degree
		all[i] = one{v, o.tag(nil, f, 8, v)}
		known[i] = int64(21000 + 3000*r.NormFloat64())
	}
	slices.SortFunc(all, func(a, b one) int { return CompareOrder(a.tag, b.tag) })
	slices.Sort(known)
	off := make([]float64, len(all))
	for i := range all {
		off[i] = math.Abs(float64(all[i].value - known[i]))
	}
	slices.Sort(off)
	if median := off[len(off)/2]; median > 200 {
		t.Errorf("the attack is off by %v thousandths of a degree, not by less than 200", median)
	}
}

// TestForgery: a MAC modulo 2^64 passes when half of the modulus is added to a sum and to its MAC;
// the MAC of a schema does not.
func TestForgery(t *testing.T) {
	factor, sum, half := uint64(0x9e3779b97f4a7c15), uint64(1234), uint64(1)<<63 // any odd factor
	if forged := factor*sum + half; forged != factor*(sum+half) {
		t.Error("the attack on a MAC modulo 2^64 fails; it should pass")
	}
	tenant, s := meter(t, func(d *Definition) { d.MAC = &MAC{} })
	w := writer(t, tenant, s)
	for _, change := range []func(p []byte){
		func(p []byte) { p[headerBytes+7] ^= 0x80 },
		func(p []byte) { p[headerBytes+7] ^= 0x80; p[s.mac+7] ^= 0x80 },
		func(p []byte) { p[headerBytes+7] ^= 0x80; p[s.mac+15] ^= 0x40 },
		func(p []byte) { p[s.mac] ^= 1 },
	} {
		p, key := NewPartial(s), record.Key{CID: 1, MID: 42, MOID: 7}
		for v := range int64(3) {
			payload := mustSeal(t, w, v, v)
			if v == 1 {
				change(payload)
				if _, err := tenant.Open(context.Background(), key, payload); !errors.Is(err,
					ErrTampered) {
					t.Errorf("a changed record opens: %v", err)
				}
			}
			if err := p.Add(key, payload); err != nil {
				t.Fatal(err)
			}
		}
		_, err := tenant.Decrypt(context.Background(), p, Expect{})
		if !errors.Is(err, ErrTampered) {
			t.Errorf("a sum with a changed record: %v", err)
		}
	}
}

// TestMACArithmetic compares numbers modulo p with those of math/big.
func TestMACArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	p := bigPrime()
	edge := []uint64{0, 1, 2, 1<<63 - 1, 1 << 63, 1<<64 - 2, 1<<64 - 1}
	number := func() wide {
		if r.IntN(3) == 0 {
			return wide{edge[r.IntN(len(edge))], edge[r.IntN(len(edge))]}
		}
		return wide{r.Uint64(), r.Uint64()}
	}
	unsigned := func(w wide) element { return reduce(w) }
	for range 20_000 {
		a, b := number(), number()
		x, y := unsigned(a), unsigned(b)
		bx, by := wide(x).big(), wide(y).big()
		if bx.Cmp(p) >= 0 || bx.Sign() < 0 {
			t.Fatalf("%v is not below p", x)
		}
		var sum, difference, product, signed big.Int
		for name, c := range map[string]struct {
			got  element
			want *big.Int
		}{
			"sum":        {x.plus(y), sum.Add(bx, by)},
			"difference": {x.minus(y), difference.Sub(bx, by)},
			"product":    {x.times(y), product.Mul(bx, by)},
			"signed":     {elementOf(a), signed.Set(a.big())},
		} {
			if got := wide(c.got).big(); got.Cmp(c.want.Mod(c.want, p)) != 0 {
				t.Fatalf("%s of %v and %v: %v, want %v", name, a, b, got, c.want)
			}
		}
	}
}

// TestTampering: what was done to records or sums between writer and reader.
func TestTampering(t *testing.T) {
	tenant, s := meter(t, func(d *Definition) { d.Envelope, d.MAC = true, &MAC{} })
	w := writer(t, tenant, s)
	ctx, key := context.Background(), record.Key{CID: 1, MID: 42, MOID: 7, CapNs: 5}
	payload := mustSeal(t, w, 5, 77)
	if o, err := tenant.Open(ctx, key, payload); err != nil || !o.Authentic {
		t.Fatalf("opened %+v, %v", o, err)
	}
	for name, wrong := range map[string]record.Key{
		"cap":  {CID: 1, MID: 42, MOID: 7, CapNs: 6},
		"mid":  {CID: 1, MID: 43, MOID: 7, CapNs: 5},
		"moid": {CID: 1, MID: 42, MOID: 8, CapNs: 5},
	} {
		if _, err := tenant.Open(ctx, wrong, payload); !errors.Is(err, ErrTampered) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	for at := headerBytes; at < len(payload); at++ {
		changed := bytes.Clone(payload)
		changed[at] ^= 1
		if _, err := tenant.Open(ctx, key, changed); !errors.Is(err, ErrTampered) {
			t.Errorf("byte %d changed: %v", at, err)
		}
	}
	p := NewPartial(s)
	if err := p.Add(key, payload); err != nil {
		t.Fatal(err)
	}
	if err := p.Add(key, payload); !errors.Is(err, ErrDuplicate) {
		t.Errorf("a record twice: %v", err)
	}
	if err := p.Merge(p); !errors.Is(err, ErrDuplicate) {
		t.Errorf("a partial twice: %v", err)
	}
}

// TestWrongSums: sums of other records than were asked for, and those that say less than they have.
func TestWrongSums(t *testing.T) {
	tenant, s := meter(t, func(d *Definition) { d.MAC = &MAC{} })
	w := writer(t, tenant, s)
	ctx, key := context.Background(), record.Key{CID: 1, MID: 42, MOID: 7}
	build := func() *Partial {
		p := NewPartial(s)
		for v := range int64(10) {
			if err := p.Add(key, mustSeal(t, w, v, v)); err != nil {
				t.Fatal(err)
			}
		}
		return p
	}
	if sums, err := tenant.Decrypt(ctx, build(), Expect{RequireMAC: true}); err != nil ||
		!sums.Authentic {
		t.Fatalf("authentic sums: %v", err)
	}
	dropped := build() // a record is in the list, and not in the sum
	id, chain := seriesID{1, 42, 7}, chainID{w.header.Chain, w.header.KeyID}
	dropped.series[id][chain][0].to++
	dropped.count++
	if _, err := tenant.Decrypt(ctx, dropped, Expect{}); !errors.Is(err, ErrTampered) {
		t.Errorf("a dropped record: %v", err)
	}
	fewer := build()
	fewer.count--
	if _, err := tenant.Decrypt(ctx, fewer, Expect{}); !errors.Is(err, ErrTampered) {
		t.Errorf("a count that is not that of the records: %v", err)
	}
	foreign := build()
	foreign.series[seriesID{1, 43, 7}] = foreign.series[id]
	foreign.count *= 2
	only42 := func(mid int64, _ int32) bool { return mid == 42 }
	for name, c := range map[string]struct {
		p    *Partial
		e    Expect
		want error
	}{
		"foreign":  {foreign, Expect{Series: only42}, ErrUnexpected},
		"few":      {build(), Expect{MinCount: 11}, ErrUnexpected},
		"many":     {build(), Expect{MaxCount: 9}, ErrUnexpected},
		"no scope": {foreign, Expect{RequireMAC: true}, ErrUnexpected},
	} {
		if _, err := tenant.Decrypt(ctx, c.p, c.e); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestChainsStayApart: equal numbers of different chains and keys are different records.
func TestChainsStayApart(t *testing.T) {
	tenant, s := meter(t, nil)
	keys := tenant.keyring.(*MemoryKeyring)
	p, key, want := NewPartial(s), record.Key{CID: 1, MID: 42, MOID: 7}, int64(0)
	for i := range int64(6) {
		if i == 3 {
			keys.Generate(1)
		}
		w := writer(t, tenant, s)
		for v := range int64(5) {
			if err := p.Add(key, mustSeal(t, w, v, v*i)); err != nil {
				t.Fatal(err)
			}
			want += v * i
		}
	}
	sums, err := tenant.Decrypt(context.Background(), p, Expect{})
	if err != nil || sums.lanes[0] != wideOf(want) || len(p.series[seriesID{1, 42, 7}]) != 6 {
		t.Errorf("sum %v, want %d, %v", sums, want, err)
	}
}

// TestDenseRuns: a sum of every other record is decrypted by a stream, with the same result as run
// by run.
func TestDenseRuns(t *testing.T) {
	tenant, s := meter(t, nil)
	w := writer(t, tenant, s)
	p, key, want := NewPartial(s), record.Key{CID: 1, MID: 42, MOID: 7}, int64(0)
	for v := range int64(5000) {
		payload := mustSeal(t, w, v, v)
		if v%2 == 0 || v > 4990 {
			continue
		}
		if err := p.Add(key, payload); err != nil {
			t.Fatal(err)
		}
		want += v
	}
	source := p.Append(nil)
	if len(source) > 800 {
		t.Errorf("every other of 5,000 records takes %d bytes; a bitmap takes 700", len(source))
	}
	p, err := ParsePartial(s, source)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := tenant.Decrypt(context.Background(), p, Expect{})
	if err != nil || sums.lanes[0] != wideOf(want) {
		t.Errorf("sum %v, want %d, %v", sums, want, err)
	}
}
