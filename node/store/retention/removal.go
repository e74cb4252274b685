package retention

import (
	"math"

	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/record"
)

// Removal is what a retention lets be removed, and by when segments are to be free of it.
type Removal struct {
	Removable
	Key    RemovalKey
	RestNs int64 // how long its rows may rest
}

// RemovalKey tells the removals of a policy and dimension from others. Of several only the newest
// one will be replaced by another one, which has its key.
type RemovalKey struct {
	ScopeKey
	dim   record.Dim
	fixed Removable // zero for the newest
}

// EndNs returns when all that a removal concerns is to be gone, if no later one has come.
func (r *Removal) EndNs() int64 { return r.TimeNs + r.RestNs }

// Rested returns for how long a row that the removal concerns has been removable, as its floor has
// moved since.
func (r *Removal) Rested(capNs, acqNs int64) int64 {
	valueNs := capNs
	if r.Key.dim == record.Acq {
		valueNs = acqNs
	}
	return int64(min(absDiff(r.FloorNs, valueNs), math.MaxInt64))
}

// Removals says when the rows of each of the policy's events go.
func (p *Policy) Removals(nowNs, ranNs int64) (all []*event.RemovalForecast) {
	for _, d := range p.dimensions() {
		for _, g := range d.Gone {
			if !d.Hidden.covers(g.Bound) {
				all = append(all, &event.RemovalForecast{NextNs: g.TimeNs,
					DoneNs: g.TimeNs + d.restOf(g)})
			}
		}
		if d.Hidden.none() {
			continue
		}
		delay := p.Delay(d.ageNs)
		period := periodOf(d.ageNs, delay)
		left := func(m Mark) int64 { return max(0, m.RanNs+delay-ranNs) }
		first, last := delay, period+delay
		if n := len(d.Marks); n > 0 {
			first = left(d.Marks[0])
			if d.Marks[n-1].covers(d.Hidden) {
				last = left(d.Marks[n-1])
			}
		}
		last += delay/ticksPerDelay + int64(MinStep)
		all = append(all, &event.RemovalForecast{NextNs: nowNs + first,
			DoneNs: nowNs + last + removalDelay(d.ageNs) + period})
	}
	return all
}
