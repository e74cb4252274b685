package segment

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestPayloadPrefix: of two prefixes the longer one is read, and all where one is not bounded.
func TestPayloadPrefix(t *testing.T) {
	f := func(p, q Columns, want Columns) {
		t.Helper()
		if got := p.Union(q); got != want {
			t.Errorf("%x and %x: got %x, want %x", p, q, got, want)
		}
		if got := q.Union(p); got != want {
			t.Errorf("%x and %x: got %x, want %x", q, p, got, want)
		}
	}
	f(Payloads.PayloadPrefix(8), Payloads.PayloadPrefix(17), Payloads.PayloadPrefix(24))
	f(Payloads.PayloadPrefix(8), Payloads, Payloads)
	f(Payloads.PayloadPrefix(8), Keys, AllColumns.PayloadPrefix(1))
	f(AllColumns.PayloadPrefix(512), 0, AllColumns.PayloadPrefix(505))
	f(Payloads.PayloadPrefix(513), 1, Payloads|1)
	f(Keys.PayloadPrefix(8), 0, Keys)
	if p := Payloads.PayloadPrefix(64).PayloadPrefix(8); p != Payloads.PayloadPrefix(8) {
		t.Errorf("a prefix of a prefix is %x", p)
	}
}

// TestGatherFront: of payloads of words the first ones are gathered, in any form of positions.
func TestGatherFront(t *testing.T) {
	rng := randomSource(t)
	in := &SealedInput{Meta: []byte("{}"), Rows: &record.Batch{}}
	for i := range 1000 {
		payload := binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(i)/8))
		payload = binary.LittleEndian.AppendUint64(payload, uint64(i)<<40)
		in.Rows.AppendStamped(record.Key{AcqNs: int64(i)}, append(payload, make([]byte, 8)...))
		in.Order = append(in.Order, uint32(i))
	}
	in.BlockEnds = []uint32{1000}
	b := firstBlock(t, mustSeal(t, in))
	for range 50 {
		prefix := rng.IntN(30)
		want := prefix + -prefix&7
		if prefix == 0 || prefix > 24 {
			want = 24
		}
		p := randomPositions(rng, 1000)
		var dst record.Batch
		err := b.GatherColumns(p.sel, p.spans, Payloads.PayloadPrefix(uint32(prefix)), &dst)
		if err != nil || p.n > 0 && dst.Stride != want {
			t.Fatalf("prefix of %d: payloads of %d bytes, %v; want %d", prefix, dst.Stride, err,
				want)
		}
		for k, i := range p.all() {
			if got := dst.Payload(k); !bytes.Equal(got, in.Rows.Payload(i)[:want]) {
				t.Fatalf("prefix of %d: payload %d is %x, want the start of %x", prefix, i, got,
					in.Rows.Payload(i))
			}
		}
	}
}
