package segment

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// crowd makes rows of many devices, whose ids are near to a line, in few stretches of a block.
func crowd(rng *rand.Rand, rows int) *SealedInput {
	of := anyGenerator(rng)
	base, gap := of(rng), 1+rng.Int64N(1+rng.Int64N(40))
	scale := []int64{1, 1, 1, 1000, 1 << 40}[rng.IntN(5)]
	mids := make([]int64, 1+rng.IntN(rows))
	for i := range mids {
		base += scale * (1 + rng.Int64N(gap))
		mids[i] = base // beyond the greatest, the least follows
	}
	if rng.IntN(10) == 0 {
		mids[rng.IntN(len(mids))] = []int64{math.MinInt64, math.MaxInt64, 0, -1}[rng.IntN(4)]
	}
	b := &record.Batch{}
	slots := 1 + rng.Int64N(30)
	for range rows {
		b.Append(record.Key{CID: 1, MOID: 2, MID: mids[rng.IntN(len(mids))],
			CapNs: rng.Int64N(slots) * 900e9}, appendWords(nil, uint64(rng.IntN(1000))))
	}
	in := inputOf(rng, b)
	if rng.IntN(3) > 0 { // few large blocks
		in.BlockEnds = in.BlockEnds[:0]
		for at := 0; at < rows; {
			at = min(at+500+rng.IntN(maxBlockRows-500), rows)
			in.BlockEnds = append(in.BlockEnds, uint32(at))
		}
	}
	sortSubRuns(rng, in)
	return in
}

// Blocks whose devices have lines are written, read back, filtered and searched as others are.
func TestDeviceLinesModel(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine writes and reads")
	rng := randomSource(t)
	lines, others := 0, 0
	for range 300 {
		in := crowd(rng, 1+rng.IntN(1<<rng.IntN(15)))
		checkModel(t, rng, in, func(b *Block, order []uint32) {
			if b.keys[record.MID].kind != columnLines {
				others++
				return
			}
			lines++
			checkKeys(t, in, b, order)
			for range 5 {
				checkFilters(t, rng, in, b, order)
				checkSearches(t, rng, in, b, order)
				gatherSome(t, rng, in, b, order, &record.Batch{}, nil)
			}
		})
	}
	if lines < 10 || others < 10 {
		t.Errorf("%d blocks with lines, %d without", lines, others)
	}
}

// Vectors make of lines and rests, whatever they are, what is made of them row by row.
func TestDeviceLinesDecode(t *testing.T) {
	rng := randomSource(t)
	for range 400 {
		rows, width := 1+rng.IntN(3000), uint8(1+rng.IntN(lineBits))
		c := column{kind: columnLines, forCoding: forCoding{base: rng.Uint64(), width: width,
			gcd: []uint64{1, 1000, 1 << 40, rng.Uint64() | 1}[rng.IntN(4)]}}
		c.maxPacked = c.mask()
		front := make([]byte, lineBytes*linesOf(rows)+c.bytes(rows)+loadBytes)
		for i := range front {
			front[i] = byte(rng.Uint32())
		}
		c.lines, c.body = front[:lineBytes*linesOf(rows)], front[lineBytes*linesOf(rows):]
		var p positions
		for range 20 {
			p = positions{}
			every := 1 + rng.IntN(300)
			for at := rng.IntN(rows); at < rows; at += 1 + rng.IntN(every) {
				p.sel = append(p.sel, uint32(at))
			}
			if p.n = len(p.sel); rng.IntN(2) == 0 {
				p = positions{}
				most := 1 + rng.IntN(1+rng.IntN(rows))
				for at := rng.IntN(rows); at < rows; at += rng.IntN(most) {
					end := min(at+1+rng.IntN(most), rows)
					p.spans = append(p.spans, Span{uint32(at), uint32(end)})
					p.n, at = p.n+end-at, end
				}
			}
			checkLineRows(t, &c, &p)
		}
	}
}

// checkLineRows compares the rows that are written with what their lines and rests say.
func checkLineRows(t *testing.T, c *column, p *positions) {
	t.Helper()
	rows := slices.Clone(p.sel)
	for _, s := range p.spans {
		for row := s.Lo; row < s.Hi; row++ {
			rows = append(rows, row)
		}
	}
	got := make([]int64, p.n+1)
	got[p.n] = 77 // must stay
	w := wordWriterOf(got)
	c.write(p, &w)
	for k, row := range rows {
		line := c.lines[row/128*4:]
		first, ascent := binary.LittleEndian.Uint16(line), binary.LittleEndian.Uint16(line[2:])
		rest := uint64(0)
		for bit := range uint(c.width) {
			at := uint(row)*uint(c.width) + bit
			rest |= uint64(c.body[at/8]>>(at%8)&1) << bit
		}
		packed := uint16(uint64(first) + rest + uint64(ascent)*uint64(row%128)/128)
		if want := int64(c.base + c.gcd*uint64(packed)); got[k] != want {
			t.Fatalf("row %d is %d, want %d; %d bits, gcd %d", row, got[k], want, c.width, c.gcd)
		}
	}
	if w.at != uintptr(8*p.n) || got[p.n] != 77 {
		t.Fatalf("%d bytes of %d rows, then %d", w.at, p.n, got[p.n])
	}
}

// Devices of which some are missing take about half of the bits with lines, and some seven.
func TestDeviceLinesSize(t *testing.T) {
	rng := randomSource(t)
	b := &record.Batch{}
	for mid := int64(4e9); b.Len() < maxBlockRows/8; mid += 1 + rng.Int64N(6) {
		b.Append(record.Key{CID: 1, MID: mid, MOID: 1}, nil)
	}
	for i := range maxBlockRows - b.Len() {
		b.Append(b.Key(i), nil)
	}
	in := inputOf(rng, b)
	in.Order, in.BlockEnds = in.Order[:0], []uint32{maxBlockRows}
	for i := range uint32(maxBlockRows) {
		in.Order = append(in.Order, i)
	}
	c := firstBlock(t, mustSeal(t, in)).keys[record.MID]
	if c.kind != columnLines || c.width > 7 {
		t.Errorf("kind %d, %d bits", c.kind, c.width)
	}
}
