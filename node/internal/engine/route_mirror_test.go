package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/node/store"
)

func TestCutsOfGroupsAreJoined(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for round := range 200 {
		groups, share := 1+rng.IntN(5), 1+rng.IntN(20)
		var rows []int64
		var all [][]int64
		for range groups {
			cuts, at := []int64{0}, int64(0)
			for i := range rng.IntN(300) {
				at += rng.Int64N(9)
				if rows = append(rows, at); i%share == share-1 && at+1 > cuts[len(cuts)-1] {
					cuts = append(cuts, at+1)
				}
			}
			all = append(all, append(cuts, 5000))
		}
		got := joinCuts(all)
		if got[0] != 0 || got[len(got)-1] != 5000 || !slices.IsSorted(got) ||
			len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Fatalf("round %d: %v of %v", round, got, all)
		}
		slices.Sort(rows)
		for i := 1; i < len(got); i++ {
			from, _ := slices.BinarySearch(rows, got[i-1])
			to, _ := slices.BinarySearch(rows, got[i])
			if most := 2 * groups * (share + 10); to-from > most { // equal acqs are not divided
				t.Fatalf("round %d: %d rows from %d to %d, at most %d", round, to-from, got[i-1],
					got[i], most)
			}
		}
	}
	var long [][]int64
	for g := range int64(3) {
		cuts := []int64{0}
		for i := range int64(store.MaxSlices) {
			cuts = append(cuts, 1+i*7+g)
		}
		long = append(long, cuts)
	}
	if got := joinCuts(long); len(got) > store.MaxSlices+1 ||
		got[len(got)-1] != long[0][store.MaxSlices] {
		t.Errorf("%d cuts, the last %v", len(got), fmt.Sprint(got[len(got)-1]))
	}
}

// A cluster that is a copy holds what the group that is ahead of the others holds.
func TestJoinedStatesHoldTheMost(t *testing.T) {
	got, err := joinStates([]store.State{
		{Of: "a", HorizonNs: 10, Held: 1, HeldNs: 10},
		{Of: "a", HorizonNs: 30, Held: 3, HeldNs: 30},
		{Of: "a", HorizonNs: 20, Held: 2, HeldNs: 20}, {Empty: true}})
	if err != nil || got.HorizonNs != 0 || got.Held != 3 || got.HeldNs != 30 {
		t.Errorf("%+v, %v", got, err)
	}
}
