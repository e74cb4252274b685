package wire

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// modelColumn writes a column bit by bit, as PROTOCOL.md says it.
func modelColumn(codec byte, width uint, base, least uint64, packed []uint64) []byte {
	out := binary.LittleEndian.AppendUint64([]byte{codec, byte(width)}, base)
	if codec == codecDelta {
		out = binary.LittleEndian.AppendUint64(out, least)
	}
	body := make([]byte, (len(packed)*int(width)+7)/8)
	for i, v := range packed {
		for bit := range width {
			at := uint(i)*width + bit
			body[at/8] |= byte(v>>bit&1) << (at % 8)
		}
	}
	return append(out, body...)
}

// readColumn reads a column and wants nothing left.
func readColumn(t *testing.T, src []byte, n int) []uint64 {
	t.Helper()
	var c columns
	d := &decoder{src: src}
	if err := c.parse(d, n); err != nil || len(d.src) != 0 {
		t.Fatalf("%d values of %x: %v, %d bytes left", n, src, err, len(d.src))
	}
	return c.values
}

// TestColumnsOfEveryWidth reads both codecs in every width against the model, with sums that wrap.
func TestColumnsOfEveryWidth(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for width := range uint(65) {
		mask := uint64(1)<<width - 1 // all ones for 64
		for n := range 40 {
			base, least := rng.Uint64(), rng.Uint64()
			packed := make([]uint64, n+1)
			fixed, delta := make([]uint64, n+1), []uint64{base}
			for i := range packed {
				packed[i] = rng.Uint64() & mask
				fixed[i] = base + packed[i]
				if i > 0 {
					delta = append(delta, delta[i-1]+least+packed[i-1])
				}
			}
			src := modelColumn(codecFOR, width, base, 0, packed)
			if width > maxWidth && width < 64 {
				var c columns
				if err := c.parse(&decoder{src: src}, n+1); kindOf(err) != KindBadFrame {
					t.Fatalf("width %d: %v", width, err)
				}
				continue
			}
			if got := readColumn(t, src, n+1); !slices.Equal(got, fixed) {
				t.Fatalf("width %d: %v, want %v", width, got, fixed)
			}
			src = modelColumn(codecDelta, width, base, least, packed[:n])
			if got := readColumn(t, src, n+1); !slices.Equal(got, delta) {
				t.Fatalf("steps of width %d: %v, want %v", width, got, delta)
			}
			for cut := range src {
				var c columns
				if c.parse(&decoder{src: src[:cut]}, n+1) == nil {
					t.Fatalf("width %d, %d values cut at %d: no error", width, n+1, cut)
				}
			}
		}
	}
}

// TestColumnChoice wants the bytes that the model writes for the codec that is smaller.
func TestColumnChoice(t *testing.T) {
	f := func(codec byte, width uint, values ...int64) {
		t.Helper()
		in := make([]uint64, len(values))
		for i, v := range values {
			in[i] = uint64(v)
		}
		base, least, packed := uint64(slices.Min(values)), uint64(0), slices.Clone(in)
		if codec == codecDelta {
			steps := make([]int64, len(values)-1)
			for i := range steps {
				steps[i] = int64(in[i+1] - in[i])
			}
			base, least, packed = in[0], uint64(slices.Min(steps)), nil
			for _, step := range steps {
				packed = append(packed, uint64(step)-least)
			}
		} else {
			for i := range packed {
				packed[i] -= base
			}
		}
		var c columns
		got := c.append(nil, in)
		if want := modelColumn(codec, width, base, least, packed); !slices.Equal(got, want) {
			t.Errorf("%v: %x, want %x", values, got, want)
		}
		if back := readColumn(t, got, len(in)); !slices.Equal(back, in) {
			t.Errorf("%v read back is %v", values, back)
		}
	}
	const lo, hi = math.MinInt64, math.MaxInt64
	f(codecFOR, 0, 0)
	f(codecFOR, 0, lo)
	f(codecFOR, 0, hi)
	f(codecFOR, 0, -1, -1, -1)
	f(codecFOR, 1, -1, 0)
	f(codecDelta, 0, lo, hi) // one step of -1
	f(codecFOR, 64, hi, lo, 0, -1)
	f(codecFOR, 56, 0, 1<<56-1, 0, 3)
	f(codecFOR, 64, 0, 1<<56, 0, 3)
	f(codecFOR, 7, 0, 100, 3, 90)
	f(codecFOR, 5, 0, 10, 20, 30) // no space for the step
	f(codecDelta, 0, 0, 1<<40, 2<<40, 3<<40)
	f(codecDelta, 0, 0, -1<<40, -2<<40, -3<<40)
	f(codecDelta, 0, hi-1, hi, lo, lo+1) // wraps around
	f(codecDelta, 1, lo, lo+1<<50, lo+2<<50, lo+3<<50+1)
}

// TestColumnsRoundTrip writes and reads columns of every shape and length.
func TestColumnsRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var c columns
	for i := range 4000 {
		n := 1 + rng.IntN(1<<rng.IntN(9))
		in := make([]uint64, n)
		for k, v := range numbers(rng, n, math.MinInt64, math.MaxInt64) {
			in[k] = uint64(v)
		}
		before := []byte("before")
		got := c.append(before, in)
		if string(got[:len(before)]) != "before" {
			t.Fatalf("column %d overwrites what it is appended to", i)
		}
		if back := readColumn(t, got[len(before):], n); !slices.Equal(back, in) {
			t.Fatalf("column %d of %d values differs", i, n)
		}
	}
}

// FuzzColumnWriter writes any numbers and reads them back.
func FuzzColumnWriter(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, false)
	f.Add([]byte("0123456701234567012345670123456"), true)
	f.Fuzz(func(t *testing.T, src []byte, sums bool) {
		var in []uint64
		sum := uint64(0)
		for ; len(src) >= 8 && len(in) < MaxRows; src = src[8:] {
			v := binary.LittleEndian.Uint64(src)
			if sum += v; sums {
				v = sum
			}
			in = append(in, v)
		}
		if len(in) == 0 {
			return
		}
		var c columns
		if got := readColumn(t, c.append(nil, in), len(in)); !slices.Equal(got, in) {
			t.Fatalf("%v, want %v", got, in)
		}
	})
}
