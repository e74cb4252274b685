package plugins_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/wasmhost"
)

func TestCount(t *testing.T) {
	r := seeded(t)
	m, doc := standard(t, "count")
	for round := range 100 {
		s := randomSeries(r, "f64")
		counts := make([]uint64, s.groups)
		results := mergeTree(t, r, m, nil, s, func(x *rows) {
			for _, g := range x.gid {
				counts[g]++
			}
		})
		for i, want := range counts {
			fields, err := doc.Render(results[i])
			if err != nil || fields[0].Value != want {
				t.Fatalf("round %d, %+v: group %d is %v, %v; want %d", round, *s, i, fields,
					err, want)
			}
		}
	}
}

func TestHistogram(t *testing.T) {
	r := seeded(t)
	m, doc := standard(t, "histogram")
	for round := range 100 {
		s := randomSeries(r, numberTypes()[round%6])
		s.groups = min(s.groups, 20)
		lo := math.Round(r.NormFloat64() * 1e4)
		hi := lo + 1 + math.Round(r.Float64()*2e4)
		buckets := 1 + r.IntN(256)
		params := encode(t, doc, map[string]string{"type": s.kind, "offset": strconv.Itoa(s.offset),
			"lo": fmt.Sprint(lo), "hi": fmt.Sprint(hi), "buckets": strconv.Itoa(buckets)})
		counts := make([][]uint64, s.groups) // below, above, buckets
		for i := range counts {
			counts[i] = make([]uint64, 2+buckets)
		}
		scale := float64(buckets) / (hi - lo)
		results := mergeTree(t, r, m, params, s, func(x *rows) {
			for i, g := range x.gid {
				k := 1
				if n := x.numbers[i]; n < lo {
					k = 0
				} else if n < hi {
					k = 2 + min(int(float64((n-lo)*scale)), buckets-1)
				}
				counts[g][k]++
			}
		})
		for i, want := range counts {
			var bytes []byte
			for _, n := range want {
				bytes = binary.LittleEndian.AppendUint64(bytes, n)
			}
			if string(results[i]) != string(bytes) {
				t.Fatalf("round %d, %+v, [%v, %v): group %d is %x, want %x", round, *s, lo, hi, i,
					results[i], bytes)
			}
		}
	}
}

// holds is the relation of threshold.
func holds(x float64, op string, value float64) bool {
	switch op {
	case "gt":
		return x > value
	case "ge":
		return x >= value
	case "lt":
		return x < value
	case "le":
		return x <= value
	case "eq":
		return x == value
	}
	return x != value
}

func TestThreshold(t *testing.T) {
	r := seeded(t)
	m, doc := standard(t, "threshold")
	ops := []string{"gt", "ge", "lt", "le", "eq", "ne"}
	for round := range 240 {
		s := randomSeries(r, numberTypes()[round%6])
		op := ops[round/6%6]
		x := s.make(r)
		value := x.numbers[r.IntN(len(x.numbers))]
		params := encode(t, doc, map[string]string{"type": s.kind, "offset": strconv.Itoa(s.offset),
			"op": op, "value": strconv.FormatFloat(value, 'g', -1, 64)})
		f, err := m.NewFilter(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		keep := make([]uint64, (x.batch.Len()+63)/64)
		if err := f.Keep(t.Context(), &x.batch, keep); err != nil {
			t.Fatal(err)
		}
		f.Close()
		for i, n := range x.numbers {
			if got := keep[i/64]>>(i%64)&1 != 0; got != holds(n, op, value) {
				t.Fatalf("round %d, %+v: row %d, %v %s %v, is kept: %v", round, *s, i, n, op,
					value, got)
			}
		}
	}
}

func TestBetween(t *testing.T) {
	r := seeded(t)
	m, doc := standard(t, "between")
	for round := range 120 {
		s := randomSeries(r, numberTypes()[round%6])
		x := s.make(r)
		low, high := x.numbers[r.IntN(len(x.numbers))], x.numbers[r.IntN(len(x.numbers))]
		if !(low <= high) {
			low, high = math.Inf(-1), math.Inf(1)
		}
		side := []string{"inside", "outside"}[r.IntN(2)]
		f, err := m.NewFilter(t.Context(), encode(t, doc, map[string]string{"type": s.kind,
			"offset": strconv.Itoa(s.offset), "low": fmt.Sprint(low), "high": fmt.Sprint(high),
			"keep": side}))
		if err != nil {
			t.Fatal(err)
		}
		keep := make([]uint64, (x.batch.Len()+63)/64)
		if err := f.Keep(t.Context(), &x.batch, keep); err != nil {
			t.Fatal(err)
		}
		f.Close()
		for i, n := range x.numbers {
			want := n >= low && n <= high
			if side == "outside" {
				want = n < low || n > high
			}
			if got := keep[i/64]>>(i%64)&1 != 0; got != want {
				t.Fatalf("round %d, %+v: row %d, %v %s of %v to %v, is kept: %v", round, *s, i, n,
					side, low, high, got)
			}
		}
	}
}

// Parameters are refused by the document where that can tell, else by the plugin, with a text.
func TestBadParams(t *testing.T) {
	f := func(name, text string, values map[string]string) {
		t.Helper()
		m, doc := standard(t, name)
		params, err := doc.EncodeParams(values)
		if err == nil {
			if m.Describe().Kinds == plugin.KindFilter {
				_, err = m.NewFilter(t.Context(), params)
			} else {
				_, err = m.NewAggregate(t.Context(), params)
			}
			wantStatus(t, err, -1, text)
			return
		}
		if err.Error() != text {
			t.Errorf("%s %v: %v, want %s", name, values, err, text)
		}
	}
	f("stats", `parameter type: "f16" is not one of f64, f32, i64, i32, u32, text`,
		map[string]string{"type": "f16"})
	f("count", `plugin count has no parameter "type"; it has: none`,
		map[string]string{"type": "f64"})
	f("stats", "offset must be at most 33554432", map[string]string{"offset": "33554433"})
	f("threshold", "plugin threshold needs parameter value (f64)", nil)
	f("threshold", "offset must be", map[string]string{"value": "1", "offset": "99999999999"})
	for _, bounds := range [][2]string{{"1", "1"}, {"2", "1"}, {"NaN", "1"}, {"0", "NaN"},
		{"-Inf", "1"}, {"0", "+Inf"}, {"-1.7e308", "1.7e308"}, {"0", "1e-310"}} {
		f("histogram", "lo must be below hi", map[string]string{"lo": bounds[0], "hi": bounds[1]})
	}
	f("between", "low must be at most high", map[string]string{"low": "2", "high": "1"})
	f("between", "low must be at most high", map[string]string{"low": "NaN"})
	f("top-k", "k must be 1 to 1000", map[string]string{"k": "0"})
	f("top-k", "k must be 1 to 1000", map[string]string{"k": "1001"})
	f("quantiles", "q must be 0 to 1", map[string]string{"q": "1.1"})
	f("quantiles", "q must be 0 to 1", map[string]string{"q": "NaN"})
	f("outliers", "k must be 0 or more", map[string]string{"k": "-1"})
	f("outliers", "k must be 0 or more", map[string]string{"k": "Inf"})
	f("gaps", "slots must be 1 to 4096", map[string]string{"every": "1", "slots": "4097"})
	f("gaps", "every must be above 0", map[string]string{"every": "0", "slots": "1"})
	f("gaps", "below 146 years", map[string]string{"every": "400", "unit": "h", "slots": "4096"})
	f("gaps", "origin must lie", map[string]string{"every": "1", "slots": "1",
		"origin": "-9223372036854775808"})
	f("histogram", "buckets must be 1", map[string]string{"lo": "0", "hi": "1", "buckets": "0"})
	f("histogram", "buckets must be 1", map[string]string{"lo": "0", "hi": "1", "buckets": "257"})
}

// Bytes that no document encodes are refused.
func TestRawParams(t *testing.T) {
	f := func(name, text string, params ...uint64) {
		t.Helper()
		m, _ := standard(t, name)
		refuseParams(t, m, text, params...)
	}
	f("histogram", "40 bytes together")
	f("histogram", "as 0 to 5", math.MaxUint64, 0, 0, 0, 0)
	f("threshold", "32 bytes together")
	f("threshold", "as 0 to 5", 0, 0, 6, 0)
	f("between", "40 bytes together", 0)
	f("between", "as 0 or 1", 0, 0, 0, 0, 2)
	f("delta", "32 bytes together", 0)
	f("delta", "modulus must be", 0, 0, math.Float64bits(-1), 0)
	f("delta", "max_step must be", 0, 0, 0, math.Float64bits(math.Inf(1)))
	f("delta", "max_step must be below modulus", 0, 0, math.Float64bits(5), math.Float64bits(5))
	f("distinct", "24 bytes together", 0)
	f("distinct", "as 0 to 2", 3, 0, 0)
	f("downsample", "16 bytes together", 0)
	f("first-last", "as 0 to 5", 6, 0)
	f("gaps", "32 bytes together", 0)
	f("gaps", "as 0 to 4", 1, 5, 1, 0)
	f("outliers", "24 bytes together", 0)
	f("quantiles", "24 bytes together", 0)
	f("rate-of-change", "24 bytes together", 0)
	f("rate-of-change", "as 0 to 3", 0, 0, 4)
	f("readable", "24 bytes together", 0)
	f("readable", "as 0 to 5", 6, 0, 0)
	f("readable", "as 0 or 1", 0, 0, 2)
	f("top-k", "40 bytes together", 0)
	f("top-k", "order must be", 0, 0, 1, 2, 0)
	f("top-k", "per must be", 0, 0, 1, 0, 2)
	m, _ := standard(t, "stats")
	checkStatsParams(t, m)
}

// checkStatsParams holds for stats in C and in Go.
func checkStatsParams(t *testing.T, m *wasmhost.Module) {
	t.Helper()
	refuseParams(t, m, "16 bytes together", 0)
	refuseParams(t, m, "as 0 to 5", 6, 0)
	refuseParams(t, m, "offset must be", 0, 1<<32)
}

func refuseParams(t *testing.T, m *wasmhost.Module, text string, params ...uint64) {
	t.Helper()
	var raw []byte
	for _, p := range params {
		raw = binary.LittleEndian.AppendUint64(raw, p)
	}
	var err error
	if m.Describe().Kinds == plugin.KindFilter {
		_, err = m.NewFilter(t.Context(), raw)
	} else {
		_, err = m.NewAggregate(t.Context(), raw)
	}
	wantStatus(t, err, -1, text)
}
