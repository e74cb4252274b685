// Package corrections is 60 days of meters of which a part comes late or is corrected at the end,
// and the questions of billing: what is known now, what was known then, what has changed.
//
// Its main type is [Config].
package corrections

import (
	"math/rand/v2"
	"time"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	days     = 60
	slots    = days * 48 // half-hours
	tenants  = 4
	energy   = 1
	firstMID = 7_000_000
	slotNs   = int64(30 * time.Minute)
	dayNs    = int64(24 * time.Hour)
	late     = 0.025 // come after the 60 days
	fixed    = 0.025 // are corrected after the 60 days
)

// Config is a size and a seed.
type Config struct {
	Meters int
	Seed   uint64
}

// Sized returns the workload with about that many rows, and twelve meters at least.
func Sized(rows int) Config { return Config{Meters: max(12, rows/slots), Seed: 5} }

func (c Config) start() int64 { return time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano() }

// Workload returns the load and its queries.
func (c Config) Workload() *workload.Workload {
	stream := func(after bool) func() (workload.Stream, error) {
		return func() (workload.Stream, error) { return &stream{c: c, after: after}, nil }
	}
	return &workload.Workload{Name: "corrections", PayloadBytes: system.NumberBytes, Versions: true,
		About: "half-hours of 60 days; then 2.5 % that come late and 2.5 % that are corrected; " +
			"payload: float64",
		Phases: []workload.Phase{
			{Name: "before", Stream: stream(false),
				Queries: func(s *workload.Survey) []workload.Query { return c.queries(s, false) }},
			{Name: "after", Stream: stream(true),
				Queries: func(s *workload.Survey) []workload.Query { return c.queries(s, true) }}}}
}

// stream makes all meters' readings of a slot, then those of the next: those in time or, after the
// 60 days, the late ones and the corrections.
type stream struct {
	c     Config
	after bool
	slot  int
	meter int
	batch workload.Batcher
}

// Next implements [workload.Stream].
func (s *stream) Next(b *record.Batch) bool {
	workload.Begin(b)
	for b.Len() < workload.BatchRows && s.slot < slots {
		h := workload.Mix(s.c.Seed<<56 ^ uint64(s.meter)<<24 ^ uint64(s.slot))
		value := float64(h % 3000)
		part := float64(workload.Mix(h)>>11) / (1 << 53)
		if s.after && part >= late && part < late+fixed {
			value += 3000
		}
		if s.after == (part < late) || s.after && part < late+fixed {
			workload.AppendRow(b, int32(s.meter%tenants), firstMID+int64(s.meter), energy,
				s.c.start()+int64(s.slot)*slotNs, value)
		}
		if s.meter++; s.meter == s.c.Meters {
			s.meter, s.slot = 0, s.slot+1
		}
	}
	arrival := s.c.start() + int64(s.slot)*slotNs + int64(time.Minute)
	if s.after { // in the hour after the last day
		arrival = s.c.start() + days*dayNs + int64(time.Hour) + int64(s.slot)*int64(time.Second)
	}
	return s.batch.Seal(b, arrival)
}

// Err implements [workload.Stream].
func (s *stream) Err() error { return nil }

// queries asks for the state now, for the state at the end of the 60 days and, after, for what has
// changed since.
func (c Config) queries(s *workload.Survey, after bool) []workload.Query {
	end := s.Between(c.start() + days*dayNs + int64(time.Hour))
	states := []struct {
		name, about string
		view        record.View
	}{{"latest", "as known now", record.ViewLatest}, {"as-of", "as known after the 60 days",
		record.ViewAsOf}}
	known := int64(days) // what a past state may know
	if !after {          // half of the batches
		end, known = s.Stamps[len(s.Stamps)/2], days/2
		states[1].about = "as known after 30 days"
	}
	rng := rand.New(rand.NewPCG(c.Seed, 2))
	ask := func(name, about string, want system.Want, meters int64, width int64) []workload.Query {
		var out []workload.Query
		for _, state := range states {
			out = append(out, workload.Boxes(name+" "+state.name, about+", "+state.about,
				func() (q system.Query) {
					q.View, q.Want = state.view, want
					span := days * dayNs
					if q.View == record.ViewAsOf {
						q.AsOfAcqNs, span = end, known*dayNs
					}
					n := min(meters, int64(c.Meters))
					from := firstMID + rng.Int64N(int64(c.Meters)-n+1)
					q.Box[record.MID] = record.RangeSet{{From: from, To: from + n}}
					q.Box[record.Cap] = workload.Window(rng, c.start(), c.start()+span, width,
						dayNs)
					return q
				}))
		}
		return out
	}
	out := ask("month", "a meter's month", system.WantRows, 1, 30*dayNs)
	out = append(out, ask("day", "a day of 100 meters", system.WantRows, 100, dayNs)...)
	out = append(out, ask("count", "count: a week of half the meters", system.WantCount,
		int64(c.Meters/2), 7*dayNs)...)
	if !after {
		return out
	}
	return append(out, workload.Boxes("changes", "what has changed in a day's readings since",
		func() (q system.Query) {
			q.Box[record.Acq] = record.RangeSet{{From: end, To: record.Acq.Max()}}
			q.Box[record.Cap] = workload.Window(rng, c.start(), c.start()+days*dayNs, dayNs, dayNs)
			return q
		}))
}
