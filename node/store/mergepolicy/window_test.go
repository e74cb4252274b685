package mergepolicy

import (
	"fmt"
	"strings"
	"testing"
)

// Neighbours are merged when their newest rows are of one window, the narrowest of theirs.
func TestTogether(t *testing.T) {
	f := func(widths []int64, newest []int64, want string) {
		t.Helper()
		all := make([]Segment, len(widths))
		for i := range all {
			all[i].Newest = Window{widths[i], newest[i], newest[i]}
		}
		var got []string
		for from, to := range eachMergeable(all, 0, len(all)) {
			got = append(got, fmt.Sprint(to-from, hasEnded(all, from, to, len(all))))
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("windows %v of %v: %s, want %s", newest, widths, got, want)
		}
	}
	f(nil, nil, "")
	f([]int64{0, 0, 0}, []int64{1, 100, 1000}, "3 false")
	f([]int64{10, 10, 10, 10, 10}, []int64{1, 5, 9, 10, 31}, "3 true, 1 true, 1 false")
	f([]int64{10, 10, 10}, []int64{-11, -10, -1}, "1 true, 2 false")
	f([]int64{10, 0, 10}, []int64{1, 5, 9}, "3 false")
	f([]int64{0, 0, 10}, []int64{1, 50, 55}, "2 false, 1 false")
	f([]int64{100, 100, 10, 10}, []int64{1, 50, 55, 60}, "2 false, 1 true, 1 false")
	f([]int64{100, 100, 10}, []int64{1, 50, 155}, "2 true, 1 false")
	f([]int64{10, 10, 10, 10}, []int64{1, 31, 2, 32}, "1 true, 1 true, 1 true, 1 false")
}
