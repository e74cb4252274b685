package plugins_test

import (
	"encoding/binary"
	"strconv"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestReadable: payloads of random lengths, of one and of many, are kept if the number does not end
// behind them.
func TestReadable(t *testing.T) {
	r := seeded(t)
	m, doc := standard(t, "readable")
	sizes := map[string]int{"f64": 8, "f32": 4, "i64": 8, "i32": 4, "u32": 4, "text": 1}
	for round := range 120 {
		kind, offset := numberTypes()[round%6], r.IntN(6)
		var b record.Batch
		same := r.IntN(16)
		for i := range 1 + r.IntN(300) {
			size := same
			if round%2 == 0 {
				size = r.IntN(16)
			}
			payload := binary.BigEndian.AppendUint64([]byte("12345678"), 0x3132333435363738)
			b.AppendStamped(record.Key{CapNs: int64(i), AcqNs: 1}, payload[:size])
		}
		for _, kept := range []string{"readable", "others"} {
			f, err := m.NewFilter(t.Context(), encode(t, doc, map[string]string{"type": kind,
				"offset": strconv.Itoa(offset), "keep": kept}))
			if err != nil {
				t.Fatal(err)
			}
			keep := make([]uint64, (b.Len()+63)/64)
			if err := f.Keep(t.Context(), &b, keep); err != nil {
				t.Fatal(err)
			}
			f.Close()
			for i := range b.Len() {
				want := len(b.Payload(i)) >= offset+sizes[kind]
				if got := keep[i/64]>>(i%64)&1 != 0; got != (want == (kept == "readable")) {
					t.Fatalf("round %d, %s at %d, %d bytes, keep=%s: kept is %v", round, kind,
						offset, len(b.Payload(i)), kept, got)
				}
			}
		}
	}
}
