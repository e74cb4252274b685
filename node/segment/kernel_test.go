package segment

import (
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestFilterWidths holds the filter of many rows at once against the one of single rows.
func TestFilterWidths(t *testing.T) {
	rng := randomSource(t)
	for width := 1; width <= maxPackedWidth; width++ {
		body := make([]byte, maxBlockRows*width/8+paddingBytes)
		for i := range body {
			body[i] = byte(rng.Uint32())
		}
		c := column{forCoding: forCoding{gcd: 1, width: uint8(width)}, body: body}
		c.maxPacked = c.mask()
		for range 100 {
			lo := rng.IntN(maxBlockRows)
			n := rng.IntN(maxBlockRows - lo + 1)
			m := match{low: rng.Uint64() & c.maxPacked}
			m.span = rng.Uint64() & (c.maxPacked - m.low)
			got, want := make([]uint32, n), make([]uint32, n)
			got = got[:c.filterSpan(m, lo, got)]
			want = want[:c.filterRows(m, lo, n, want)]
			if !slices.Equal(got, want) {
				t.Fatalf("width %d, rows [%d, %d), %+v: got %d rows, want %d", width, lo, lo+n, m,
					len(got), len(want))
			}
		}
	}
}

// TestPrefetchFindsColumns: what is asked for ahead is the column, where a block opens it. Blocks
// that number their devices or have runs are not looked into.
func TestPrefetchFindsColumns(t *testing.T) {
	rng := randomSource(t)
	for found := 0; found < 10; {
		s := mustSeal(t, randomInput(rng, 500))
		b := firstBlock(t, s)
		isOther := b.keys[record.MID].kind == columnDict || b.runs.count > 0
		if !isOther {
			found++
		}
		for d := range b.keys {
			c := &b.keys[d]
			from, width, ok := s.columnAt(sealedHeaderBytes, record.Dim(d))
			want := len(s.data) - len(c.body)
			if ok == isOther || ok && (int(from) != want || width != uint64(c.width)) {
				t.Errorf("dimension %d: %d bits at %d, %v, want %d at %d", d, width, from, ok,
					c.width, want)
			}
		}
	}
}
