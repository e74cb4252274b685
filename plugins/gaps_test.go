package plugins_test

import (
	"strconv"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// gapsOf is the plugin gaps over one slice of whether a slot has a reading.
func gapsOf(filled []bool, rows int, start, every int64) []byte {
	count, gaps, longest, at, run := 0, 0, 0, 0, 0
	for i, ok := range filled {
		if ok {
			count++
			run = 0
			continue
		}
		if run++; run == 1 {
			gaps++
		}
		if run > longest {
			longest, at = run, i+1-run
		}
	}
	longestCap := int64(0)
	if longest > 0 {
		longestCap = start + int64(at)*every
	}
	return words(rows, count, len(filled)-count, gaps, longest, longestCap)
}

func TestGaps(t *testing.T) {
	r := seeded(t)
	m, doc := standard(t, "gaps")
	for round := range 300 {
		slots := 1 + r.IntN([]int{4, 65, 200, 4096}[r.IntN(4)])
		every := 1 + r.Int64N([]int64{3, 1000, 1e9}[r.IntN(3)])
		origin, window := r.Int64N(2e12)-1e12, r.Int64N(2000)-1000
		start := origin + window*every*int64(slots)
		params := encode(t, doc, map[string]string{"every": strconv.FormatInt(every, 10),
			"unit": "ns", "slots": strconv.Itoa(slots), "origin": strconv.FormatInt(origin, 10)})
		filled, b := make([]bool, slots), &record.Batch{}
		for range 1 + r.IntN([]int{2, 100, 5000}[r.IntN(3)]) {
			slot := r.IntN(slots)
			if r.IntN(2) == 0 { // long gaps, too
				slot = slots * 3 / 4
			}
			filled[slot] = true
			at := start + int64(slot)*every + r.Int64N(every)
			b.AppendStamped(record.Key{CapNs: at}, nil)
		}
		a, other := newAggregate(t, m, params), newAggregate(t, m, params)
		add := func(to *wasmhost.Aggregate, from, until int) {
			part := &record.Batch{}
			for i := from; i < until; i++ {
				part.AppendStamped(record.Key{CapNs: b.CapNs[i]}, nil)
			}
			if err := to.Add(t.Context(), part, nil, 1); err != nil {
				t.Fatal(err)
			}
		}
		cut := r.IntN(b.Len() + 1)
		add(a, 0, cut)
		add(other, cut, b.Len())
		if err := a.Merge(t.Context(), statesOf(t, other), nil); err != nil {
			t.Fatal(err)
		}
		results, err := a.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := equal(results[0], gapsOf(filled, b.Len(), start, every)); err != nil {
			t.Fatalf("round %d, %d slots of %d from %d: %v", round, slots, every, start, err)
		}
	}
}

// Readings of two windows in one group are refused, in one batch and when states are merged.
func TestGapsOfTwoWindows(t *testing.T) {
	m, doc := standard(t, "gaps")
	params := encode(t, doc, map[string]string{"every": "10", "unit": "ns", "slots": "10"})
	both, a, other := &record.Batch{}, newAggregate(t, m, params), newAggregate(t, m, params)
	for _, at := range []int64{-1, 0} {
		both.AppendStamped(record.Key{CapNs: at}, nil)
		one := &record.Batch{}
		one.AppendStamped(record.Key{CapNs: at}, nil)
		to := map[int64]*wasmhost.Aggregate{-1: a, 0: other}[at]
		if err := to.Add(t.Context(), one, nil, 1); err != nil {
			t.Fatal(err)
		}
	}
	const text = "a group has readings of two windows"
	wantStatus(t, a.Merge(t.Context(), statesOf(t, other), nil), -100, text)
	wantStatus(t, newAggregate(t, m, params).Add(t.Context(), both, nil, 1), -100, text)
}
