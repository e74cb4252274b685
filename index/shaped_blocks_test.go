package index

import (
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestShapedBlocks compares the blocks of segments that have the shape which clustering would give
// them with those that it gives: these cover no more time on average, but for what cuts at whole
// blocks differ by.
func TestShapedBlocks(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	opt := Options{BlockRows: 64}
	all, shaped := 0, 0
	for range 60 {
		devices, step := 1+rng.IntN(1<<rng.IntN(8)), int64(1e9)<<rng.IntN(14)
		inputs, n := 2+rng.IntN(3), 2000+rng.IntN(4000)
		x, together, at := NewShapedBlocks(opt), new(record.Batch), 0
		var segments []*Segment
		for range inputs {
			rows := new(record.Batch)
			for range n {
				k := record.Key{CID: 1, MID: int64(at % devices), MOID: 1,
					CapNs: int64(at/devices) * step, AcqNs: int64(at)}
				rows.AppendStamped(k, nil)
				together.AppendStamped(k, nil)
				at++
			}
			segments = append(segments, describedBlocks(rows, opt))
			x.Add(segments[len(segments)-1], min(devices, n))
		}
		x.Finish()
		merged := describedBlocks(together, opt)
		mean := 0.0
		for i := range merged.blocks {
			mean += timeOf(&merged.blocks[i]) / float64(len(merged.blocks))
		}
		for _, s := range segments {
			for i := range s.blocks {
				b := &s.blocks[i]
				all++
				if x.Has(b) {
					shaped++
				}
				if x.Has(b) && 2.5*timeOf(b) < mean {
					t.Fatalf("%d devices, a reading in %d s: a block of %g s, others of %g s",
						devices, step/1e9, timeOf(b)/1e9, mean/1e9)
				}
			}
		}
	}
	if shaped < all/20 || shaped > all*19/20 {
		t.Errorf("%d of %d blocks have the shape", shaped, all)
	}
	unknown := NewShapedBlocks(opt)
	s := describedBlocks(&record.Batch{CID: []int32{1}, MID: []int64{1}, MOID: []int32{1},
		CapNs: []int64{5}, AcqNs: []int64{0}}, opt)
	unknown.Add(s, 0)
	unknown.Finish()
	if unknown.Has(&s.blocks[0]) {
		t.Error("a block of an unknown number of series has the shape")
	}
}

func timeOf(b *BlockInfo) float64 { return float64(b.Max[record.Cap] - b.Min[record.Cap]) }

// describedBlocks clusters rows and describes the blocks.
func describedBlocks(rows *record.Batch, opt Options) *Segment {
	l := clusterRows(rows, opt)
	n := len(l.BlockEnds)
	return Build(rows, l, make([]uint64, (rows.Len()+63)/64), make([]uint64, n), make([]uint32, n))
}
