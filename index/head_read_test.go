package index

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestReadHeads reads heads of different devices as one, beside a head that has all rows.
func TestReadHeads(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for round := range 60 {
		heads, one := make([]*Head, 1+rng.IntN(7)), NewHead(NewWatermarks())
		for i := range heads {
			heads[i] = NewHead(NewWatermarks())
		}
		var all record.Batch
		varied, tombs, acq := round%3 == 1, round%3 == 2, int64(0)
		for range rng.IntN(20) {
			insertSome(rng, heads, one, &all, &acq, varied, tombs)
		}
		var got record.Batch
		if round%2 == 0 { // the memory of other rows
			got.Append(record.Key{CID: 9}, []byte("before"))
		}
		flags, ranks := ReadHeads(heads, &got)
		if got.Len() != all.Len() || !slices.Equal(got.AcqNs, all.AcqNs) {
			t.Fatalf("%d rows of %d heads, want %d", got.Len(), len(heads), all.Len())
		}
		for i := range all.Len() {
			if got.Key(i) != all.Key(i) || got.Tomb(i) != all.Tomb(i) ||
				string(got.Payload(i)) != string(all.Payload(i)) {
				t.Fatalf("row %d is %+v, want %+v", i, got.Record(i), all.Record(i))
			}
		}
		if len(heads) == 1 {
			continue
		}
		want := one.ReadAll(new(record.Batch)) // watermarks of one head may flag more rows
		var confirmed []uint32
		for i, h := range heads {
			own := h.ReadAll(new(record.Batch))
			if len(ranks[i]) != h.Rows() {
				t.Fatalf("%d ranks of %d rows", len(ranks[i]), h.Rows())
			}
			for k, rank := range ranks[i] {
				if hasBit(own, k) != hasBit(flags, int(rank)) ||
					hasBit(own, k) && !hasBit(want, int(rank)) {
					t.Fatalf("row %d of head %d: flagged %v", k, i, hasBit(own, k))
				}
			}
			confirmed = append(confirmed, ranks[i]...)
		}
		slices.Sort(confirmed)
		for i, rank := range confirmed {
			if int(rank) != i {
				t.Fatalf("rank %d comes after %d", rank, i)
			}
		}
	}
}

// insertSome inserts some rows into the heads of their devices, into one head and into a batch.
func insertSome(
	rng *rand.Rand, heads []*Head, one *Head, all *record.Batch, acq *int64, varied, tombs bool,
) {
	parts, some := make([]record.Batch, len(heads)), record.Batch{}
	for range 1 + rng.IntN(500) {
		*acq += 1 + int64(rng.IntN(2))
		k := record.Key{CID: int32(rng.IntN(3)), MID: int64(rng.IntN(40)), MOID: 1,
			CapNs: int64(rng.IntN(30)), AcqNs: *acq}
		payload := make([]byte, 8)
		if varied {
			payload = payload[:rng.IntN(8)]
		}
		for i := range payload {
			payload[i] = byte(rng.IntN(256))
		}
		for _, b := range []*record.Batch{&parts[int(k.MID)%len(heads)], &some, all} {
			if tombs && k.CapNs%3 == 0 {
				b.AppendStampedTomb(k)
			} else {
				b.AppendStamped(k, payload)
			}
		}
	}
	one.Insert(&some)
	for i := range parts {
		if parts[i].Len() > 0 {
			heads[i].Insert(&parts[i])
		}
	}
}
