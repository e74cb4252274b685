package record

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTombs holds batches of records and tombstones against a slice, while records are removed and
// batches are copied row by row.
func TestTombs(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var b, second Batch
	for range 500 {
		b.Reset()
		var want []Record
		size, ragged, share := rng.IntN(300)*rng.IntN(2), rng.IntN(2) == 0, rng.IntN(5)
		for range rng.IntN(200) {
			if ragged && rng.IntN(20) == 0 {
				size = rng.IntN(300)
			}
			r := Record{Key: Key{CID: 1, MID: rng.Int64(), AcqNs: rng.Int64()}}
			if r.Tomb = rng.IntN(4) < share; r.Tomb {
				b.AppendStampedTomb(r.Key)
			} else {
				r.Payload = make([]byte, size)
				for i := range r.Payload {
					r.Payload[i] = byte(rng.Uint32())
				}
				b.AppendStamped(r.Key, r.Payload)
			}
			want = append(want, r)
		}
		sameRecords(t, &b, want)
		second.Reset()
		for i := range b.Len() {
			second.AppendRow(&b, i)
		}
		sameRecords(t, &second, want)
		keep := 0
		var kept []Record
		for i, r := range want {
			if rng.IntN(3) > 0 {
				if keep != i {
					b.Move(keep, i)
				}
				keep++
				kept = append(kept, r)
			}
		}
		b.Truncate(keep)
		sameRecords(t, &b, kept)
		b.AppendStamped(Key{CID: 1}, []byte{1})
		sameRecords(t, &b, append(kept, Record{Key: Key{CID: 1}, Payload: []byte{1}}))
	}
}

func sameRecords(t *testing.T, b *Batch, want []Record) {
	t.Helper()
	if len(want) > 0 {
		if err := b.Validate(); err != nil {
			t.Fatal(err)
		}
	}
	if b.Len() != len(want) {
		t.Fatalf("%d records, want %d", b.Len(), len(want))
	}
	tombs := 0
	for i, r := range want {
		got := b.Record(i)
		if got.Key != r.Key || got.Tomb != r.Tomb || !slices.Equal(got.Payload, r.Payload) {
			t.Fatalf("record %d is %+v, want %+v", i, got, r)
		}
		if r.Tomb {
			tombs++
		}
	}
	if b.CountTombs() != tombs {
		t.Fatalf("%d tombstones, want %d", b.CountTombs(), tombs)
	}
}

// TestTombsKeepBatchesDense is about what tombstones cost among payloads of one size.
func TestTombsKeepBatchesDense(t *testing.T) {
	f := func(size int, dense bool) {
		t.Helper()
		for _, first := range []bool{true, false} {
			var b Batch
			if first {
				b.AppendTomb(Key{})
			}
			b.Append(Key{}, make([]byte, size))
			b.AppendTomb(Key{})
			b.Append(Key{}, make([]byte, size))
			if (b.Offsets == nil) != dense {
				t.Errorf("%d bytes: stride %d, offsets %v", size, b.Stride, b.Offsets)
			}
		}
	}
	f(8, true)
	f(maxTombBytes, true)
	f(maxTombBytes+1, false)
}

// TestTombsAreEmpty refuses tombstones that carry something, and bits without a record.
func TestTombsAreEmpty(t *testing.T) {
	var b Batch
	b.Append(Key{}, []byte{1})
	b.SetTomb(0)
	refused(t, "payload", b.Validate(), "payload", Inconsistent, "a tombstone has no payload")
	b.Data[0] = 0
	if err := b.Validate(); err != nil || b.Payload(0) != nil {
		t.Error(b.Payload(0), err)
	}
	b.SetTomb(1)
	refused(t, "bits", b.CheckShape(), "batch", Inconsistent, "beyond 1 records")
	b.Tombs = []uint64{1, 0}
	refused(t, "words", b.CheckShape(), "batch", Inconsistent, "beyond 1 records")
	b.Reset()
	b.Append(Key{}, nil)
	if b.Tomb(0) {
		t.Error("a batch that was reset remembers tombstones")
	}
}
