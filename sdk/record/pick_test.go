package record

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Records that are picked are those of the batch, one by one, in any form of payloads.
func TestAppendPicked(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		var src, dst Batch
		stamped := rng.IntN(2) == 0
		for i := range 1 + rng.IntN(200) {
			k := Key{CID: int32(i), MID: int64(i), MOID: int32(-i), CapNs: int64(i)}
			payload := make([]byte, 3+rng.IntN(3)*(round%2))
			payload[0] = byte(i)
			if stamped {
				k.AcqNs = int64(1000 + i)
			}
			switch tomb := rng.IntN(9) == 0; {
			case tomb && stamped:
				src.AppendStampedTomb(k)
			case tomb:
				src.AppendTomb(k)
			case stamped:
				src.AppendStamped(k, payload)
			default:
				src.Append(k, payload)
			}
		}
		var rows []uint32
		for range rng.IntN(300) {
			rows = append(rows, uint32(rng.IntN(src.Len())))
		}
		dst.AppendPicked(&src, rows)
		if err := dst.CheckShape(); err != nil || dst.Len() != len(rows) {
			t.Fatalf("round %d: %d rows, want %d, %v", round, dst.Len(), len(rows), err)
		}
		for k, i := range rows {
			got, want := dst.Record(k), src.Record(int(i))
			if got.Key != want.Key || got.Tomb != want.Tomb ||
				!bytes.Equal(got.Payload, want.Payload) {
				t.Fatalf("round %d: row %d is %+v, want %+v", round, k, got, want)
			}
		}
	}
}
