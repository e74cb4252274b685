package victoriametrics

import (
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/bench/peers/digits"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// maxPatterns is how many alternatives a regular expression has at most: more are not indexed.
const maxPatterns = 2000

// seriesOf returns the series of a box.
func seriesOf(box *record.Box, extent *[record.NumDims]record.Range) (string, error) {
	var all []string
	for _, d := range []record.Dim{record.CID, record.MID, record.MOID} {
		condition, patterns := condition(d, box[d], extent[d])
		if patterns > maxPatterns {
			return "", system.UnsupportedError("more ranges of a label than a regular expression " +
				"can say")
		}
		if condition != "" {
			all = append(all, condition)
		}
	}
	return metric + "{" + strings.Join(all, ",") + "}", nil
}

// condition returns that of a label, or nothing when all of the extent is asked for, and how many
// alternatives it has. Short ranges are lists of numbers, which the server looks up.
func condition(d record.Dim, set record.RangeSet, extent record.Range) (string, int) {
	if len(set) == 0 {
		return "", 0
	}
	var patterns []string
	for _, r := range set {
		switch {
		case r.From <= extent.From && r.To >= extent.To:
			return "", 0
		case uint64(r.To)-uint64(r.From) <= maxPatterns/10:
			for v := r.From; v < r.To; v++ {
				patterns = append(patterns, strconv.FormatInt(v, 10))
			}
		default:
			patterns = digits.AppendPatterns(patterns, r.From, r.To-1)
		}
	}
	if len(patterns) == 1 && set[0].To-set[0].From == 1 {
		return d.String() + "=" + strconv.Quote(patterns[0]), 1
	}
	return d.String() + "=~" + strconv.Quote(strings.Join(patterns, "|")), len(patterns)
}
