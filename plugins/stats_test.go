package plugins_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
)

// statsModel is stats as one would write it down first, after Welford.
type statsModel struct {
	count                   uint64
	sum, min, max, mean, m2 float64
	size                    float64 // sum of magnitudes, for what a sum may be off
	odd                     bool    // has seen what is not finite
}

func newStatsModel() statsModel { return statsModel{min: math.Inf(1), max: math.Inf(-1)} }

func (s *statsModel) add(x float64) {
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
	s.size += math.Abs(x)
	s.odd = s.odd || math.IsNaN(x) || math.Abs(x) > 1e200
}

func near(got, want, off float64) bool { return math.Abs(got-want) <= off*1e-9 }

// check compares a result with the model: what is counted and compared exactly, sums but for
// rounding. With numbers that are not finite only the former is left.
func (s *statsModel) check(doc *plugin.Doc, result []byte) error {
	fields, err := doc.Render(result)
	if err != nil {
		return err
	}
	f := func(i int) float64 { return fields[i].Value.(float64) }
	if fields[0].Value != s.count || f(2) != s.min || f(3) != s.max {
		return fmt.Errorf("%v, want count %d, min %v, max %v", fields, s.count, s.min, s.max)
	}
	if s.odd {
		return nil
	}
	if !near(f(1), s.sum, s.size) || !near(f(4), s.mean, s.size) {
		return fmt.Errorf("%v, want sum %v and mean %v", fields, s.sum, s.mean)
	}
	variance := s.m2 / float64(s.count-1)
	switch {
	case s.count < 2:
		if binary.LittleEndian.Uint64(result[40:]) != 0x7ff8<<48 {
			return fmt.Errorf("the variance of %d numbers is %v", s.count, f(5))
		}
	case !near(f(5), variance, variance+1e-3):
		return fmt.Errorf("variance is %v, want %v", f(5), variance)
	}
	return nil
}

func TestStats(t *testing.T) {
	r := seeded(t)
	m, doc := standard(t, "stats")
	for round := range 200 {
		s := randomSeries(r, numberTypes()[round%6])
		what := fmt.Sprintf("round %d, %+v", round, *s)
		params := encode(t, doc, map[string]string{"type": s.kind,
			"offset": strconv.Itoa(s.offset)})
		models := make([]statsModel, s.groups)
		for i := range models {
			models[i] = newStatsModel()
		}
		results := mergeTree(t, r, m, params, s, func(x *rows) {
			for i, g := range x.gid {
				models[g].add(x.numbers[i])
			}
		})
		for i := range models {
			if err := models[i].check(doc, results[i]); err != nil {
				t.Fatalf("%s: group %d: %v", what, i, err)
			}
		}
	}
}

// A number beside one that is not a number counts in the dense form as in the others.
func TestStatsBesideNaN(t *testing.T) {
	m, doc := standard(t, "stats")
	nan := math.NaN()
	for _, numbers := range [][]float64{{5, nan}, {nan, 5}, {nan, 5, nan}} {
		x, model := &rows{}, newStatsModel()
		s := &series{kind: "f64"}
		for _, n := range numbers {
			s.append(x, n)
			model.add(n)
		}
		a := newAggregate(t, m, nil)
		if err := a.Add(t.Context(), &x.batch, nil, 1); err != nil {
			t.Fatal(err)
		}
		results, err := a.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := model.check(doc, results[0]); err != nil {
			t.Errorf("%v: %v", numbers, err)
		}
	}
}

// Variance does not cancel: numbers that differ in their last digits have the variance of those.
func TestStatsPrecision(t *testing.T) {
	m, doc := standard(t, "stats")
	x := &rows{}
	s := &series{kind: "f64"}
	for i := range 10_000 {
		s.append(x, 1e9+float64(i%3))
	}
	a := newAggregate(t, m, nil)
	if err := a.Add(t.Context(), &x.batch, nil, 1); err != nil {
		t.Fatal(err)
	}
	results, err := a.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fields, err := doc.Render(results[0])
	if err != nil {
		t.Fatal(err)
	}
	if v := fields[5].Value.(float64); math.Abs(v-0.66667) > 1e-4 {
		t.Errorf("variance %v, want 2/3", v)
	}
}
