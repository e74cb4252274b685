// Command stats is the standard plugin stats written in Go, as an example of a guest and as a check
// of the one in C: both have the same descriptor, states and results, bit by bit.
//
// It is built for WebAssembly as sdk/plugin/guest says, and only by tests.
package main

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/plugin/guest"
)

var _ = guest.RegisterAggregate[state](&stats{})

func main() {}

// maxOffset is the largest payload.
const maxOffset = 32 << 20

// state is the same 48 bytes as in stats.c. The mean and the squared distances from it are kept
// instead of a sum of squares, so that variance does not cancel.
type state struct {
	count                   uint64
	sum, min, max, mean, m2 float64
}

// stats holds the parameters.
type stats struct {
	number  guest.NumberType
	offset  int
	numbers []float64 // of a batch, reused
}

func (*stats) Describe() guest.Description {
	types := []string{"f64", "f32", "i64", "i32", "u32", "text"}
	return guest.Description{
		Need:  plugin.NeedGID | plugin.NeedRuns | plugin.NeedOffsets | plugin.NeedData,
		Flags: plugin.FlagDependsOnBatches,
		Doc: plugin.Doc{
			Name: "stats", Version: "1",
			About:   "count, sum, min, max, mean and sample variance of a number",
			Payload: types,
			Params: []plugin.Param{
				{Name: "type", Type: plugin.Enum, Enum: types, Default: "f64",
					Help: "type of the number"},
				{Name: "offset", Type: plugin.U64, Default: "0",
					Help: "where the number starts in the payload"},
			},
			Result: []plugin.Field{
				{Name: "count", Type: plugin.U64}, {Name: "sum", Type: plugin.F64},
				{Name: "min", Type: plugin.F64}, {Name: "max", Type: plugin.F64},
				{Name: "mean", Type: plugin.F64}, {Name: "variance", Type: plugin.F64},
			},
		},
	}
}

func (p *stats) Init(params guest.Params) error {
	switch {
	case params.Count() == 0:
		return nil
	case params.Count() != 2:
		return errors.New("type and offset must have 16 bytes together")
	case params.U64(0) >= uint64(guest.NumberTypes):
		return errors.New("type must be f64, f32, i64, i32, u32 or text, as 0 to 5")
	case params.U64(1) > maxOffset:
		return errors.New("offset must be at most 33554432")
	}
	p.number, p.offset = guest.NumberType(params.U64(0)), int(params.U64(1))
	return nil
}

func (p *stats) Front() int { return p.number.Front(p.offset) }

func (*stats) Reset(s *state) { *s = state{min: math.Inf(1), max: math.Inf(-1)} }

func (p *stats) Add(b *guest.Batch, states []state) error {
	var err error
	p.numbers, err = b.Numbers(p.numbers[:0], p.number, p.offset)
	if err != nil {
		return err
	}
	if b.Runs == nil {
		addGrouped(states, b.GID, p.numbers)
		return nil
	}
	from := uint32(0)
	for _, run := range b.Runs {
		states[run.GID].addRun(p.numbers[from:run.End])
		from = run.End
	}
	return nil
}

// Conversions to float64 around products keep processors from fusing them with sums, which would
// round once where WebAssembly rounds twice.

// smaller returns x if it is below least; a x that is not a number is not.
func smaller(x, least float64) float64 {
	if x < least {
		return x
	}
	return least
}

func greater(x, most float64) float64 {
	if x > most {
		return x
	}
	return most
}

// addGrouped adds numbers one by one, after Welford. Calls of functions are what Go is slowest at
// on WebAssembly.
func addGrouped(states []state, gid []uint32, numbers []float64) {
	for i, x := range numbers {
		s := &states[gid[i]]
		s.count++
		s.sum += x
		if x < s.min {
			s.min = x
		}
		if x > s.max {
			s.max = x
		}
		d := x - s.mean
		s.mean += d / float64(s.count)
		s.m2 += float64(d * (x - s.mean))
	}
}

// addRun adds the numbers of a run in two passes, the even and the odd ones apart, as the two
// halves of a vector in C.
func (s *state) addRun(numbers []float64) {
	part := state{count: uint64(len(numbers))}
	var sum0, sum1 float64
	lo0, hi0 := math.Inf(1), math.Inf(-1)
	lo1, hi1 := lo0, hi0
	i := 0
	for ; i+2 <= len(numbers); i += 2 {
		x, y := numbers[i], numbers[i+1]
		sum0 += x
		sum1 += y
		lo0, hi0 = smaller(x, lo0), greater(x, hi0)
		lo1, hi1 = smaller(y, lo1), greater(y, hi1)
	}
	if i < len(numbers) {
		x := numbers[i]
		sum0 += x
		lo0, hi0 = smaller(x, lo0), greater(x, hi0)
	}
	part.min, part.max = smaller(lo1, lo0), greater(hi1, hi0)
	part.sum = sum0 + sum1
	part.mean = part.sum / float64(len(numbers))
	part.m2 = distances(numbers, part.mean)
	s.combine(&part)
}

// distances returns the sum of squared distances from the mean.
func distances(numbers []float64, mean float64) float64 {
	var m0, m1 float64
	i := 0
	for ; i+2 <= len(numbers); i += 2 {
		x, y := numbers[i]-mean, numbers[i+1]-mean
		m0 += float64(x * x)
		m1 += float64(y * y)
	}
	if i < len(numbers) {
		x := numbers[i] - mean
		m0 += float64(x * x)
	}
	return m0 + m1
}

// combine is Chan's formula.
func (s *state) combine(o *state) {
	if o.count == 0 {
		return
	}
	if s.count == 0 {
		*s = *o
		return
	}
	a, b := float64(s.count), float64(o.count)
	n, d := a+b, o.mean-s.mean
	s.count += o.count
	s.sum += o.sum
	s.min, s.max = smaller(o.min, s.min), greater(o.max, s.max)
	s.mean += float64(d * (b / n))
	s.m2 += o.m2 + float64(float64(d*d)*(float64(a*b)/n))
}

func (*stats) Merge(dst, src *state) error {
	dst.combine(src)
	return nil
}

func (*stats) Finish(s *state, dst []byte) ([]byte, error) {
	variance := math.NaN()
	if s.count > 1 {
		variance = s.m2 / float64(s.count-1)
	}
	dst = binary.LittleEndian.AppendUint64(dst, s.count)
	for _, x := range [...]float64{s.sum, s.min, s.max, s.mean, variance} {
		dst = binary.LittleEndian.AppendUint64(dst, canonical(x))
	}
	return dst, nil
}

// canonical returns the bits of x, always the same ones for what is not a number: processors
// differ in them.
func canonical(x float64) uint64 {
	if x != x {
		return 0x7ff8 << 48
	}
	return math.Float64bits(x)
}
