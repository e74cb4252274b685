package digest

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/zeebo/xxh3"
)

// A digest is the sum of the hashes of its rows, done stupidly, in whatever order they come and
// however they are divided.
func TestAdd(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := &record.Batch{}
	want := Slice{FromNs: 0, ToNs: 100}
	for range 50 {
		k := record.Key{CID: int32(rng.Uint32() >> 1), MID: int64(rng.Uint64()),
			MOID: int32(rng.Uint32()), CapNs: int64(rng.Uint64()), AcqNs: rng.Int64N(100)}
		payload := make([]byte, rng.IntN(40))
		b.AppendStamped(k, payload)
		var text []byte
		for _, part := range []any{k.CID, k.MID, k.MOID, k.CapNs, k.AcqNs, false} {
			text, _ = binary.Append(text, binary.LittleEndian, part)
		}
		h := xxh3.Hash128(append(text, payload...))
		before := want.Sum[0]
		want.Sum[0] += h.Lo
		want.Sum[1] += h.Hi
		if want.Sum[0] < before {
			want.Sum[1]++
		}
		want.Rows++
		want.Bytes += uint64(len(payload))
	}
	a := &Adder{Slices: Slices([]int64{0, 30, 60, 100})}
	if err := a.Add(b); err != nil {
		t.Fatal(err)
	}
	got := Slice{FromNs: 0, ToNs: 100}
	for i := range a.Slices {
		got.Merge(&a.Slices[i])
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
