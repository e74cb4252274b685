package index

import (
	"math/rand/v2"
	"testing"
)

// acqShape is a life of a store: how many rows batches had, and which of them stayed.
type acqShape struct {
	name  string
	batch int
	stays func(rng *rand.Rand, i int) bool
}

func acqShapes() []acqShape {
	oneOf := func(n int) func(*rand.Rand, int) bool {
		return func(rng *rand.Rand, _ int) bool { return rng.IntN(n) == 0 }
	}
	return []acqShape{
		{"batches of 10000", 10_000, oneOf(1)},
		{"batches of 2000", 2000, oneOf(1)},
		{"batches of 20", 20, oneOf(1)},
		{"single", 1, oneOf(1)},
		{"every second", 2000, func(_ *rand.Rand, i int) bool { return i&1 == 0 }},
		{"half", 2000, oneOf(2)},
		{"two of three", 2000, func(rng *rand.Rand, _ int) bool { return rng.IntN(3) > 0 }},
		{"a tenth", 2000, oneOf(10)},
		{"a hundredth", 2000, oneOf(100)},
	}
}

// acqs returns those of the rows that stayed.
func (s acqShape) acqs(rows int) []int64 {
	rng := rand.New(rand.NewPCG(1, 1))
	acqs, acq := make([]int64, 0, rows), int64(1_700_000_000_000_000_000)
	for i := 0; len(acqs) < rows; i++ {
		if i%s.batch == 0 {
			acq += 1 + rng.Int64N(40_000_000)
		}
		if s.stays(rng, i) {
			acqs = append(acqs, acq)
		}
		acq++
	}
	return acqs
}

func BenchmarkRanks(b *testing.B) {
	const rows = 1 << 20
	rng := rand.New(rand.NewPCG(2, 2))
	places := make([]uint32, 1<<16)
	for i := range places {
		places[i] = rng.Uint32N(rows)
	}
	var sum int64
	for _, shape := range acqShapes() {
		b.Run(shape.name, func(b *testing.B) {
			acqs := shape.acqs(rows)
			table := ranksOf(acqs)
			b.Run("acq", func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					sum += table.acqOf(places[i&(len(places)-1)])
				}
			})
			b.Run("near", func(b *testing.B) { // ranks of one block
				for i := 0; b.Loop(); i++ {
					sum += table.acqOf(uint32(i*7) & 4095)
				}
			})
			b.Run("rank", func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					sum += int64(table.below(acqs[places[i&(len(places)-1)]]))
				}
			})
			b.Run("concat", func(b *testing.B) {
				s := &Segment{ranks: table, rows: rows}
				for b.Loop() {
					sp, _ := ConcatRanks([]*Segment{s}, [][]uint64{nil})
					sum += int64(sp.Rows())
				}
				perRow(b, rows)
			})
			b.Run("drop", func(b *testing.B) {
				s := &Segment{ranks: table, rows: rows}
				dropped := make([]uint64, rows/64)
				for i := range dropped {
					dropped[i] = 0x5555_5555_5555_5555
				}
				for b.Loop() {
					sp, _ := ConcatRanks([]*Segment{s}, [][]uint64{dropped})
					sum += int64(sp.Rows())
				}
				perRow(b, rows)
			})
		})
	}
	_ = sum
}
