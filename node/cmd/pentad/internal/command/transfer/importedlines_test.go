package transfer

import (
	"testing"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
)

// A note about repeated keys says how many, where and what became of them.
func TestRepeatsText(t *testing.T) {
	f := func(r csvimport.Repeats, want string) {
		t.Helper()
		if got := repeatsText(&r); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	const (
		key     = " the key (cid, mid, moid, cap) of an earlier line"
		version = " stored as a newer version: the later one is the latest, --view all shows both"
		unknown = "; not all lines could be compared with all earlier ones, because the import " +
			"has more keys than are remembered"
	)
	near := &csvimport.Repeat{File: "a.csv", Line: 9, EarlierFile: "a.csv", EarlierLine: 2}
	far := &csvimport.Repeat{File: "b.csv", Line: 9, EarlierFile: "a.csv", EarlierLine: 2}
	same := &csvimport.Repeat{File: "a.csv", Line: 9, EarlierFile: "a.csv", EarlierLine: 9}
	f(csvimport.Repeats{}, "")
	f(csvimport.Repeats{AtLeast: true}, "no line was found to repeat the key of an earlier line"+
		unknown)
	f(csvimport.Repeats{Lines: 1, First: near}, "1 line repeats"+key+": a.csv line 9 that of line "+
		"2; it is"+version)
	f(csvimport.Repeats{Lines: 1, Equal: 1, First: far}, "1 line repeats"+key+
		": b.csv line 9 that of a.csv line 2, with the same values; it is"+version)
	f(csvimport.Repeats{Lines: 1200, Equal: 1200, First: near}, "1,200 lines repeat"+key+
		", e.g. a.csv line 9 that of line 2, all with the same values; each is"+version)
	f(csvimport.Repeats{Lines: 3, Equal: 1, AtLeast: true, First: same}, "at least 3 lines repeat"+
		key+", e.g. a.csv line 9 has two values with one key (give each its own moid), 1 of them "+
		"with the same values; each is"+version+unknown)
}
