package bounds

import (
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// Halve cuts a box in two, the greater keys first, where about half of some rows of it lie that
// have one acq. It returns nil when they do not differ in another dimension either.
func Halve(box *record.Box, rows *record.Batch) []record.Box {
	values := make([]int64, rows.Len())
	for _, d := range []record.Dim{record.CID, record.MID, record.MOID, record.Cap} {
		for i := range values {
			values[i] = rows.Key(i).Part(d)
		}
		slices.Sort(values)
		least, at := values[0], values[len(values)/2]
		if at == least {
			at = values[sortedAbove(values, least)]
		}
		if at > least {
			low, high := Cut(box, d, at)
			return []record.Box{high, low}
		}
	}
	return nil
}

// sortedAbove returns the number of the first of some ascending values above one, or of the last.
func sortedAbove(values []int64, above int64) int {
	at, _ := slices.BinarySearch(values, above+1)
	return min(at, len(values)-1)
}
