package segment

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Few flagged rows of a block are a list, and found as those of a bitmap.
func TestFlagSets(t *testing.T) {
	rng := randomSource(t)
	lists, bitmaps := 0, 0
	for range 60 {
		rows := 1 + rng.IntN(2000)
		in := inputOf(rng, crowd(rng, rows).Rows)
		in.BlockEnds = []uint32{uint32(rows)}
		in.Flags = make([]uint64, (rows+63)/64)
		var want []uint32
		for p, row := range in.Order {
			if rng.IntN(1+rows/(1+p%97)) == 0 {
				in.Flags[row/64] |= 1 << (row % 64)
				want = append(want, uint32(p))
			}
		}
		b := firstBlock(t, mustSeal(t, in))
		lists += min(1, len(b.flags.list))
		bitmaps += min(1, len(b.flags.bitmap))
		checkFlagSet(t, rng, b, want)
	}
	if lists < 10 || bitmaps < 10 {
		t.Errorf("%d lists, %d bitmaps", lists, bitmaps)
	}
}

func checkFlagSet(t *testing.T, rng *rand.Rand, b *Block, want []uint32) {
	t.Helper()
	var all []uint32
	for i := range b.Rows() {
		if b.Flag(i) {
			all = append(all, uint32(i))
		}
	}
	if !slices.Equal(all, want) || b.Describe().Flagged != len(want) {
		t.Fatalf("flagged are %v, want %v", all, want)
	}
	for range 10 {
		var sel, found, within []uint32
		var spans []Span
		rows, every := uint32(b.Rows()), 1+rng.Uint32N(40)
		for at := rng.Uint32N(rows); at < rows; at += 1 + rng.Uint32N(every) {
			if sel = append(sel, at); slices.Contains(want, at) {
				found = append(found, at)
			}
			end := min(at+1+rng.Uint32N(every), rows)
			for row := at; row < end; row++ {
				if slices.Contains(want, row) {
					within = append(within, row)
				}
			}
			spans = append(spans, Span{at, end})
			at = end
		}
		if got := b.FlaggedSpans(spans, nil); !slices.Equal(got, within) {
			t.Fatalf("of %v: %v, want %v", spans, got, within)
		}
		if got := b.Flagged(slices.Clone(sel)); !slices.Equal(got, found) {
			t.Fatalf("of %v: %v, want %v", sel, got, found)
		}
	}
}
