package record

import (
	"cmp"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// someMOIDs are those where answers change, and others.
func someMOIDs(rng *rand.Rand) []int32 {
	return []int32{math.MinInt32, NameMOID, DescriptionMOID, IDBlockMOID, FirstMOID - 1, FirstMOID,
		-1, 0, 1, math.MaxInt32 - 1, math.MinInt32 + rng.Int32N(32), rng.Int32()}
}

// randomMOIDs returns ranges that name moids, none, or all there are.
func randomMOIDs(rng *rand.Rand) RangeSet {
	switch rng.IntN(4) {
	case 0:
		return nil
	case 1:
		return RangeSet{All(MOID)}
	}
	var set RangeSet
	for range 1 + rng.IntN(3) {
		a, b := someMOIDs(rng)[rng.IntN(12)], someMOIDs(rng)[rng.IntN(12)]
		set = append(set, Range{int64(min(a, b)), int64(max(a, b)) + 1})
	}
	return set
}

// TestReservedMOIDs compares what queries see, after any number of nodes has normalized them, with
// the ranges that they were given.
func TestReservedMOIDs(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		given := randomMOIDs(rng)
		q, diff, stored := Query{}, Diff{}, Box{}
		q.Box[MOID], diff.Box[MOID], stored[MOID] = given, given, given
		if err := stored.Normalize(); err != nil {
			t.Fatal(err)
		}
		hops := 1 + rng.IntN(4)
		for hop := range hops {
			before, diffBefore := q, diff
			if err := cmp.Or(q.Normalize(), diff.Normalize()); err != nil {
				t.Fatal(err)
			}
			if hop > 0 && !(reflect.DeepEqual(before, q) && reflect.DeepEqual(diffBefore, diff)) {
				t.Fatalf("%v: %v became %v", given, before.Box, q.Box)
			}
		}
		for _, moid := range someMOIDs(rng) {
			named := slices.ContainsFunc(given, func(r Range) bool {
				return r.Contains(int64(moid))
			})
			inQuery := named || len(given) == 0 && !IsReservedMOID(moid)
			key := Key{MOID: moid}
			if q.Box.Contains(key) != inQuery || diff.Box.Contains(key) != inQuery {
				t.Fatalf("%v became %v: contains %d is %v", given, q.Box[MOID], moid, !inQuery)
			}
			if want := named || len(given) == 0; stored.Contains(key) != want {
				t.Fatalf("%v stored as %v: contains %d is %v", given, stored[MOID], moid, !want)
			}
		}
	}
}

// TestAskedMOIDs are shown as they were asked for.
func TestAskedMOIDs(t *testing.T) {
	f := func(given, shown RangeSet, restricts bool) {
		t.Helper()
		x := Box{MOID: given}
		if err := x.NormalizeAsked(); err != nil {
			t.Fatal(err)
		}
		if got := x.Asked(MOID); !slices.Equal(got, shown) || x.Restricts(MOID) != restricts {
			t.Errorf("%v is shown as %v, restricts is %v", given, got, x.Restricts(MOID))
		}
	}
	f(nil, nil, false)
	f(RangeSet{{FirstMOID, math.MaxInt32}}, nil, false)
	f(RangeSet{All(MOID)}, RangeSet{All(MOID)}, false)
	f(RangeSet{At(NameMOID)}, RangeSet{At(NameMOID)}, true)
	f(RangeSet{{FirstMOID, 7}}, RangeSet{{FirstMOID, 7}}, true)

	all := Everything()
	if err := all.NormalizeAsked(); err != nil || !all.Contains(Key{MOID: DescriptionMOID}) {
		t.Errorf("everything is %v, %v", all, err)
	}
	one := Box{MOID: {At(3)}}
	if one.IncludeReserved(); one.Contains(Key{MOID: DescriptionMOID}) {
		t.Errorf("a box of one moid became %v", one)
	}
}
