package queryflags

import (
	"encoding/binary"
	"math"
	"testing"
)

func TestLikelyType(t *testing.T) {
	f := func(payload []byte, want string) {
		t.Helper()
		if got := likelyType(payload); got != want {
			t.Errorf("%x: %s, want %s", payload, got, want)
		}
	}
	u32, u64 := binary.LittleEndian.AppendUint32, binary.LittleEndian.AppendUint64
	f(u64(nil, math.Float64bits(21.5)), "f64")
	f(u64(nil, 0), "f64")
	f(u64(nil, 42), "i64")
	f(u64(nil, math.MaxUint64), "i64") // -1
	f(u32(nil, math.Float32bits(21.5)), "f32")
	f(u32(nil, 42), "i32")
	f(u32(nil, math.MaxUint32), "i32")
	f([]byte("valve open"), "text")
	f([]byte{0xff}, "bytes")
}
