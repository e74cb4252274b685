package main

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin/guest"
)

// batch has one float64 per row, in one group, in one of the forms that a host hands over.
func batch(numbers []float64, runs bool) *guest.Batch {
	b := &guest.Batch{Rows: len(numbers), Stride: 8, Groups: 1}
	for _, x := range numbers {
		b.Data = binary.LittleEndian.AppendUint64(b.Data, math.Float64bits(x))
	}
	if runs {
		b.Runs = []guest.Run{{GID: 0, End: uint32(len(numbers))}}
	} else {
		b.GID = make([]uint32, len(numbers))
	}
	return b
}

// A plugin is tested without WebAssembly as any other type. What is compared here with known
// results is compared with the plugin in C one folder above.
func TestStats(t *testing.T) {
	nan := math.NaN()
	f := func(numbers []float64, want state) {
		t.Helper()
		for _, runs := range []bool{false, true} {
			p, s := &stats{}, make([]state, 1)
			if err := p.Init(nil); err != nil {
				t.Fatal(err)
			}
			p.Reset(&s[0])
			if err := p.Add(batch(numbers, runs), s); err != nil {
				t.Fatal(err)
			}
			same := s[0] == want || want.sum != want.sum && s[0].count == want.count &&
				s[0].min == want.min && s[0].max == want.max && s[0].sum != s[0].sum
			if !same {
				t.Errorf("%v, runs %v: %+v, want %+v", numbers, runs, s[0], want)
			}
		}
	}
	f([]float64{2}, state{count: 1, sum: 2, min: 2, max: 2, mean: 2})
	f([]float64{1, 2, 3}, state{count: 3, sum: 6, min: 1, max: 3, mean: 2, m2: 2})
	f([]float64{4, -4}, state{count: 2, min: -4, max: 4, m2: 32})
	f([]float64{5, nan}, state{count: 2, sum: nan, min: 5, max: 5})
	f([]float64{nan, 5}, state{count: 2, sum: nan, min: 5, max: 5})
}

func TestAddAllocatesNothing(t *testing.T) {
	p, s := &stats{}, make([]state, 1)
	for _, runs := range []bool{false, true} {
		b := batch([]float64{1, 2, 3}, runs)
		if n := testing.AllocsPerRun(100, func() {
			if p.Add(b, s) != nil {
				t.Error("add fails")
			}
		}); n != 0 {
			t.Errorf("runs %v: %v allocations", runs, n)
		}
	}
}

// BenchmarkAdd is the loop of the guest without WebAssembly; one folder above is the same within.
func BenchmarkAdd(b *testing.B) {
	const rows = 4096
	numbers := make([]float64, rows)
	for i := range numbers {
		numbers[i] = float64(i%1000) / 8
	}
	f := func(name string, groups uint32) {
		b.Run(name, func(b *testing.B) {
			in := batch(numbers, groups == 1)
			for i := range in.GID {
				in.GID[i] = uint32(i*7919) % groups
			}
			p, s := &stats{}, make([]state, groups)
			for b.Loop() {
				if err := p.Add(in, s); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
	f("one", 1)
	f("many", 1000)
}
