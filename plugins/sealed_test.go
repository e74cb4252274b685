package plugins_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
	"github.com/pentad-db/pentad/wasmhost"
)

// sealedRows are records of several series and chains, sealed by a schema with every kind of lane.
func sealedRows(t *testing.T, r *rand.Rand, n, groups int) (*seal.Schema, *rows) {
	t.Helper()
	s, err := seal.NewSchema(seal.Definition{ID: 65535, MaxRecords: 1e9,
		MAC: &seal.MAC{Scope: seal.OfTenant}, Fields: []seal.Field{{ID: 3, Name: "x",
			Kind: seal.Number, Max: 1 << 40, Sum: true, SumSquares: true, Histogram: []int64{-5, 5},
			Trend: &seal.Trend{OriginNs: -3, UnitNs: 7, MaxUnits: 1 << 50}},
			{ID: 4, Name: "state", Kind: seal.Number, Max: 3, Sum: true,
				Equal: &seal.Equal{Scope: seal.OfTenant}}}})
	if err != nil {
		t.Fatal(err)
	}
	var keys seal.MemoryKeyring
	keys.Generate(1)
	tenant, err := seal.OpenTenant(&keys, 1, s)
	if err != nil {
		t.Fatal(err)
	}
	out := &rows{}
	for out.batch.Len() < n {
		k := record.Key{CID: 1, MID: int64(r.IntN(3)) - 1, MOID: int32(r.IntN(2))}
		w, err := tenant.NewWriter(context.Background(), s, k.MID, k.MOID)
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + r.IntN(n) {
			k.CapNs = r.Int64N(1e15) - 5e14
			p, err := w.Append(nil, seal.Reading{CapNs: k.CapNs,
				Values: []seal.Value{{Number: r.Int64N(1<<41) - 1<<40}, {Number: r.Int64N(4)}}})
			if err != nil {
				t.Fatal(err)
			}
			if out.batch.Len() < n && r.IntN(10) > 0 {
				out.batch.AppendStamped(k, p)
				out.gid = append(out.gid, uint32(r.IntN(groups)))
			}
		}
	}
	return s, out
}

// TestSealedOrder: the same records have the same sum, whatever order and batches they come in and
// however states are merged, and it is the one that Go makes.
func TestSealedOrder(t *testing.T) {
	r := seeded(t)
	m, doc := standard(t, "sealed-stats")
	const groups = 3
	for range 6 {
		s, all := sealedRows(t, r, 1+r.IntN(2000), groups)
		params := encode(t, doc, map[string]string{"layout": s.Layout()})
		want := canonical(t, s, arranged(t, r, m, params, all, groups))
		for range 2 {
			got := canonical(t, s, arranged(t, r, m, params, all, groups))
			if !bytes.Equal(got, want) {
				t.Fatalf("states %x, in another order %x", want, got)
			}
		}
		partials := make([]*seal.Partial, groups)
		for i := range partials {
			partials[i] = seal.NewPartial(s)
		}
		b := &all.batch
		for i, gid := range all.gid {
			k := b.Key(i)
			if err := partials[gid].Add(k, b.Payload(i)); err != nil {
				t.Fatal(err)
			}
		}
		a := newAggregate(t, m, params)
		if err := a.Add(t.Context(), b, all.gid, groups); err != nil {
			t.Fatal(err)
		}
		results, err := a.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range partials {
			parsed, err := seal.ParsePartial(s, results[i])
			if err != nil {
				t.Fatal(err)
			}
			if want, got := p.Append(nil), parsed.Append(nil); !bytes.Equal(want, got) {
				t.Fatalf("group %d is\n%x, in Go\n%x", i, got, want)
			}
		}
	}
}

// canonical brings saved states into the order that does not depend on how they came about.
func canonical(t *testing.T, s *seal.Schema, states []byte) (out []byte) {
	t.Helper()
	for len(states) > 0 {
		size := binary.LittleEndian.Uint32(states)
		p, err := seal.ParsePartial(s, states[4:4+size])
		if err != nil {
			t.Fatal(err)
		}
		out, states = p.Append(out), states[4+size:]
	}
	return out
}

// TestSealedDuplicates: a record that was added twice is noticed by who reads the sum.
func TestSealedDuplicates(t *testing.T) {
	m, doc := standard(t, "sealed-stats")
	s, all := sealedRows(t, seeded(t), 300, 1)
	params := encode(t, doc, map[string]string{"layout": s.Layout()})
	one, two := newAggregate(t, m, params), newAggregate(t, m, params)
	for _, a := range []*wasmhost.Aggregate{one, two} {
		if err := a.Add(t.Context(), &all.batch, all.gid, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := one.Merge(t.Context(), statesOf(t, two), nil); err != nil {
		t.Fatal(err)
	}
	results, err := one.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := seal.ParsePartial(s, results[0]); !errors.Is(err, seal.ErrDuplicate) {
		t.Errorf("each record twice: %v", err)
	}
}

// TestSealedFuel: the dearest of records leave a part of the fuel of each call.
func TestSealedFuel(t *testing.T) {
	m, doc := standard(t, "sealed-stats")
	s, all := sealedRows(t, seeded(t), 20_000, 1)
	sealedFuel(t, m, encode(t, doc, map[string]string{"layout": s.Layout()}), all)
}

// sealedFuel has a module add up records of which each is of another chain, and some with numbers
// that descend.
func sealedFuel(t *testing.T, m *wasmhost.Module, params []byte, all *rows) {
	t.Helper()
	r, worst := seeded(t), 0.0
	for name, key := range map[string]func(i int, p []byte){
		"chains": func(i int, p []byte) {
			p[8], p[9], p[10] = byte(i), byte(i>>8), byte(r.IntN(256))
		},
		"numbers that descend": func(i int, p []byte) {
			n := uint32(1_000_000 - 2*i)
			p[8], p[16], p[17], p[18] = 1, byte(n), byte(n>>8), byte(n>>16)
			clear(p[9:16])
		},
		"as many numbers in no order as are sorted": func(i int, p []byte) {
			binary.LittleEndian.PutUint32(p[16:], uint32(1+2*r.IntN(1<<30)))
			clear(p[8:16])
			p[8] = byte(1 + i/8000)
		},
	} {
		a, other := newAggregate(t, m, params), newAggregate(t, m, params)
		for from := 0; from < all.batch.Len(); {
			to := min(from+1+r.IntN(2000), all.batch.Len())
			b := &record.Batch{}
			for i := from; i < to; i++ {
				p := bytes.Clone(all.batch.Payload(i))
				key(i, p)
				k := all.batch.Key(i)
				k.MID, k.MOID = 1, 1
				b.AppendStamped(k, p)
			}
			if err := a.Add(t.Context(), b, nil, 1); err != nil {
				t.Fatalf("%s, from %d: %v", name, from, err)
			}
			from = to
		}
		if err := other.Merge(t.Context(), statesOf(t, a), nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := other.Finish(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		worst = max(worst, use(a.Usage()), use(other.Usage()))
	}
	t.Logf("a call used %.0f %% of its fuel", 100*worst)
	if worst > 0.9 {
		t.Errorf("a call may use up to %.0f %% of its fuel", 100*worst)
	}
}

// groupParams are the parameters of sealed-group for the field state.
func groupParams(t *testing.T, s *seal.Schema, doc *plugin.Doc) []byte {
	t.Helper()
	at, err := s.TagOffset("state")
	if err != nil {
		t.Fatal(err)
	}
	return encode(t, doc, map[string]string{"layout": s.Layout(), "tag": strconv.Itoa(at)})
}

// TestSealedGroupOrder: the sums of tags are the same in whatever order and batches records come
// and however states are merged, and each is that of the records with the tag.
func TestSealedGroupOrder(t *testing.T) {
	r := seeded(t)
	m, doc := standard(t, "sealed-group")
	const groups = 2
	for range 3 {
		s, all := sealedRows(t, r, 1+r.IntN(1000), groups)
		params := groupParams(t, s, doc)
		at, _ := s.TagOffset("state")
		want := make([]map[[8]byte]*seal.Partial, groups)
		for i := range want {
			want[i] = map[[8]byte]*seal.Partial{}
		}
		for i, gid := range all.gid {
			payload := all.batch.Payload(i)
			tag := [8]byte(payload[at:])
			if want[gid][tag] == nil {
				want[gid][tag] = seal.NewPartial(s)
			}
			if err := want[gid][tag].Add(all.batch.Key(i), payload); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			states := arranged(t, r, m, params, all, groups)
			for i := range want {
				size := binary.LittleEndian.Uint32(states)
				parsed, err := seal.ParseGroups(s, states[4:4+size])
				if err != nil || len(parsed) != len(want[i]) {
					t.Fatalf("%d groups, want %d, %v", len(parsed), len(want[i]), err)
				}
				written := seal.AppendGroups(nil, s, parsed)
				again, err := seal.ParseGroups(s, written)
				if err != nil || !bytes.Equal(seal.AppendGroups(nil, s, again), written) {
					t.Fatalf("groups that were written and read differ: %v", err)
				}
				for _, g := range parsed {
					if [8]byte(g.Payload[at:]) != g.Tag || !bytes.Equal(g.Partial.Append(nil),
						want[i][g.Tag].Append(nil)) {
						t.Fatalf("tag %x: the sum or the example is that of others", g.Tag)
					}
				}
				states = states[4+size:]
			}
		}
	}
}

// TestSealedGroupFuel: records of which each has a tag and a chain of its own leave a part of the
// fuel of each call.
func TestSealedGroupFuel(t *testing.T) {
	m, doc := standard(t, "sealed-group")
	s, all := sealedRows(t, seeded(t), 3000, 1)
	at, _ := s.TagOffset("state")
	a, other := newAggregate(t, m, groupParams(t, s, doc)),
		newAggregate(t, m, groupParams(t, s, doc))
	for from := 0; from < all.batch.Len(); from += 500 {
		b := &record.Batch{}
		for i := from; i < min(from+500, all.batch.Len()); i++ {
			p := bytes.Clone(all.batch.Payload(i))
			p[at], p[at+1], p[8], p[9] = byte(i), byte(i>>8), byte(i), byte(i>>8)
			b.AppendStamped(all.batch.Key(i), p)
		}
		if err := a.Add(t.Context(), b, nil, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Merge(t.Context(), statesOf(t, a), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if worst := max(use(a.Usage()), use(other.Usage())); worst > 0.9 {
		t.Errorf("a call may use up to %.0f %% of its fuel", 100*worst)
	} else {
		t.Logf("a call used %.0f %% of its fuel", 100*worst)
	}
}
