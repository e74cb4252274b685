package segment

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// framedColumn returns a column in frames of random widths, and what is packed in it.
func framedColumn(t *testing.T, rng *rand.Rand, kind uint8, rows int) (column, []uint64) {
	t.Helper()
	width := 1 + rng.IntN(maxPackedWidth)
	if rng.IntN(8) == 0 {
		width = 64
	}
	if kind == columnDict {
		width = 1 + rng.IntN(9)
	}
	c := randomColumn(rng, width, kind, rows)
	packed := make([]uint64, rows)
	for i := range packed {
		f := uint64(i/frameRows) * 0x9e3779b97f4a7c15
		packed[i] = (f>>3 + rng.Uint64()>>(f>>58)) & c.maxPacked
	}
	var e encoder
	e.sizeFrames(packed, c.width, 0)
	e.columnHeaders = appendFOR(append(e.columnHeaders, framedMark), &c.forCoding)
	e.appendFrames(slices.Clone(packed), c.width)
	p := frontParser{headers: e.columnHeaders, end: uint64(len(e.columnData)), rows: rows,
		data: append(e.columnData, make([]byte, paddingBytes)...), block: new(Block)}
	of := column{kind: kind, exponent: c.exponent, dict: c.dict}
	if p.framable(&of); p.bad || p.at != p.end || len(p.headers) != 0 || !of.checkFrames() {
		t.Fatal("a column in frames does not parse")
	}
	if of.bytesOf(rows) != len(e.columnData) {
		t.Fatalf("%d bytes, want %d", of.bytesOf(rows), len(e.columnData))
	}
	return of, packed
}

// A column in frames gives what was packed, however it is read.
func TestFrames(t *testing.T) {
	rng := randomSource(t)
	for range 300 {
		kind := uint8(rng.IntN(3))
		rows := frameRows + 1 + rng.IntN(maxBlockRows-frameRows)
		c, packed := framedColumn(t, rng, kind, rows)
		want := func(i int) uint64 {
			switch kind {
			case columnDict:
				return c.word(packed[i])
			case columnDec:
				return fromDecimal(int64(c.base+c.gcd*packed[i]), powersOf10[c.exponent])
			}
			return c.base + c.gcd*packed[i]
		}
		for i := range packed {
			if c.number(i) != packed[i] || c.value(i) != want(i) {
				t.Fatalf("row %d is %x, want %x", i, c.number(i), packed[i])
			}
		}
		p := randomPositions(rng, rows)
		if p.n == 0 {
			continue
		}
		stride := 8 * (1 + rng.IntN(2))
		out := make([]byte, p.n*stride)
		w := newWordWriter(out, p.n, stride)
		c.write(&p, &w)
		for k, i := range p.all() {
			if got := leWord(out[k*stride:]); got != want(i) {
				t.Fatalf("kind %d, row %d of %d is %x, want %x", kind, i, rows, got, want(i))
			}
		}
		checkFrameFilters(t, rng, &c, packed)
	}
}

func leWord(b []byte) (v uint64) {
	for k := range 8 {
		v |= uint64(b[k]) << (8 * k)
	}
	return v
}

// checkFrameFilters compares filters of packed values with a look at all.
func checkFrameFilters(t *testing.T, rng *rand.Rand, c *column, packed []uint64) {
	t.Helper()
	low, high := packed[rng.IntN(len(packed))], packed[rng.IntN(len(packed))]
	low, high = min(low, high), max(low, high)
	m := match{low, high - low}
	lo := rng.IntN(len(packed))
	hi := lo + 1 + rng.IntN(len(packed)-lo)
	var want, sel []uint32
	for i := lo; i < hi; i++ {
		sel = append(sel, uint32(i))
		if low <= packed[i] && packed[i] <= high {
			want = append(want, uint32(i))
		}
	}
	out := slices.Clone(sel)
	if got := out[:c.filterSpan(m, lo, out)]; !slices.Equal(got, want) {
		t.Fatalf("%x to %x in [%d, %d): got %d rows, want %d", low, high, lo, hi, len(got),
			len(want))
	}
	out = slices.Clone(sel)
	if got := out[:c.filter(m, out)]; !slices.Equal(got, want) {
		t.Fatalf("%x to %x: got %d rows, want %d", low, high, len(got), len(want))
	}
	if c.width > maxEntryWidth {
		return
	}
	keep := make([]byte, c.maxPacked+1)
	for v := range keep {
		keep[v] = byte(rng.IntN(2))
	}
	want = want[:0]
	for _, i := range sel {
		if keep[packed[i]] == 1 {
			want = append(want, i)
		}
	}
	if got := sel[:c.filterEntries(keep, sel)]; !slices.Equal(got, want) {
		t.Fatalf("entries: got %d rows, want %d", len(got), len(want))
	}
}

// The small input with runs has them, and frames, in both blocks: other tests rely on it.
func TestSmallRuns(t *testing.T) {
	s := mustSeal(t, smallRuns(randomSource(t)))
	offsets, sizes, err := s.Locate()
	if err != nil {
		t.Fatal(err)
	}
	var b Block
	for i := range offsets {
		if err := s.Block(i, offsets[i], sizes[i], &b); err != nil {
			t.Fatal(err)
		}
		if b.runs.count == 0 || i == 0 != (b.wordColumns[0].table != nil) ||
			i == 0 != (b.keys[record.Cap].width == 0) {
			t.Errorf("block %d: %+v", i, b.Describe())
		}
	}
}

// A frame that is wider than the header of its column says is read without a fault.
func TestFramesWiderThanTheirHeader(t *testing.T) {
	rng := randomSource(t)
	for tried := 0; ; {
		c, packed := framedColumn(t, rng, columnFOR, maxBlockRows)
		if widths := c.frames(); c.width != 64 || widths.width(0) != 64 {
			continue
		}
		if tried++; tried > 3 {
			return
		}
		c.width, c.maxPacked = 8, 1<<8-1
		c.unpack(nil, len(packed))
	}
}
