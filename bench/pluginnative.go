package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pentad-db/pentad/bench/kernels"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// folding is an aggregate in Go: what foldWithPlugin does, without a plugin.
type folding interface {
	fold(b *record.Batch, gid []uint32)
	equal(group int, result []byte) error
}

// wholeStats is stats of groups.
type wholeStats struct{ halves [2][]stats }

func newWholeStats(groups int) *wholeStats {
	return &wholeStats{[2][]stats{make([]stats, groups), make([]stats, groups)}}
}

func (w *wholeStats) fold(b *record.Batch, gid []uint32) {
	for _, half := range w.halves {
		for i := range half {
			half[i] = *newStats()
		}
		for range endToEndBatches / 2 {
			if gid == nil {
				half[0].addBatch(b)
				continue
			}
			for i, group := range gid {
				half[group].addOne(system.Number(b.Data[8*i:]))
			}
		}
	}
	for i := range w.halves[0] {
		w.halves[0][i].merge(&w.halves[1][i])
	}
}

func (w *wholeStats) equal(group int, result []byte) error {
	return w.halves[0][group].equal(result)
}

// addBatch has two passes, and two sums in each, because an addition waits for the one before it.
func (s *stats) addBatch(b *record.Batch) {
	sum0, sum1, square0, square1 := 0.0, 0.0, 0.0, 0.0
	lo0, hi0, lo1, hi1 := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	data := b.Data
	for ; len(data) >= 16; data = data[16:] {
		x, y := system.Number(data), system.Number(data[8:])
		sum0 += x
		sum1 += y
		lo0, hi0 = reach(lo0, hi0, x)
		lo1, hi1 = reach(lo1, hi1, y)
	}
	if len(data) >= 8 {
		x := system.Number(data)
		sum0 += x
		lo0, hi0 = reach(lo0, hi0, x)
	}
	n, sum := float64(b.Len()), sum0+sum1
	mean := sum / n
	for data = b.Data; len(data) >= 16; data = data[16:] {
		x, y := system.Number(data)-mean, system.Number(data[8:])-mean
		square0 += x * x
		square1 += y * y
	}
	if len(data) >= 8 {
		x := system.Number(data) - mean
		square0 += x * x
	}
	s.merge(&stats{uint64(b.Len()), sum, min(lo0, lo1), max(hi0, hi1), mean,
		square0 + square1})
}

// reach has comparisons, which take less than min and max of the language with their care for
// not-a-number.
func reach(lo, hi, x float64) (float64, float64) {
	if x < lo {
		lo = x
	}
	if x > hi {
		hi = x
	}
	return lo, hi
}

func (s *stats) merge(o *stats) {
	if o.count == 0 {
		return
	}
	had, more := float64(s.count), float64(o.count)
	d := o.mean - s.mean
	s.count += o.count
	s.sum += o.sum
	s.min, s.max = min(s.min, o.min), max(s.max, o.max)
	s.mean += d * more / (had + more)
	s.m2 += o.m2 + d*d*had*more/(had+more)
}

// addOne is Welford's method.
func (s *stats) addOne(x float64) {
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
	s.m2 += d * (x - s.mean)
}

// wholeKernel is a kernel whose states are merged by taking the greater byte.
type wholeKernel struct {
	kernel *kernels.Kernel
	halves [2][]byte
}

func (w *wholeKernel) fold(b *record.Batch, _ []uint32) {
	for i := range w.halves {
		w.halves[i] = make([]byte, w.kernel.Result)
		for range endToEndBatches / 2 {
			w.kernel.Native(b.Data, w.halves[i])
		}
	}
	for i, rank := range w.halves[1] {
		w.halves[0][i] = max(w.halves[0][i], rank)
	}
}

func (w *wholeKernel) equal(_ int, result []byte) error {
	if !bytes.Equal(result, w.halves[0]) {
		return fmt.Errorf("WRONG ANSWER of %s: %x, natively %x", w.kernel.Name, result,
			w.halves[0])
	}
	return nil
}

func appendWords(dst []byte, words []uint64) []byte {
	for _, w := range words {
		dst = binary.LittleEndian.AppendUint64(dst, w)
	}
	return dst
}
