package store

import (
	"errors"
	"slices"
	"testing"
)

// TestOverlap: all that is made is used, in order, until there is an error.
func TestOverlap(t *testing.T) {
	made, used := errors.New("made"), errors.New("used")
	f := func(count, failMake, failUse int, want error) {
		t.Helper()
		var got []int
		own, spare := new(int), make([]int, 1+count%3)
		err := overlap(spare, func(give giveFunc[int]) (err error) {
			for i := range count {
				if i == failMake {
					return made
				}
				*own = i
				if own, err = give(own); err != nil {
					return err
				}
			}
			return nil
		}, func(i *int) error {
			if *i == failUse {
				return used
			}
			got = append(got, *i)
			return nil
		})
		if !errors.Is(err, want) {
			t.Errorf("%d of %d made, %d not used: %v", failMake, count, failUse, err)
		}
		for i := range got {
			if got[i] != i {
				t.Errorf("%d made, used %v", count, got)
			}
		}
		if want == nil && len(got) != count || slices.Contains(got, failUse) {
			t.Errorf("%d made, %d used", count, len(got))
		}
	}
	f(0, -1, -1, nil)
	f(1, -1, -1, nil)
	f(100, -1, -1, nil)
	f(100, 0, -1, made)
	f(100, 50, -1, made)
	f(100, -1, 0, used)
	f(100, -1, 50, used)
	f(100, -1, 99, used)
	f(100, 99, 3, used)
}
