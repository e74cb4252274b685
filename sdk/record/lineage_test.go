package record

import (
	"math"
	"slices"
	"testing"
)

func TestLineageWith(t *testing.T) {
	f := func(l Lineage, from int64, want ...int64) {
		t.Helper()
		before := slices.Clone(l)
		got := l.With(Timeline{ID: 99, FromNs: from})
		var begins []int64
		for _, one := range got {
			begins = append(begins, one.FromNs)
		}
		if !slices.Equal(begins, want) || got[len(got)-1].ID != 99 || got.Check() != nil {
			t.Errorf("%v with one from %d: %v", l, from, got)
		}
		if !slices.Equal(l, before) {
			t.Errorf("%v became %v", before, l)
		}
	}
	l := Lineage{{1, 0}, {2, 10}, {3, 20}}
	f(nil, 5, 5)
	f(l, 30, 0, 10, 20, 30)
	f(l, 20, 0, 10, 20) // nothing was given since
	f(l, 15, 0, 10, 15) // a copy from before the last
	f(l, 0, 0)
	f(l, -1, -1)
	var full Lineage
	for i := range MaxLineage + 3 {
		full = full.With(Timeline{ID: uint64(i + 1), FromNs: int64(i)})
	}
	if len(full) != MaxLineage || full[0].FromNs != 3 || full.Check() != nil {
		t.Errorf("%d timelines, the first %v", len(full), full[0])
	}
}

func TestLineageLacks(t *testing.T) {
	l := Lineage{{1, 0}, {2, 10}, {3, 20}}
	f := func(id uint64, until int64, want *LackError) {
		t.Helper()
		got := l.Lacks(id, until)
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("timeline %d up to %d: %v, want %v", id, until, got, want)
		}
	}
	for until, id := range map[int64]uint64{0: 0, 1: 1, 10: 1, 11: 2, 20: 2, 21: 3, 1000: 3} {
		if got := l.At(until); got != id {
			t.Errorf("at %d: %d, want %d", until, got, id)
		}
		f(id, until, nil)
	}
	f(1, 11, &LackError{10, 11, true})
	f(2, 1000, &LackError{20, 1000, true})
	f(4, 5, &LackError{UntilNs: 5})
	for i, other := range []Lineage{l.With(Timeline{9, 15}), l.With(Timeline{9, 25}),
		l[:2].With(Timeline{9, 30}), l[1:]} {
		from, known := l.Fork(other)
		back, also := other.Fork(l)
		want := []int64{15, 25, 20, math.MaxInt64}[i]
		if from != want || back != want || !known || !also {
			t.Errorf("%v and %v differ from %d on, %v", l, other, from, known)
		}
	}
	if from, known := l.Fork(Lineage{{9, 5}}); known {
		t.Errorf("unrelated lineages differ from %d on", from)
	}
	l = nil
	f(0, 100, nil)
	f(1, 100, &LackError{UntilNs: 100})
	for _, bad := range []Lineage{{{0, 1}}, {{1, 1}, {2, 1}}, {{1, 2}, {2, 1}},
		make(Lineage, MaxLineage+1)} {
		if bad.Check() == nil {
			t.Errorf("%v is a lineage", bad[:min(3, len(bad))])
		}
	}
}
