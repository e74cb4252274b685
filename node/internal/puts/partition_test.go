package puts

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/sdk/record"
)

// evenParts are as many groups as a cluster may begin with.
func evenParts(groups int) *slots.Map {
	ranges := make([]slots.Range, groups)
	for i := range ranges {
		ranges[i] = slots.GroupSpan(slots.GroupID(i+1), groups)
	}
	m, _ := slots.NewMap(ranges)
	return m
}

func TestSplitByGroup(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, groups := range []int{1, 2, 16, 4096} {
		var b record.Batch
		for i := range 3000 {
			k := record.Key{CID: rng.Int32N(2), MID: rng.Int64N(1000), MOID: 1, CapNs: int64(i)}
			if rng.IntN(3) == 0 && i > 0 {
				k.CID, k.MID = b.CID[i-1], b.MID[i-1]
			}
			if rng.IntN(9) == 0 {
				b.AppendTomb(k)
			} else {
				b.Append(k, binary.LittleEndian.AppendUint64(nil, uint64(i)))
			}
		}
		parts := SplitByGroup(&b, evenParts(groups))
		for g, rows := range rowsByGroup(&b, evenParts(groups)) {
			if parts[g] == nil {
				continue
			}
			w := store.WriterSeq{ID: [16]byte{1}, Seq: 7}
			want, err := commands.AppendPut(nil, parts[g], w)
			got := commands.AppendPutRows(nil, &b, rows, w)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("of %d groups: the command of rows of group %d differs from that of "+
					"its part; %v", groups, g, err)
			}
		}
		owners := evenParts(groups)
		at := make([]int, groups+1) // of each part
		for i := range b.Len() {
			g := owners.Group(slots.Of(b.CID[i], b.MID[i]))
			if parts[g] == nil || at[g] == parts[g].Len() {
				t.Fatalf("of %d groups: row %d is not in part %d", groups, i, g)
			}
			got, want := parts[g].Record(at[g]), b.Record(i)
			if got.Key != want.Key || got.Tomb != want.Tomb ||
				string(got.Payload) != string(want.Payload) {
				t.Fatalf("of %d groups: row %d of part %d is %+v, want %+v", groups, at[g], g, got,
					want)
			}
			at[g]++
		}
		for g, part := range parts {
			if part != nil && (part.Len() == 0 || part.Len() != at[g]) {
				t.Fatalf("of %d groups: part %d has %d rows, want %d", groups, g, part.Len(), at[g])
			}
		}
	}
}

// Rows by slot are those by group, those of a slot in their order and next to each other.
func TestRowsBySlot(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, groups := range []int{1, 3, 16, 4096} {
		for _, n := range []int{0, 1, 2, 3000} {
			var b record.Batch
			for i := range n {
				k := record.Key{CID: rng.Int32N(2), MID: rng.Int64N(1 << 20), CapNs: int64(i)}
				if rng.IntN(2) == 0 && i > 0 {
					k.CID, k.MID = b.CID[rng.IntN(i)], b.MID[rng.IntN(i)]
				}
				b.Append(k, nil)
			}
			owners := evenParts(groups)
			want := rowsByGroup(&b, owners)
			for g, rows := range RowsBySlot(&b, owners) {
				slot := func(i uint32) uint32 { return slots.Of(b.CID[i], b.MID[i]) }
				slices.SortStableFunc(want[g], func(x, y uint32) int {
					return cmp.Compare(slot(x), slot(y))
				})
				if !slices.Equal(rows, want[g]) {
					t.Fatalf("%d rows: group %d of %d has %v, want %v", n, g, groups, rows, want[g])
				}
			}
		}
	}
}

func BenchmarkRowsBySlot(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	var rows record.Batch
	for range 10_000 {
		rows.Append(record.Key{CID: 1, MID: rng.Int64N(4000), MOID: 1}, nil)
	}
	owners := evenParts(16)
	for b.Loop() {
		RowsBySlot(&rows, owners)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows.Len()), "ns/row")
}
