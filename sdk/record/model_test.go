package record

import (
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBoxesAgainstModel holds normalized boxes of many dimensions against the ranges given.
func TestBoxesAgainstModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		var q Query
		var given Box
		for d := range given {
			for range rng.IntN(4) {
				from := rng.Int64N(6)
				given[d] = append(given[d], Range{from, from + 1 + rng.Int64N(3)})
			}
			q.Box[d] = slices.Clone(given[d])
		}
		if err := q.Normalize(); err != nil {
			t.Fatalf("%v: %v", given, err)
		}
		for range 200 {
			k := Key{rng.Int32N(9), rng.Int64N(9), rng.Int32N(9), rng.Int64N(9), rng.Int64N(9)}
			want := true
			for d, set := range given {
				want = want && (len(set) == 0 || slices.ContainsFunc(set, func(r Range) bool {
					return r.From <= k.Part(Dim(d)) && k.Part(Dim(d)) < r.To
				}))
			}
			if q.Box.Contains(k) != want {
				t.Fatalf("%v became %v: contains %v is %v", given, q.Box, k, !want)
			}
		}
	}
}

// TestNormalize gives ranges and what becomes of them.
func TestNormalize(t *testing.T) {
	f := func(d Dim, given, want RangeSet) {
		t.Helper()
		q := Query{}
		q.Box[d] = slices.Clone(given)
		kept := q.Box[d]
		if err := q.Normalize(); err != nil || !slices.Equal(q.Box[d], want) {
			t.Errorf("%v %v became %v, want %v, %v", d, given, q.Box[d], want, err)
		}
		if !slices.Equal(kept, given) {
			t.Errorf("%v: the caller's ranges became %v", given, kept)
		}
	}
	for d := range Dim(NumDims) {
		var none, all RangeSet // what becomes of an empty set, and of one that covers the dimension
		if d == MOID {
			none, all = RangeSet{{FirstMOID, d.Max()}}, RangeSet{All(d)}
		}
		f(d, nil, none)
		f(d, RangeSet{}, none)
		f(d, RangeSet{All(d)}, all)
		f(d, RangeSet{{d.Min(), 5}, {5, d.Max()}}, all)
		f(d, RangeSet{{5, d.Max()}, {d.Min(), 9}}, all)
		f(d, RangeSet{{3, 4}, {1, 2}}, RangeSet{{1, 2}, {3, 4}})
		f(d, RangeSet{{2, 3}, {1, 2}}, RangeSet{{1, 3}}) // they touch
		f(d, RangeSet{{1, 9}, {2, 3}, {1, 2}}, RangeSet{{1, 9}})
		f(d, RangeSet{At(7), At(7)}, RangeSet{{7, 8}})
		f(d, RangeSet{At(d.Min())}, RangeSet{{d.Min(), d.Min() + 1}})
		f(d, RangeSet{At(d.Max() - 1)}, RangeSet{{d.Max() - 1, d.Max()}})
	}
	f(CID, RangeSet{{-5, 3}}, RangeSet{{0, 3}})
	f(CID, RangeSet{{math.MinInt64, math.MaxInt64}}, nil)
	f(MOID, RangeSet{{math.MinInt64, 0}}, RangeSet{{math.MinInt32, 0}})
	f(MOID, RangeSet{{0, math.MaxInt64}}, RangeSet{{0, math.MaxInt32}})

	most := make(RangeSet, MaxRangesPerDim)
	for i := range most {
		most[i] = At(int64(2 * (len(most) - i)))
	}
	sorted := slices.Clone(most)
	slices.Reverse(sorted)
	f(MID, most, sorted)
}

// TestNoRecordAtMaximum is about ranges at the reserved values.
func TestNoRecordAtMaximum(t *testing.T) {
	for d := range Dim(NumDims) {
		q := Query{}
		q.Box[d] = RangeSet{At(d.Max())}
		reason := OutOfRange
		if d.Max() == math.MaxInt64 {
			reason = ReversedRange // one more than the greatest is the least
		}
		refused(t, d.String(), q.Normalize(), d.String(), reason, "")
	}
}

func TestGoodQueries(t *testing.T) {
	f := func(q Query) {
		t.Helper()
		before := q
		if err := q.Normalize(); err != nil {
			t.Errorf("%+v: %v", before, err)
		}
	}
	stats := PluginCall{Name: "stats"}
	f(Query{})
	f(Query{View: ViewLatest, Order: OrderAcq, Limit: math.MaxUint64, KeysOnly: true})
	f(Query{View: ViewAsOf, AsOfAcqNs: math.MinInt64, Order: OrderKey})
	f(Query{Filters: []PluginCall{{Name: "threshold", Params: make([]byte, MaxParamsBytes)}}})
	f(Query{Aggregate: stats, Order: OrderKey, GroupBy: GroupBy{CID: true, CapBucketNs: 1}})
	f(Query{Aggregate: stats, Filters: slices.Repeat([]PluginCall{stats}, MaxFilters),
		GroupBy: GroupBy{true, true, true, math.MaxInt64, Window{}, ""}})
}

// TestFormatNsReads formats moments so that they read back, and in an order that sorts.
func TestFormatNsReads(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 5000 {
		a, b := int64(rng.Uint64()), int64(rng.Uint64())>>rng.IntN(64)
		text := FormatNs(a)
		back, err := time.Parse(time.RFC3339Nano, text)
		const size = len("2006-01-02T15:04:05.000000000Z")
		if err != nil || back.UnixNano() != a || len(text) != size {
			t.Fatalf("%d is %s, which is %d, %v", a, text, back.UnixNano(), err)
		}
		if (text < FormatNs(b)) != (a < b) {
			t.Fatalf("%d and %d sort differently as %s and %s", a, b, text, FormatNs(b))
		}
	}
}

// FuzzPluginName holds the rule against how it would be said in one line.
func FuzzPluginName(f *testing.F) {
	rule := regexp.MustCompile(`^[a-z0-9_-]{1,64}\z`)
	for _, name := range []string{"stats", "", "A", "a b", "ä", "a\n", "-", "../x"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if ValidPluginName(name) != rule.MatchString(name) {
			t.Fatalf("%q: %v", name, ValidPluginName(name))
		}
		q := Query{Aggregate: PluginCall{Name: name}}
		if err := q.Normalize(); (err == nil) != (name == "" || rule.MatchString(name)) {
			t.Fatalf("%q: %v", name, err)
		} else if err != nil && len(err.Error()) > 600 {
			t.Fatalf("an error of %d bytes", len(err.Error()))
		}
	})
}

// FuzzNormalize brings any ranges into the form that the packages below rely on, or refuses them.
func FuzzNormalize(f *testing.F) {
	f.Add(uint8(0), int64(0), int64(5), int64(5), int64(9), int64(5))
	f.Add(uint8(1), int64(math.MinInt64), int64(math.MaxInt64), int64(3), int64(4), int64(-1))
	f.Fuzz(func(t *testing.T, dim uint8, a, b, c, d, v int64) {
		given := RangeSet{{a, b}, {c, d}}
		q := Query{}
		at := Dim(dim % NumDims)
		q.Box[at] = slices.Clone(given)
		err := q.Normalize()
		bad := slices.ContainsFunc(given, func(r Range) bool {
			return r.From >= r.To || r.To <= at.Min() || r.From >= at.Max()
		})
		if bad != (err != nil) {
			t.Fatalf("%v %v: %v", at, given, err)
		}
		if bad || v < at.Min() || v >= at.Max() {
			return
		}
		want := given[0].Contains(v) || given[1].Contains(v)
		if got := q.Box[at]; got.Contains(v) != want {
			t.Fatalf("%v %v became %v: contains %d is %v", at, given, got, v, !want)
		}
	})
}

// TestMeets holds spans against every value in them.
func TestMeets(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		var q Query
		for range rng.IntN(4) {
			from := rng.Int64N(20)
			q.Box[MID] = append(q.Box[MID], Range{from, from + 1 + rng.Int64N(4)})
		}
		if err := q.Normalize(); err != nil {
			t.Fatal(err)
		}
		lo := rng.Int64N(24)
		hi := lo + rng.Int64N(6)
		want := false
		for v := lo; v <= hi; v++ {
			want = want || q.Box[MID].Contains(v)
		}
		if q.Box[MID].Intersects(lo, hi) != want {
			t.Fatalf("%v and %d to %d: %v", q.Box[MID], lo, hi, !want)
		}
		if got := q.Box[MID].Overlaps(RangeSet{{lo, hi + 1}}); got != want {
			t.Fatalf("%v overlaps %d to %d: %v", q.Box[MID], lo, hi, got)
		}
		all := true
		for v := lo; v <= hi; v++ {
			all = all && q.Box[MID].Contains(v)
		}
		if q.Box[MID].Covers(lo, hi) != all {
			t.Fatalf("%v covers %d to %d: %v", q.Box[MID], lo, hi, !all)
		}
	}
}

// TestLongNames are shown cut, where a letter ends.
func TestLongNames(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		if got := clip(name); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	a := strings.Repeat("a", 78)
	f("", "")
	f(a+"bc", a+"bc")
	f(a+"bcd", a+"bc...")
	f(a+"bä", a+"b...")
	f(a+"ää", a+"ä...")
}
