package node

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// evenParts are as many groups as a cluster may begin with.
func evenParts(groups int) *slots.Map {
	ranges := make([]slots.Range, groups)
	for g := range ranges {
		ranges[g].From, ranges[g].To = slots.Span(g, groups)
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
				b.Append(k, f64(float64(i)))
			}
		}
		parts := splitByGroup(&b, evenParts(groups))
		for g, rows := range rowsByGroup(&b, evenParts(groups)) {
			if parts[g] == nil {
				continue
			}
			w := store.WriterSeq{ID: [16]byte{1}, Seq: 7}
			want, err := store.AppendPut(nil, parts[g], w)
			got := store.AppendPutRows(nil, &b, rows, w)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("of %d groups: the command of rows of group %d differs from that of "+
					"its part; %v", groups, g, err)
			}
		}
		at := make([]int, groups) // of each part
		for i := range b.Len() {
			g := slots.Part(slots.Of(b.CID[i], b.MID[i]), groups)
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
