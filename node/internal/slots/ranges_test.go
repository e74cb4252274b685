package slots

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// A map of ranges that random splits made gives each slot the group whose range has it, and finds
// the groups of few devices.
func TestMapOfSplits(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	ranges := []Range{{0, Count / 2}, {Count / 2, Count}}
	for range 40 {
		i := rng.IntN(len(ranges))
		if r := ranges[i]; r.To-r.From > 1 {
			middle := r.From + 1 + uint32(rng.IntN(int(r.To-r.From-1)))
			ranges[i].To = middle
			ranges = append(ranges, Range{middle, r.To})
		}
	}
	m, ok := NewMap(ranges)
	if !ok || m.Len() != len(ranges) {
		t.Fatalf("%d ranges: %v", len(ranges), ok)
	}
	for slot := range uint32(Count) {
		if g := m.Group(slot); !ranges[g-1].Contains(slot) {
			t.Fatalf("slot %d is of group %d, which has %v", slot, g, ranges[g-1])
		}
	}
	box := record.Box{record.CID: {record.At(3)}, record.MID: {{From: 100, To: 200}}}
	var wanted []GroupID
	for mid := int64(100); mid < 200; mid++ {
		wanted = append(wanted, m.Group(Of(3, mid)))
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	if got := m.Groups(&box); !slices.Equal(got, wanted) || m.Groups(&record.Box{}) != nil {
		t.Errorf("groups %v, want %v", got, wanted)
	}
	last := len(ranges) - 1
	for what, bad := range map[string]Range{"a hole": {ranges[last].From, ranges[last].To - 1},
		"too many": {ranges[last].From, ranges[last].To + 1}, "none": {5, 5}} {
		other := append(slices.Clone(ranges[:last]), bad)
		if _, ok := NewMap(other); ok {
			t.Errorf("%s: %v is a map", what, other)
		}
	}
}
