// Package thesis is the workload of a published measurement of DynamoDB for sensors: 100 of them
// send a value of ten decimal digits every ten seconds for three years.
//
// The thesis stored 946,080,000 values in 75.8 GiB, in two tables because one has no second order.
// Its main type is [Config].
package thesis

import (
	"math/rand/v2"
	"time"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/sdk/record"
)

// FullRows is the size of the published use case.
const FullRows = 946_080_000

const (
	sensors  = 100
	tenant   = 1
	quantity = 1
	firstMID = 1
	stepNs   = int64(10 * time.Second)
	hourNs   = int64(time.Hour)
	dayNs    = 24 * hourNs
	values   = 10_000_000_000 // ten digits
	top      = 0.99           // of the values are below what is asked for
)

// Config is a size and a seed.
type Config struct {
	Ticks int // readings of each sensor
	Seed  uint64
}

// Sized returns the workload with about that many rows: fewer rows are a shorter time.
func Sized(rows int) Config { return Config{Ticks: max(1, rows/sensors), Seed: 2} }

func (c Config) start() int64 { return time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano() }

func (c Config) end() int64 { return c.start() + int64(c.Ticks)*stepNs }

// Workload returns the load and its queries.
func (c Config) Workload() *workload.Workload {
	return &workload.Workload{Name: "thesis", PayloadBytes: system.NumberBytes,
		Devices: devices(), DevicesCID: tenant,
		About: "100 sensors, a random value of ten digits every 10 s; payload: float64",
		Phases: []workload.Phase{{
			Stream: func() (workload.Stream, error) {
				return &stream{c: c, startNs: c.start()}, nil
			},
			Queries: c.queries}}}
}

// stream makes all sensors' readings of a tick, then those of the next.
type stream struct {
	c       Config
	startNs int64
	tick    int
	sensor  int
	batch   workload.Batcher
}

// Next implements [workload.Stream].
func (s *stream) Next(b *record.Batch) bool {
	workload.Begin(b)
	for b.Len() < workload.BatchRows && s.tick < s.c.Ticks {
		h := workload.Mix(s.c.Seed<<48 ^ uint64(s.sensor)<<40 ^ uint64(s.tick))
		workload.AppendRow(b, tenant, int64(firstMID+s.sensor), quantity,
			s.startNs+int64(s.tick)*stepNs, float64(h%values))
		if s.sensor++; s.sensor == sensors {
			s.sensor, s.tick = 0, s.tick+1
		}
	}
	return s.batch.Seal(b, s.startNs+int64(s.tick)*stepNs+int64(time.Second))
}

// Err implements [workload.Stream].
func (s *stream) Err() error { return nil }

func (c Config) queries(*workload.Survey) []workload.Query {
	rng := rand.New(rand.NewPCG(c.Seed, 2))
	window := func(widthNs int64) record.RangeSet {
		return workload.Window(rng, c.start(), c.end(), widthNs, stepNs)
	}
	sensor := func() (q system.Query) {
		q.Box[record.CID], q.Box[record.MOID] = workload.Point(tenant), workload.Point(quantity)
		q.Box[record.MID] = workload.Point(firstMID + rng.Int64N(sensors))
		return q
	}
	return []workload.Query{
		workload.Boxes("T1", "a day of a sensor", func() system.Query {
			q := sensor()
			q.Box[record.Cap] = window(dayNs)
			return q
		}),
		workload.Boxes("T2", "latest value of a sensor", func() system.Query {
			q := sensor()
			q.Want = system.WantLast
			return q
		}),
		workload.Boxes("T3", "values in the top hundredth, a sensor, 30 days", func() system.Query {
			q := sensor()
			q.Want, q.Above = system.WantAbove, top*values
			q.Box[record.Cap] = window(30 * dayNs)
			return q
		}),
		workload.Boxes("T4", "everything in an hour", func() (q system.Query) {
			q.Box[record.Cap] = window(hourNs)
			return q
		}),
		workload.Once("T5", "latest value of every sensor", system.Query{Want: system.WantLast}),
		described(rng, window),
	}
}
