package plugins_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

// sealedStream is the records of one chain of a series, and the header of the next one.
type sealedStream struct {
	key    record.Key
	header [16]byte
	next   uint32
}

// sealedStreams are streams that differ from each other in one part, as well as in several.
type sealedStreams struct {
	*testing.T
	*rand.Rand
	payload []byte // a valid one
	prefix  int
	all     []sealedStream
	open    []int // those that records come of for a while
	varied  bool  // payloads have all sizes
}

// laneSchemas are schemas of one lane, of lanes of every kind, and with payloads that differ in
// size.
func laneSchemas(t *testing.T) []*seal.Schema {
	t.Helper()
	sum := seal.Field{ID: 1, Name: "x", Kind: seal.Number, Max: 1e6, Sum: true}
	wide := sum
	wide.SumSquares, wide.Histogram = true, []int64{-5, 5}
	wide.Trend = &seal.Trend{OriginNs: -3, UnitNs: 7, MaxUnits: 1 << 50}
	wide.Max = 1 << 40
	var out []*seal.Schema
	for _, d := range []seal.Definition{
		{ID: 1, MaxRecords: 1e9, Fields: []seal.Field{sum}},
		{ID: 2, MaxRecords: 1e9, MAC: &seal.MAC{Scope: seal.OfTenant}, Fields: []seal.Field{wide}},
		{ID: 3, MaxRecords: 1e9, Envelope: true, Fields: []seal.Field{{ID: 1, Name: "x",
			Kind: seal.Number, Max: 9, Histogram: []int64{0}}}},
		{ID: 4, MaxRecords: 1e9, Envelope: true, Fields: []seal.Field{sum}},
	} {
		s, err := seal.NewSchema(d)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func newSealedStreams(t *testing.T, r *rand.Rand, s *seal.Schema) *sealedStreams {
	t.Helper()
	var keys seal.MemoryKeyring
	keys.Generate(1)
	tenant, err := seal.OpenTenant(&keys, 1, s)
	if err != nil {
		t.Fatal(err)
	}
	w, err := tenant.NewWriter(t.Context(), s, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	x := &sealedStreams{T: t, Rand: r, prefix: s.LeanBytes(), varied: s.Definition().Envelope}
	x.payload, err = w.Append(nil, seal.Reading{Values: []seal.Value{{}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 + r.IntN(12) {
		p := sealedStream{key: record.Key{CID: 1 + int32(r.IntN(2)), MID: r.Int64N(2),
			MOID: int32(r.IntN(2))}, header: [16]byte(x.payload), next: 1 + r.Uint32N(1000)}
		p.header[4] = byte(r.IntN(2)) // of the key
		p.header[8] = byte(r.IntN(2)) // of the chain
		if r.IntN(4) == 0 {
			p.next = -(1 + r.Uint32N(200)) // near the last one
		}
		same := func(o sealedStream) bool { return o.key == p.key && o.header == p.header }
		unique := true
		for _, o := range x.all {
			unique = unique && !same(o)
		}
		if unique {
			x.all = append(x.all, p)
		}
	}
	return x
}

// row returns the next record: mostly of one stream, or of some in turn, with gaps and corrections;
// a bad one when the stream is at its end.
func (x *sealedStreams) row(i int) (k record.Key, p []byte, bad bool) {
	if len(x.open) == 0 || x.IntN(40) == 0 {
		x.open = x.Perm(len(x.all))[:1+x.IntN(len(x.all))]
		if x.IntN(2) == 0 {
			x.open = x.open[:1]
		}
	}
	s := &x.all[x.open[i%len(x.open)]]
	if x.IntN(60) == 0 && s.next > 0 && s.next < 1<<31 {
		s.next += x.Uint32N(3)
	}
	if x.IntN(20) == 0 {
		s = x.mistaken(s)
	}
	p = bytes.Clone(x.payload)
	copy(p, s.header[:])
	binary.LittleEndian.PutUint32(p[16:], s.next)
	if s.next == 0 { // the one before was the last
		p[20] |= byte(x.IntN(2)) // as if it went on
		return s.key, p, true
	}
	s.next++
	if x.IntN(60) == 0 {
		p[20] |= []byte{1, 3}[x.IntN(2)] // corrections, by difference or not
	}
	for at := 24; at < x.prefix; at++ {
		p[at] = byte(x.Uint32())
	}
	if x.varied && x.IntN(3) > 0 {
		p = append(p, make([]byte, x.IntN(9))...)
	}
	k = s.key
	k.CapNs = x.Int64N(1e15) - 5e14
	return k, p, false
}

// mistaken returns a stream of another series that goes on as this one would, if there is one, and
// lets this one go on behind that.
func (x *sealedStreams) mistaken(s *sealedStream) *sealedStream {
	for _, i := range x.Perm(len(x.all)) {
		o := &x.all[i]
		if o.key != s.key && o.header == s.header && o.next != 0 && o.next < s.next {
			o.next = s.next
			s.next++
			return o
		}
	}
	return s
}

// broken changes a payload so that it is none of the schema.
func (x *sealedStreams) broken(p []byte) []byte {
	switch x.IntN(6) {
	case 0:
		return p[:x.IntN(x.prefix)]
	case 1:
		p[x.IntN(2)] ^= 1 << x.IntN(8) // version, suite
	case 2:
		p[2+x.IntN(2)] ^= 1 << x.IntN(8) // schema
	case 3:
		clear(p[16:20]) // sequence number
	case 4:
		p[20] ^= 4 << x.IntN(6) // flags
	default:
		p[21+x.IntN(3)] ^= 1 << x.IntN(8) // check
	}
	return p
}

// TestSealedRows compares sums over records that mostly go on where one before them ended with
// those of Go: several chains, in turn or one by one, with gaps, corrections, last sequence numbers
// and series that differ in one part; and a record that is not of the schema is named.
func TestSealedRows(t *testing.T) {
	r := seeded(t)
	m, doc := standard(t, "sealed-stats")
	for round := range 120 {
		schemas := laneSchemas(t)
		s := schemas[round%len(schemas)]
		x := newSealedStreams(t, r, s)
		groups := 1 + r.IntN(3)
		want := make([]*seal.Partial, groups)
		for i := range want {
			want[i] = seal.NewPartial(s)
		}
		a := newAggregate(t, m, encode(t, doc, map[string]string{"layout": s.Layout()}))
		b, gid := &record.Batch{}, []uint32(nil)
		group, bad := uint32(0), false
		for i := range 1 + r.IntN(3000) {
			k, p, odd := x.row(i)
			bad = bad || odd
			if r.IntN(1+r.IntN(50)) == 0 {
				group = r.Uint32N(uint32(groups))
			}
			if !bad && r.IntN(20_000) == 0 {
				p, bad = x.broken(p), true
			}
			if bad {
				// It is the last one.
			} else if err := want[group].Add(k, p); err != nil {
				t.Fatal(err)
			}
			b.AppendStamped(k, p)
			gid = append(gid, group)
			if bad {
				break
			}
		}
		if b.Len() == 0 {
			continue
		}
		if r.IntN(2) == 0 {
			b = asSeries(b)
		}
		err := a.Add(t.Context(), b, gid, groups)
		if bad {
			if err == nil || !strings.Contains(err.Error(), "not sealed by schema") {
				t.Fatalf("a payload that is not of the schema: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		results, err := a.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range want {
			got, err := seal.ParsePartial(s, results[i])
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Append(nil), p.Append(nil)) {
				t.Fatalf("schema %d, group %d is\n%x, in Go\n%x", s.ID(), i, got.Append(nil),
					p.Append(nil))
			}
		}
	}
}

// orderSchemas have tags of 16 and of 8 bytes, of scope device and tenant.
func orderSchemas(t *testing.T) []*seal.Schema {
	t.Helper()
	var out []*seal.Schema
	for i, o := range []seal.Order{{}, {Scope: seal.OfTenant}, {Low: -50, Width: 1, Buckets: 101},
		{Low: -50, Width: 1, Buckets: 101, Scope: seal.OfTenant}} {
		o.AcknowledgeLeakage = true
		s, err := seal.NewSchema(seal.Definition{ID: uint16(i + 1), MaxRecords: 1e9,
			Envelope: i%2 == 0, Fields: []seal.Field{{ID: 1, Name: "x", Kind: seal.Number,
				Max: 1 << 40, Sum: true, Order: &o}}})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

// rangeHouse is devices whose readings have order tags.
type rangeHouse struct {
	*testing.T
	*rand.Rand
	schema  *seal.Schema
	tenant  *seal.Tenant
	writers []*seal.Writer
	series  []seal.Series // of the writers
}

func newRangeHouse(t *testing.T, r *rand.Rand, s *seal.Schema) *rangeHouse {
	t.Helper()
	var keys seal.MemoryKeyring
	keys.Generate(1)
	h := &rangeHouse{T: t, Rand: r, schema: s}
	var err error
	if h.tenant, err = seal.OpenTenant(&keys, 1, s); err != nil {
		t.Fatal(err)
	}
	for i := range 1 + r.IntN(9) {
		if i == 3 {
			keys.Generate(1)
		}
		of := seal.Series{MID: int64(r.IntN(4)), MOID: int32(r.IntN(2))}
		w, err := h.tenant.NewWriter(t.Context(), s, of.MID, of.MOID)
		if err != nil {
			t.Fatal(err)
		}
		h.writers, h.series = append(h.writers, w), append(h.series, of)
	}
	return h
}

// someRange is a range with or without ends.
func (h *rangeHouse) someRange() seal.Range {
	low := int64(h.IntN(41) - 20)
	in := seal.Range{Low: low, High: low + h.Int64N(21-low)}
	if h.IntN(4) == 0 {
		in.Low = seal.Everything.Low
	}
	if h.IntN(4) == 0 {
		in.High = seal.Everything.High
	}
	return in
}

// rows returns records of devices in turn or several of one, and their values.
func (h *rangeHouse) rows() (b *record.Batch, values []int64) {
	b = &record.Batch{}
	open := []int{0}
	for i := range 1 + h.IntN(3000) {
		if h.IntN(30) == 0 {
			open = h.Perm(len(h.writers))[:1+h.IntN(len(h.writers))]
			if h.IntN(3) > 0 {
				open = open[:1]
			}
		}
		n := open[i%len(open)]
		v := int64(h.IntN(41) - 20)
		reading := seal.Reading{Values: []seal.Value{{Number: v}}}
		if h.schema.Definition().Envelope {
			reading.Opaque = make([]byte, h.IntN(3))
		}
		p, err := h.writers[n].Append(nil, reading)
		if err != nil {
			h.Fatal(err)
		}
		if h.IntN(60) == 0 {
			p[20] |= 1 // a correction
		}
		b.AppendStamped(record.Key{CID: 1, MID: h.series[n].MID, MOID: h.series[n].MOID}, p)
		values = append(values, v)
	}
	return b, values
}

// TestSealedRange compares which records are kept with their values: of devices in turn or one by
// one, under two keys, with open ends; a record that the token is not for is an error.
func TestSealedRange(t *testing.T) {
	r := seeded(t)
	m, doc := standard(t, "sealed-range")
	schemas := orderSchemas(t)
	for round := range 80 {
		h := newRangeHouse(t, r, schemas[round%len(schemas)])
		in := h.someRange()
		token, err := h.tenant.RangeToken(t.Context(), h.schema, "x", in, h.series...)
		if err != nil {
			t.Fatal(err)
		}
		f, err := m.NewFilter(t.Context(), encode(t, doc, map[string]string{"token": token}))
		if err != nil {
			t.Fatal(err)
		}
		b, values := h.rows()
		keep := make([]uint64, (len(values)+63)/64)
		if err := f.Keep(t.Context(), b, keep); err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if got := keep[i/64]>>(i%64)&1 == 1; got != (v >= in.Low && v <= in.High) {
				t.Fatalf("schema %d: value %d of row %d, kept %v for %v", h.schema.ID(), v, i, got,
					in)
			}
		}
		odd := r.IntN(b.Len())
		what := "not sealed by schema"
		if b.MOID[odd] = 7; r.IntN(2) == 0 {
			b.RawPayload(odd)[22] ^= 1
		} else {
			what = "no tags"
		}
		if err := f.Keep(t.Context(), b, keep); err == nil || !strings.Contains(err.Error(), what) {
			t.Fatalf("row %d: %v, want %s", odd, err, what)
		}
	}
}

// TestSealedJoin: saved states of parts have the same sum joined before they are merged, or not.
func TestSealedJoin(t *testing.T) {
	r := seeded(t)
	m, doc := standard(t, "sealed-stats")
	for round := range 20 {
		schemas := laneSchemas(t)
		s := schemas[round%len(schemas)]
		x := newSealedStreams(t, r, s)
		want := seal.NewPartial(s)
		a := newAggregate(t, m, encode(t, doc, map[string]string{"layout": s.Layout()}))
		var states, joined []byte
		b := &record.Batch{}
		for i := range 1 + r.IntN(2000) {
			k, p, bad := x.row(i)
			if bad {
				break
			}
			if err := want.Add(k, p); err != nil {
				t.Fatal(err)
			}
			if b.AppendStamped(k, p); r.IntN(100) > 0 {
				continue
			}
			if err := a.AddToPartial(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			state, err := a.SavePartial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			b, states = &record.Batch{}, append(states, state...)
			if r.IntN(4) > 0 {
				continue
			}
			if states, err = a.Join(t.Context(), states); err != nil {
				t.Fatal(err)
			}
			joined, states = append(joined, states...), nil
		}
		if err := a.Add(t.Context(), b, nil, 1); err != nil {
			t.Fatal(err)
		}
		states = append(states, joined...)
		gid := make([]uint32, len(savedSizes(states)))
		if err := a.Merge(t.Context(), states, gid); err != nil {
			t.Fatal(err)
		}
		results, err := a.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := seal.ParsePartial(s, results[0])
		if err != nil || !bytes.Equal(got.Append(nil), want.Append(nil)) {
			t.Fatalf("schema %d, %v:\n%x, in Go\n%x", s.ID(), err, results[0], want.Append(nil))
		}
	}
}

// savedSizes returns the sizes of saved states that lie one after another.
func savedSizes(states []byte) (sizes []uint32) {
	for len(states) > 0 {
		size := binary.LittleEndian.Uint32(states)
		sizes, states = append(sizes, size), states[4+size:]
	}
	return sizes
}
