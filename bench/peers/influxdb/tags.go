package influxdb

import (
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/bench/peers/digits"
	"github.com/pentad-db/pentad/sdk/record"
)

// tagCondition returns the condition of a tag, or nothing when all of the extent is asked for. Tags
// are text: a range of numbers is a regular expression of their digits.
func tagCondition(d record.Dim, set record.RangeSet, extent record.Range) string {
	if len(set) == 0 {
		return ""
	}
	var patterns []string
	for _, r := range set {
		if r.From <= extent.From && r.To >= extent.To {
			return ""
		}
		patterns = digits.AppendPatterns(patterns, r.From, r.To-1)
	}
	if r := set[0]; len(set) == 1 && r.To-r.From == 1 {
		return d.String() + " = '" + strconv.FormatInt(r.From, 10) + "'"
	}
	return d.String() + " =~ /^(?:" + strings.Join(patterns, "|") + ")$/"
}
