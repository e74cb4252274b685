package plugins_test

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

func byTime(a, b reading) int {
	return cmp.Or(cmp.Compare(a.key.CapNs, b.key.CapNs), cmp.Compare(a.key.AcqNs, b.key.AcqNs),
		cmp.Compare(int64(math.Float64bits(a.x)), int64(math.Float64bits(b.x))))
}

func TestFirstLast(t *testing.T) {
	againstOracle(t, "first-last", 120, func(*rand.Rand, map[string]string) oracle {
		return func(all []reading, result []byte) error {
			if len(all) == 0 {
				return equal(result, words(0, 0, math.NaN(), 0, math.NaN()))
			}
			first, last := slices.MinFunc(all, byTime), slices.MaxFunc(all, byTime)
			return equal(result, words(len(all), first.key.CapNs, first.x, last.key.CapNs, last.x))
		}
	})
}

func TestRateOfChange(t *testing.T) {
	units := map[string]float64{"second": 1e9, "minute": 60e9, "hour": 3600e9, "day": 86400e9}
	againstOracle(t, "rate-of-change", 120, func(r *rand.Rand, values map[string]string) oracle {
		unit := []string{"second", "minute", "hour", "day"}[r.IntN(4)]
		values["per"] = unit
		return func(all []reading, result []byte) error {
			if len(all) == 0 {
				return equal(result, words(0, 0, 0.0, math.NaN()))
			}
			first, last := slices.MinFunc(all, byTime), slices.MaxFunc(all, byTime)
			span, rate := last.key.CapNs-first.key.CapNs, math.NaN()
			if span > 0 {
				rate = (last.x - first.x) / (float64(span) / units[unit])
			}
			return equal(result, words(len(all), span, last.x-first.x, rate))
		}
	})
}

func TestDownsample(t *testing.T) {
	againstOracle(t, "downsample", 120, func(*rand.Rand, map[string]string) oracle {
		return checkDownsample
	})
}

func checkDownsample(all []reading, result []byte) error {
	numbers := slices.DeleteFunc(slices.Clone(all), func(x reading) bool { return x.x != x.x })
	nans, nan := len(all)-len(numbers), math.NaN()
	if len(numbers) == 0 {
		return equal(result, words(0, nans, 0, nan, 0, nan, 0, nan, 0, nan, nan))
	}
	sum, size := new(big.Float).SetPrec(3000), 0.0
	infinite := 0.0
	for i := range numbers {
		numbers[i].x += 0 // one zero instead of two
		x := numbers[i].x
		if math.IsInf(x, 0) {
			infinite += x
			continue
		}
		size = max(size, math.Abs(x))
		sum.Add(sum, big.NewFloat(x))
	}
	first, last := slices.MinFunc(numbers, byTime), slices.MaxFunc(numbers, byTime)
	low := slices.MinFunc(numbers, func(a, b reading) int {
		return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.key.CapNs, b.key.CapNs))
	})
	high := slices.MinFunc(numbers, func(a, b reading) int {
		return cmp.Or(cmp.Compare(b.x, a.x), cmp.Compare(a.key.CapNs, b.key.CapNs))
	})
	want := words(len(numbers), nans, first.key.CapNs, first.x, low.key.CapNs, low.x,
		high.key.CapNs, high.x, last.key.CapNs, last.x)
	if err := equal(result[:80], want); err != nil {
		return err
	}
	mean := floatAt(result, 10)
	if infinite != 0 {
		return equal(words(mean), words(infinite))
	}
	exact, _ := sum.Quo(sum, big.NewFloat(float64(len(numbers)))).Float64()
	if off := math.Abs(mean - exact); off > math.Abs(exact)*0x1p-51+size*0x1p-75 {
		return fmt.Errorf("the mean is %v, want %v", mean, exact)
	}
	return nil
}

// A mean does not lose what is small beside numbers that cancel.
func TestDownsampleExact(t *testing.T) {
	m, _ := standard(t, "downsample")
	s := &series{kind: "f64"}
	for _, f := range []struct {
		numbers []float64
		mean    float64
	}{
		{[]float64{1e16, 1, -1e16, 1}, 0.5},
		{[]float64{0x1p70, 3, -0x1p70}, 1},
		{[]float64{math.MaxFloat64, math.MaxFloat64}, math.MaxFloat64},
		{[]float64{math.SmallestNonzeroFloat64, 0}, 0},
		{[]float64{5e-324, 5e-324, 5e-324}, 5e-324},
		{[]float64{-2.5, 0.25}, -1.125},
	} {
		x := &rows{}
		for _, n := range f.numbers {
			s.append(x, n)
		}
		a := newAggregate(t, m, nil)
		if err := a.Add(t.Context(), &x.batch, nil, 1); err != nil {
			t.Fatal(err)
		}
		results, err := a.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if mean := floatAt(results[0], 10); mean != f.mean {
			t.Errorf("the mean of %v is %v", f.numbers, mean)
		}
	}
}

func TestTopK(t *testing.T) {
	againstOracle(t, "top-k", 150, func(r *rand.Rand, values map[string]string) oracle {
		q := ranking{k: 1 + r.IntN(10), least: r.IntN(2) == 0, devices: r.IntN(2) == 0}
		values["k"] = strconv.Itoa(q.k)
		values["order"] = map[bool]string{true: "least", false: "greatest"}[q.least]
		values["per"] = map[bool]string{true: "device", false: "record"}[q.devices]
		return func(all []reading, result []byte) error { return equal(result, q.answer(all)) }
	})
}
