package record

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestAppendRows joins random parts of random batches and compares record by record.
func TestAppendRows(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		stamped := rng.IntN(2) == 0
		var got, want Batch
		for range 1 + rng.IntN(4) {
			var src Batch
			size, varied, tombs := rng.IntN(3)*4, rng.IntN(2) == 0, rng.IntN(4)
			for i := range rng.IntN(20) {
				if varied {
					size = rng.IntN(9)
				}
				k := Key{CID: int32(i), MID: rng.Int64N(9), MOID: int32(rng.IntN(9)),
					CapNs: rng.Int64N(99)}
				payload := bytes.Repeat([]byte{byte(rng.IntN(256))}, size)
				if stamped {
					k.AcqNs = rng.Int64N(99)
				}
				switch tomb := rng.IntN(3) < tombs; {
				case stamped && tomb:
					src.AppendStampedTomb(k)
				case stamped:
					src.AppendStamped(k, payload)
				case tomb:
					src.AppendTomb(k)
				default:
					src.Append(k, payload)
				}
			}
			from := rng.IntN(src.Len() + 1)
			to := from + rng.IntN(src.Len()-from+1)
			got.AppendRows(&src, from, to)
			for i := from; i < to; i++ {
				want.AppendRow(&src, i)
			}
		}
		if err := got.CheckShape(); err != nil || got.Len() != want.Len() {
			t.Fatalf("%d records, want %d: %v", got.Len(), want.Len(), err)
		}
		for i := range want.Len() {
			if got.Key(i) != want.Key(i) || got.Tomb(i) != want.Tomb(i) ||
				!bytes.Equal(got.Payload(i), want.Payload(i)) {
				t.Fatalf("record %d is %+v, want %+v", i, got.Record(i), want.Record(i))
			}
		}
	}
}

// TestAppendRowsKeepsStamps: stamps that were laid ready are not touched.
func TestAppendRowsKeepsStamps(t *testing.T) {
	var src Batch
	src.AppendStamped(Key{AcqNs: 9}, nil)
	b := Batch{AcqNs: make([]int64, 2)}
	b.AppendRows(&src, 0, 1)
	b.AppendRows(&src, 0, 1)
	if len(b.AcqNs) != 2 || b.AcqNs[0] != 0 || b.Len() != 2 {
		t.Fatalf("%d records with stamps %v", b.Len(), b.AcqNs)
	}
}
