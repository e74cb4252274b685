package retention

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// Merges know of ages. A segment whose rows expire over a long time is rewritten again and again
// meanwhile, so neighbours are merged only when their newest rows expire in the same window, a part
// of the shortest age that rows in them have yet to reach. Then a segment is rewritten a few times
// for each policy, and deleted unread where all its rows expire.
const (
	// windowsPerAge: with 5 segments are rewritten up to half as often again, with 16 there are
	// twice as many to ask, see TestRetentionWriteCost.
	windowsPerAge = 8
	// maxWindow is of ages of years, whose rows rest for maxRemovalDelay at most: segments of wider
	// windows would be rewritten more often.
	maxWindow = 120 * 24 * time.Hour
)

// AgeRule is what merges know of one age of a policy.
type AgeRule struct {
	Scope
	Dim      record.Dim
	WindowNs int64
	FloorNs  int64 // rows below it are removable
}

// Ages are the rules of the policies, the shortest windows first.
func Ages(policies []Policy) (all []AgeRule) {
	for i := range policies {
		p := &policies[i]
		for _, d := range p.dimensions() {
			if d.ageNs == 0 {
				continue
			}
			r := AgeRule{p.Scope, d.dim, max(1, min(d.ageNs/windowsPerAge, int64(maxWindow))),
				math.MinInt64}
			for _, g := range d.Gone {
				r.FloorNs = max(r.FloorNs, g.FloorNs)
			}
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b AgeRule) int {
		return cmp.Compare(a.WindowNs, b.WindowNs)
	})
	return all
}
