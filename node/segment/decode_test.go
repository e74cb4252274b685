package segment

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
)

// randomColumn returns one of a width and a kind whose values are any, and few of the decimals too
// large for vectors.
func randomColumn(rng *rand.Rand, width int, kind uint8, rows int) column {
	c := column{forCoding: forCoding{base: rng.Uint64(), gcd: 1, width: uint8(width)}, kind: kind,
		body: make([]byte, (rows*width+7)/8+paddingBytes)}
	for i := range c.body {
		c.body[i] = byte(rng.Uint32())
	}
	c.maxPacked = c.mask()
	switch kind {
	case columnDict:
		c.base, c.dict = 0, make([]byte, 8<<width)
		for i := range c.dict {
			c.dict[i] = byte(rng.Uint32())
		}
		return c
	case columnDec:
		c.exponent = uint8(rng.IntN(len(powersOf10)))
		c.base = uint64(rng.Int64()) >> rng.IntN(64)
		if rng.IntN(2) == 0 {
			c.base = -c.base
		}
	}
	if rng.IntN(2) == 0 {
		c.gcd = 1 + rng.Uint64()>>rng.IntN(64)>>1
	}
	return c
}

// randomPositions returns positions of rows in ascending order, thinly or densely, or spans.
func randomPositions(rng *rand.Rand, rows int) (p positions) {
	share := rng.Float64()
	if rng.IntN(2) == 0 {
		p.sel = []uint32{}
		for i := range rows {
			if rng.Float64() < share {
				p.sel = append(p.sel, uint32(i))
			}
		}
		p.n = len(p.sel)
		return p
	}
	for lo := rng.IntN(rows); lo < rows; {
		n := 1 + rng.IntN(rows-lo)>>rng.IntN(8)
		p.spans = append(p.spans, Span{uint32(lo), uint32(lo + n)})
		p.n += n
		lo += n + rng.IntN(50)
	}
	return p
}

func (p *positions) all() (all []int) {
	for _, i := range p.sel {
		all = append(all, int(i))
	}
	for _, s := range p.spans {
		for i := s.Lo; i < s.Hi; i++ {
			all = append(all, int(i))
		}
	}
	return all
}

// TestDecode holds what writes many values at once against the value of each row.
func TestDecode(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine writes and reads")
	rng := randomSource(t)
	for width := range 65 {
		if width > maxPackedWidth && width < 64 {
			continue
		}
		for n := range 60 {
			kind := uint8(n % 3)
			if kind == columnDict && width > 10 {
				kind = columnDec
			}
			rows := 1 + rng.IntN(1000)
			c := randomColumn(rng, width, kind, rows)
			p := randomPositions(rng, rows)
			if p.n == 0 {
				continue
			}
			stride := 8 * (1 + rng.IntN(4))
			out := make([]byte, p.n*stride+64)[rng.IntN(64):][:p.n*stride]
			for i := range out {
				out[i] = byte(i * 7)
			}
			want := slices.Clone(out)
			for k, i := range p.all() {
				binary.LittleEndian.PutUint64(want[k*stride:], c.value(i))
			}
			w := newWordWriter(out, p.n, stride)
			c.write(&p, &w)
			if !slices.Equal(out, want) {
				t.Fatalf("width %d, kind %d, base %d, gcd %d, exponent %d, stride %d, %d of %d",
					width, kind, int64(c.base), c.gcd, c.exponent, stride, p.n, rows)
			}
		}
	}
}

// TestDecodeQuotients: decimals from vectors are those of divisions, bit by bit, also those next
// to what can be held.
func TestDecodeQuotients(t *testing.T) {
	rng := randomSource(t)
	for exponent := range powersOf10 {
		for range 20_000 {
			c := column{forCoding: forCoding{gcd: 1, width: 4}, kind: columnDec,
				exponent: uint8(exponent),
				// The body is for either kind of vectors.
				maxPacked: 15, body: make([]byte, 32+rng.IntN(2)*64)}
			binary.LittleEndian.PutUint64(c.body, 0xfedcba9876543210)
			c.base = uint64(rng.Int64N(1<<51-16) >> rng.IntN(52))
			if rng.IntN(2) == 0 {
				c.base = -c.base
			}
			var out [16 * 8]byte
			w := newWordWriter(out[:], 16, 8)
			v := c.vectors()
			c.writeRun(&v, 0, 16, &w)
			for i := range int64(16) {
				got, n := binary.LittleEndian.Uint64(out[8*i:]), int64(c.base)+i
				if want := float64(n) / powersOf10[exponent]; got != math.Float64bits(want) {
					t.Fatalf("%d / 10^%d: got %v, want %v", n, exponent,
						math.Float64frombits(got), want)
				}
			}
		}
	}
}
