package plugins_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/plugins"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// reading is a record with its number.
type reading struct {
	key     record.Key
	x       float64
	payload []byte
}

// readings returns the records of each group.
func (x *rows) readings(groups [][]reading) {
	for i, g := range x.gid {
		b := &x.batch
		groups[g] = append(groups[g], reading{
			key:     record.Key{MID: b.MID[i], CapNs: b.CapNs[i], AcqNs: b.AcqNs[i]},
			x:       x.numbers[i],
			payload: bytes.Clone(b.Payload(i)),
		})
	}
}

// oracle checks the result of a group against all of its records.
type oracle func(all []reading, result []byte) error

// againstOracle runs an aggregate over random series, cut and merged at random.
func againstOracle(t *testing.T, name string, rounds int,
	choose func(r *rand.Rand, values map[string]string) oracle) {
	t.Helper()
	r := seeded(t)
	m, doc := standard(t, name)
	for round := range rounds {
		s := randomSeries(r, numberTypes()[round%6])
		values := map[string]string{"type": s.kind, "offset": strconv.Itoa(s.offset)}
		check := choose(r, values)
		groups := make([][]reading, s.groups)
		results := mergeTree(t, r, m, encode(t, doc, values), s, func(x *rows) {
			x.readings(groups)
		})
		for i := range groups {
			if err := check(groups[i], results[i]); err != nil {
				t.Fatalf("round %d, %+v, %v: group %d of %d records: %v", round, *s, values, i,
					len(groups[i]), err)
			}
		}
	}
}

// words writes a result of numbers.
func words(values ...any) []byte {
	var out []byte
	for _, v := range values {
		switch v := v.(type) {
		case float64:
			bits := math.Float64bits(v)
			if v != v {
				bits = 0x7ff8 << 48
			}
			out = binary.LittleEndian.AppendUint64(out, bits)
		case int:
			out = binary.LittleEndian.AppendUint64(out, uint64(v))
		case int64:
			out = binary.LittleEndian.AppendUint64(out, uint64(v))
		case uint64:
			out = binary.LittleEndian.AppendUint64(out, v)
		default:
			panic(fmt.Sprintf("BUG: %T is no number", v))
		}
	}
	return out
}

func equal(got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	return fmt.Errorf("result %x, want %x", got, want)
}

func floatAt(result []byte, field int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(result[8*field:]))
}

func uintAt(result []byte, field int) uint64 {
	return binary.LittleEndian.Uint64(result[8*field:])
}

// needed are parameters without a default.
func needed(name string) map[string]string {
	switch name {
	case "gaps":
		return map[string]string{"every": "1", "slots": "128", "unit": "ns", "origin": "-64"}
	case "histogram":
		return map[string]string{"lo": "-100", "hi": "100"}
	}
	return nil
}

// The same records have the same states, bit by bit, in whatever order and batches they come and
// however their parts are merged. Only the last bits of stats depend on that; delta and
// the sealed ones refuse such records and have tests of their own.
func TestOrderDoesNotMatter(t *testing.T) {
	r := seeded(t)
	for _, p := range plugins.Standard() {
		m, doc := standard(t, p.Name)
		if m.Describe().Kinds != plugin.KindAggregate || p.Name == "stats" || p.Name == "delta" ||
			strings.HasPrefix(p.Name, "sealed-") {
			continue
		}
		params := encode(t, doc, needed(p.Name))
		for round := range 6 {
			s := &series{kind: "f64", odd: round%2 == 0, groups: 3, records: 1 + r.IntN(2000)}
			all := s.make(r)
			want := arranged(t, r, m, params, all, s.groups)
			for range 4 {
				if got := arranged(t, r, m, params, all, s.groups); !bytes.Equal(got, want) {
					t.Fatalf("%s, round %d: states %x, in another order %x", p.Name, round, want,
						got)
				}
			}
		}
	}
}

// arranged returns the states of rows that come in random order, in random batches, to random
// instances, which are merged in random order.
func arranged(t *testing.T, r *rand.Rand, m *wasmhost.Module, params []byte, all *rows,
	groups int) []byte {
	t.Helper()
	leaves := make([]*wasmhost.Aggregate, 1+r.IntN(5))
	for i := range leaves {
		leaves[i] = newAggregate(t, m, params)
	}
	b, gid := &record.Batch{}, []uint32(nil)
	for i, row := range r.Perm(all.batch.Len()) {
		k := &all.batch
		b.AppendStamped(record.Key{CID: k.CID[row], MID: k.MID[row], MOID: k.MOID[row],
			CapNs: k.CapNs[row], AcqNs: k.AcqNs[row]}, k.Payload(row))
		gid = append(gid, all.gid[row])
		if r.IntN(200) > 0 && i < all.batch.Len()-1 {
			continue
		}
		leaf := leaves[r.IntN(len(leaves))]
		if err := leaf.Add(t.Context(), b, gid, groups); err != nil {
			t.Fatal(err)
		}
		b, gid = &record.Batch{}, nil
	}
	for len(leaves) > 1 {
		i := r.IntN(len(leaves))
		states := statesOf(t, leaves[i])
		leaves[i].Close()
		leaves = append(leaves[:i], leaves[i+1:]...)
		if err := leaves[r.IntN(len(leaves))].Merge(t.Context(), states, nil); err != nil {
			t.Fatal(err)
		}
	}
	defer leaves[0].Close()
	return statesOf(t, leaves[0])
}
