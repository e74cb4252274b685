package sector

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// What is masked twice is as before, whole and in part; no sector of usual data is near zero
// once it is masked.
func TestMask(t *testing.T) {
	for n := range 1100 {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(rand.Uint32())
		}
		was := bytes.Clone(p)
		Mask(p)
		if n > 0 && bytes.Equal(p, was) {
			t.Fatalf("%d bytes are not masked", n)
		}
		part := bytes.Clone(p[n/2:])
		MaskFrom(part, int64(n/2))
		if !bytes.Equal(part, was[n/2:]) {
			t.Fatalf("the end of %d bytes is not what it was", n)
		}
		Mask(p)
		if !bytes.Equal(p, was) {
			t.Fatalf("%d bytes are not what they were", n)
		}
	}
	for b := range 256 {
		p := bytes.Repeat([]byte{byte(b)}, 4*Size)
		Mask(p)
		if n := NearZero(p); n != 0 {
			t.Errorf("bytes of %02x: %d near-zero sectors", b, n)
		}
	}
}

func TestSectorsAreCounted(t *testing.T) {
	f := func(nearZero, zero uint32, set ...int) {
		t.Helper()
		p := make([]byte, 3*Size+100)
		for _, bit := range set {
			p[bit/8] ^= 1 << (bit % 8)
		}
		if NearZero(p) != nearZero || Zero(p) != zero {
			t.Errorf("bits %v: %d near-zero and %d zero sectors, want %d and %d", set, NearZero(p),
				Zero(p), nearZero, zero)
		}
	}
	const sector = 8 * Size
	f(4, 4)
	f(4, 3, 0)
	f(4, 3, sector-1)
	f(3, 3, 0, 1)
	f(3, 3, sector, 2*sector-1)
	f(4, 2, sector-1, sector)
	f(4, 3, 3*sector+799)
	f(3, 3, 3*sector, 3*sector+799)
}

func BenchmarkMask(b *testing.B) {
	p := make([]byte, 1<<20)
	b.SetBytes(1 << 20)
	for b.Loop() {
		Mask(p)
	}
}

func BenchmarkWeak(b *testing.B) {
	p := make([]byte, 1<<20)
	Mask(p)
	b.SetBytes(1 << 20)
	for b.Loop() {
		NearZero(p)
	}
}
