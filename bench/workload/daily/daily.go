// Package daily is a day of smart meters that arrives in one burst after midnight: 48 half-hourly
// readings of every meter, a meter after the other, and what a supplier asks before the bills.
//
// The published record is a day of 10 million meters loaded and processed in under 36 minutes, on
// 16 cores. Its main type is [Config].
package daily

import (
	"math/rand/v2"
	"time"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/sdk/record"
)

// Slots is the number of readings of a meter: half-hours of a day.
const Slots = 48

const (
	tenants  = 4
	energy   = 1 // quantity: Wh in the half-hour
	firstMID = 1_000_000_000
	slotNs   = int64(30 * time.Minute)
	dayNs    = Slots * slotNs
	gapNs    = int64(50 * time.Millisecond) // between batches
	maxWh    = 2000
)

// Config is a size and a seed.
type Config struct {
	Meters int
	Seed   uint64
}

// Sized returns the workload with about that many rows.
func Sized(rows int) Config { return Config{Meters: max(100, rows/Slots), Seed: 4} }

func (c Config) start() int64 { return time.Date(2024, 3, 4, 0, 0, 0, 0, time.UTC).UnixNano() }

// Workload returns the load and its queries.
func (c Config) Workload() *workload.Workload {
	return &workload.Workload{Name: "daily", PayloadBytes: system.NumberBytes,
		About: "daily close: 48 half-hours of every meter, in one burst after midnight, meter " +
			"by meter in no order; payload: float64, whole Wh",
		Phases: []workload.Phase{{
			Stream:  func() (workload.Stream, error) { return c.stream(), nil },
			Queries: c.queries}}}
}

// stream makes a meter's day, then that of another.
type stream struct {
	c      Config
	step   int // from meter to meter; coprime to their number
	place  int
	slot   int
	number int64 // of the batch
	batch  workload.Batcher
}

func (c Config) stream() *stream {
	return &stream{c: c, step: workload.Step(c.Meters*3/5, c.Meters)}
}

// Next implements [workload.Stream].
func (s *stream) Next(b *record.Batch) bool {
	workload.Begin(b)
	for b.Len() < workload.BatchRows && s.place < s.c.Meters {
		meter := int64(s.place) * int64(s.step) % int64(s.c.Meters)
		h := workload.Mix(s.c.Seed<<56 ^ uint64(meter)<<8 ^ uint64(s.slot))
		workload.AppendRow(b, tenant(meter), firstMID+meter, energy,
			s.c.start()+int64(s.slot)*slotNs, float64(h%maxWh))
		if s.slot++; s.slot == Slots {
			s.slot, s.place = 0, s.place+1
		}
	}
	s.number++
	return s.batch.Seal(b, s.c.start()+dayNs+s.number*gapNs)
}

// Err implements [workload.Stream].
func (s *stream) Err() error { return nil }

func tenant(meter int64) int32 { return int32(workload.Mix(uint64(meter)) % tenants) }

func (c Config) queries(*workload.Survey) []workload.Query {
	rng := rand.New(rand.NewPCG(c.Seed, 2))
	meters := func(n int64) record.RangeSet {
		n = min(n, int64(c.Meters))
		from := firstMID + rng.Int64N(int64(c.Meters)-n+1)
		return record.RangeSet{{From: from, To: from + n}}
	}
	slots := func(n int64) record.RangeSet {
		return workload.Window(rng, c.start(), c.start()+dayNs, n*slotNs, slotNs)
	}
	return []workload.Query{
		workload.Boxes("D1", "a meter's day", func() (q system.Query) {
			m := rng.Int64N(int64(c.Meters))
			q.Box[record.CID] = workload.Point(int64(tenant(m)))
			q.Box[record.MID] = workload.Point(firstMID + m)
			q.Box[record.MOID] = workload.Point(energy)
			return q
		}),
		workload.Boxes("D2", "count: all readings of a half-hour", func() (q system.Query) {
			q.Want, q.Box[record.Cap] = system.WantCount, slots(1)
			return q
		}),
		workload.Boxes("D3", "the day's sum of each of 1,000 meters", func() (q system.Query) {
			q.Want, q.Func, q.By = system.WantGroups, system.FuncSum, record.GroupBy{MID: true}
			q.Box[record.MID] = meters(1000)
			return q
		}),
		workload.Boxes("D4", "sum per half-hour of a tenant, two hours", func() (q system.Query) {
			q.Want, q.Func = system.WantGroups, system.FuncSum
			q.By = record.GroupBy{CapBucketNs: slotNs}
			q.Box[record.CID] = workload.Point(rng.Int64N(tenants))
			q.Box[record.Cap] = slots(4)
			return q
		}),
		workload.Boxes("D5", "1,000 meters' half-hours above 1,980 Wh", func() (q system.Query) {
			q.Want, q.Above, q.Box[record.MID] = system.WantAbove, 1980, meters(1000)
			return q
		}),
	}
}
