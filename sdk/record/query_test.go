package record

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestRangeSets holds normalized sets against the ranges that they were made of.
func TestRangeSets(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		d := Dim(rng.IntN(NumDims))
		ends := []int64{d.Min(), d.Min() + 1, 0, 1, 5, 6, 9, d.Max() - 1, d.Max(), rng.Int64N(20)}
		var given RangeSet
		for range 1 + rng.IntN(5) {
			a, b := ends[rng.IntN(len(ends))], ends[rng.IntN(len(ends))]
			if a != b {
				given = append(given, Range{min(a, b), max(a, b)})
			}
		}
		q := Query{}
		q.Box[d] = slices.Clone(given)
		if err := q.Normalize(); err != nil {
			t.Fatalf("%v %v: %v", d, given, err)
		}
		got := q.Box[d]
		for i, r := range got {
			if r.From >= r.To || i > 0 && r.From <= got[i-1].To {
				t.Fatalf("%v %v became %v", d, given, got)
			}
		}
		if len(got) == 1 && got[0] == All(d) && d != MOID {
			t.Fatalf("%v: %v covers the dimension and is not empty", d, given)
		}
		for _, v := range ends {
			if v == d.Max() {
				continue // cannot be stored
			}
			want := len(given) == 0 && !(d == MOID && IsReservedMOID(int32(v)))
			for _, r := range given {
				want = want || r.Contains(v)
			}
			if got.Contains(v) != want {
				t.Fatalf("%v %v became %v: contains %d is %v", d, given, got, v, !want)
			}
		}
		if again := q; again.Normalize() != nil || !slices.Equal(again.Box[d], got) {
			t.Fatalf("%v: %v normalized again is %v", d, got, again.Box[d])
		}
	}
}

// TestSetsOfManyRanges looks in sets that are searched.
func TestSetsOfManyRanges(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 3000 {
		q := Query{}
		for range 1 + rng.IntN(40) {
			from := rng.Int64N(200)
			q.Box[MID] = append(q.Box[MID], Range{from, from + 1 + rng.Int64N(3)})
		}
		if err := q.Normalize(); err != nil {
			t.Fatal(err)
		}
		set := q.Box[MID]
		lo := rng.Int64N(220) - 5
		hi := lo + rng.Int64N(10)*rng.Int64N(10)
		meets, covers := false, true
		for v := lo; v <= hi; v++ {
			in := slices.ContainsFunc(set, func(r Range) bool { return r.Contains(v) })
			meets, covers = meets || in, covers && in
			if set.Contains(v) != in {
				t.Fatalf("%v contains %d: %v", set, v, !in)
			}
		}
		if set.Intersects(lo, hi) != meets || set.Covers(lo, hi) != covers {
			t.Fatalf("%v and [%d, %d]: intersects %v, covers %v", set, lo, hi, !meets, !covers)
		}
		near := slices.DeleteFunc(slices.Clone(set), func(r Range) bool {
			return r.To <= lo || r.From > hi
		})
		if !slices.Equal(set.Near(lo, hi), near) {
			t.Fatalf("%v near [%d, %d]: %v, want %v", set, lo, hi, set.Near(lo, hi), near)
		}
	}
}

func TestBoxContains(t *testing.T) {
	key := Key{CID: 1, MID: -2, MOID: -3, CapNs: 4, AcqNs: 5}
	var box Box
	if !box.Contains(key) {
		t.Error("the empty box is everything")
	}
	for d := range Dim(NumDims) {
		box := Box{}
		box[d] = RangeSet{At(key.Part(d))}
		if !box.Contains(key) {
			t.Errorf("%v: at its own value", d)
		}
		box[d] = RangeSet{{key.Part(d) + 1, d.Max()}}
		if box.Contains(key) {
			t.Errorf("%v: above its value", d)
		}
	}
}

// refused wants an error that names part and reason.
func refused(t *testing.T, what string, err error, part string, reason Reason, want string) {
	t.Helper()
	var e *InvalidError
	if !errors.As(err, &e) || e.Part != part || e.Reason != reason ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %s of %s with %q", what, err, reason, part, want)
	}
}

func TestNormalizeRefuses(t *testing.T) {
	f := func(part string, reason Reason, want string, change func(q *Query)) {
		t.Helper()
		var q Query
		change(&q)
		refused(t, want, q.Normalize(), part, reason, want)
	}
	for d := range Dim(NumDims) {
		f(d.String(), EmptyRange, "holds nothing", func(q *Query) { q.Box[d] = RangeSet{{5, 5}} })
		f(d.String(), ReversedRange, "ends before it starts",
			func(q *Query) { q.Box[d] = RangeSet{At(1), {6, 5}} })
		f(d.String(), TooMany, "1025 ranges", func(q *Query) { q.Box[d] = make(RangeSet, 1025) })
	}
	f("cid", OutOfRange, "lies outside", func(q *Query) { q.Box[CID] = RangeSet{{-9, 0}} })
	f("moid", OutOfRange, "lies outside",
		func(q *Query) { q.Box[MOID] = RangeSet{{math.MaxInt32, math.MaxInt64}} })
	f("view", OutOfRange, "3 is not a view", func(q *Query) { q.View = 3 })
	f("as of", Inconsistent, "an acq is given", func(q *Query) { q.AsOfAcqNs = 1 })
	f("last", Inconsistent, "ask for the latest", func(q *Query) { q.Last = 1 })
	f("last", OutOfRange, "1048577 readings", func(q *Query) {
		q.View, q.Last = ViewLatest, MaxLast+1
	})
	f("select", Syntax, "at its end: want a value behind type =", func(q *Query) {
		q.Select = "type="
	})
	f("select", Inconsistent, "those of a tenant", func(q *Query) { q.Select = "type=x" })
	f("order", OutOfRange, "3 is not an order", func(q *Query) { q.Order = 3 })
	f("order", Inconsistent, "groups have no acq", func(q *Query) {
		q.Order, q.Aggregate.Name = OrderAcq, "count"
	})
	f("cap bucket", OutOfRange, "negative", func(q *Query) { q.GroupBy.CapBucketNs = -1 })
	windowed := func(w Window) func(q *Query) {
		return func(q *Query) { q.Aggregate.Name, q.GroupBy.Window = "stats", w }
	}
	f("window", Inconsistent, "no unit", windowed(Window{N: 1}))
	f("window", OutOfRange, "not a unit", windowed(Window{Unit: 7, N: 1, Zone: "UTC"}))
	f("window", OutOfRange, "from 1 to 24", windowed(Window{Unit: WindowHour, Zone: "UTC"}))
	f("window", OutOfRange, "from 1 to 24", windowed(Window{Unit: WindowHour, N: 25, Zone: "UTC"}))
	f("window", OutOfRange, "name of a zone", windowed(Window{Unit: WindowDay, N: 1}))
	f("window", OutOfRange, "name of a zone", windowed(Window{WindowDay, 1, "Local"}))
	f("window", OutOfRange, "name of a zone", windowed(Window{WindowDay, 1, "a\x00b"}))
	f("window", Inconsistent, "cap bucket", func(q *Query) {
		q.Aggregate.Name, q.GroupBy.CapBucketNs = "stats", 1
		q.GroupBy.Window = Window{WindowDay, 1, "UTC"}
	})
	f("group by", Inconsistent, "aggregate", func(q *Query) { q.GroupBy.MID = true })
	f("filter", OutOfRange, `"Big" is not a plugin name`, func(q *Query) {
		q.Filters = []PluginCall{{Name: "ok"}, {Name: "Big"}}
	})
	f("aggregate", OutOfRange, "not a plugin name",
		func(q *Query) { q.Aggregate.Name = strings.Repeat("a", MaxPluginNameBytes+1) })
	f("aggregate", Inconsistent, "without a plugin name",
		func(q *Query) { q.Aggregate.Params = []byte{1} })
	f("aggregate", Inconsistent, "module is given without",
		func(q *Query) { q.Aggregate.Module = []byte{1} })
	f("filter", OutOfRange, "name@digest",
		func(q *Query) { q.Filters = []PluginCall{{Name: "a@1234567"}} })
	f("filter", Inconsistent, "module comes with the query", func(q *Query) {
		q.Filters = []PluginCall{{Name: "a@01234567", Module: []byte{1}}}
	})
	f("filter", Inconsistent, "filter 2 of 2 has no plugin name",
		func(q *Query) { q.Filters = []PluginCall{{Name: "x"}, {}} })
	f("filter", TooMany, "9 filters, at most 8",
		func(q *Query) { q.Filters = make([]PluginCall, MaxFilters+1) })
	f("filter", TooLarge, "65537 bytes of parameters", func(q *Query) {
		q.Filters = []PluginCall{{Name: "x", Params: make([]byte, MaxParamsBytes+1)}}
	})
}

func TestSplitPluginRef(t *testing.T) {
	f := func(ref, name, digest string, ok bool) {
		t.Helper()
		if n, d, is := SplitPluginRef(ref); is != ok || ok && (n != name || d != digest) {
			t.Errorf("%q: %q, %q, %v", ref, n, d, is)
		}
	}
	f("stats", "stats", "", true)
	f("stats@0123abcd", "stats", "0123abcd", true)
	f("stats@"+strings.Repeat("f", 64), "stats", strings.Repeat("f", 64), true)
	f("stats@", "", "", false)
	f("stats@0123abc", "", "", false)
	f("stats@0123ABCD", "", "", false)
	f("stats@"+strings.Repeat("f", 65), "", "", false)
	f("@0123abcd", "", "", false)
	f("a@0123abcd@0123abcd", "", "", false)
}

func TestValidPluginName(t *testing.T) {
	f := func(name string, want bool) {
		t.Helper()
		if ValidPluginName(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
	f("stats", true)
	f("a-b_9", true)
	f(strings.Repeat("a", MaxPluginNameBytes), true)
	f("", false)
	f("A", false)
	f("a.wasm", false)
	f("../a", false)
	f("a/b", false)
	f("ä", false)
	f("a\x00", false)
}

func TestNewPluginName(t *testing.T) {
	f := func(name string, want bool) {
		t.Helper()
		if NewPluginName(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
	f("stats", true)
	f("a-rf", true)
	f("console", true)
	f("com", true)
	f("com10", true)
	f("A", false)
	f("-rf", false)
	f("-", false)
	f("con", false)
	f("nul", false)
	f("com1", false)
	f("lpt9", false)
}
