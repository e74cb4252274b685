package index

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestConcatRanks renumbers the rows of several segments, some dropped, and compares with a
// list.
func TestConcatRanks(t *testing.T) {
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		for _, share := range []int{0, 3, 1} { // of rows dropped: none, a third, all but some
			var segments []*Segment
			var dropped [][]uint64
			var kept []int64
			for from := 0; from < rows.Len(); {
				to := min(rows.Len(), from+1+rng.IntN(rows.Len()))
				piece := part(rows, from, to)
				s, _, _ := indexOf(rng, piece, small())
				var gone []uint64
				if share > 0 && rng.IntN(3) > 0 {
					gone = make([]uint64, (piece.Len()+63)/64)
				}
				for i := range piece.Len() {
					if gone != nil && rng.IntN(share) == 0 {
						gone[i>>6] |= 1 << (i & 63)
						continue
					}
					kept = append(kept, piece.AcqNs[i])
				}
				segments, dropped = append(segments, s), append(dropped, gone)
				from = to
			}
			checkSplice(t, segments, dropped, kept)
		}
	})
}

func checkSplice(t *testing.T, segments []*Segment, dropped [][]uint64, kept []int64) {
	t.Helper()
	s, err := ConcatRanks(segments, dropped)
	if err != nil {
		t.Fatal(err)
	}
	if s.Rows() != len(kept) {
		t.Fatalf("%d rows stay, want %d", s.Rows(), len(kept))
	}
	next := uint32(0)
	for i, seg := range segments {
		for rank := range uint32(seg.Rows()) {
			got, ok := s.Rank(i, rank)
			if gone := dropped[i] != nil && dropped[i][rank>>6]>>(rank&63)&1 != 0; ok == gone {
				t.Fatalf("segment %d, rank %d: stays %v, dropped %v", i, rank, ok, gone)
			}
			if !ok {
				continue
			}
			if got != next || s.AcqOf(got) != kept[next] || seg.AcqOf(rank) != kept[next] {
				t.Fatalf("segment %d, rank %d becomes %d with acq %d, want %d with %d",
					i, rank, got, s.AcqOf(got), next, kept[next])
			}
			next++
		}
	}
}

func TestConcatRanksRefusesDisorder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	rows := shapes()[0].rows(rng, 100)
	a, _, _ := indexOf(rng, part(rows, 0, 50), small())
	b, _, _ := indexOf(rng, part(rows, 49, 100), small())
	if _, err := ConcatRanks([]*Segment{a, b}, make([][]uint64, 2)); err == nil {
		t.Error("segments that overlap are concatenated")
	}
}

// TestMergeTiles: each row lies in exactly one tile, and the sample is spread over them.
func TestMergeTiles(t *testing.T) {
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		ranked := part(rows, 0, rows.Len())
		for i := range ranked.AcqNs {
			ranked.AcqNs[i] = int64(i)
		}
		var sample record.Batch
		for i := range ranked.Len() {
			if rng.IntN(3) == 0 {
				sample.AppendStamped(ranked.Key(i), nil)
			}
		}
		atMost := 1 + rng.IntN(200)
		tiles := MergeTiles(&sample, atMost, 3, false, small())
		if sample.Len() == 0 && len(tiles) != 1 {
			t.Fatalf("%d tiles of an empty sample", len(tiles))
		}
		count := func(b *record.Batch) []int {
			counts := make([]int, len(tiles))
			for i := range b.Len() {
				k, found := b.Key(i), 0
				for r := range tiles {
					if tiles[r].contains(k) {
						counts[r]++
						found++
					}
				}
				if found != 1 {
					t.Fatalf("%v lies in %d tiles", k, found)
				}
			}
			return counts
		}
		count(ranked)
		if most := slices.Max(count(&sample)); most > atMost {
			t.Fatalf("%d rows of the sample in one tile, at most %d", most, atMost)
		}
	})
}

func (r *Tile) contains(k record.Key) bool {
	for d := range r {
		if !r[d].Contains(k.Part(record.Dim(d))) {
			return false
		}
	}
	return true
}
