// Package tsbs is a workload of the shape of the Time Series Benchmark Suite's "devops, cpu only":
// hosts that send ten metrics every ten seconds, and the queries of its dashboards.
//
// A record is one metric, where TSBS has a row of ten: rows per second here are ten times those
// that are published for it. Its main type is [Config].
package tsbs

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	metrics = 10
	tenant  = 1
	user    = 0 // metric 0 is usage_user
	stepNs  = int64(10 * time.Second)
	hourNs  = int64(time.Hour)
	ticks   = 13 * 360 // 13 hours: the longest query asks for 12
	high    = 90       // percent

	wideHosts = 4000
)

// Config is a size and a seed.
type Config struct {
	Hosts int
	Ticks int
	Seed  uint64
}

// Sized returns the workload with about that many rows: 13 hours of as many hosts as it takes.
func Sized(rows int) Config {
	return Config{Hosts: max(2, rows/(metrics*ticks)), Ticks: ticks, Seed: 3}
}

// Wide returns the workload with about that many rows: 4,000 hosts for as long as it takes.
func Wide(rows int) Config {
	return Config{Hosts: wideHosts, Ticks: max(1, rows/(metrics*wideHosts)), Seed: 3}
}

func (c Config) start() int64 { return time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano() }

func (c Config) end() int64 { return c.start() + int64(c.Ticks)*stepNs }

// Workload returns the load and its queries.
func (c Config) Workload() *workload.Workload {
	return &workload.Workload{Name: fmt.Sprintf("tsbs, %d hosts", c.Hosts),
		PayloadBytes: system.NumberBytes,
		About: "TSBS-like devops: hosts with ten cpu metrics, a walk of whole percents, every " +
			"10 s; a record is one metric; payload: float64",
		Phases: []workload.Phase{{Stream: c.stream, Queries: c.queries}}}
}

func (c Config) stream() (workload.Stream, error) {
	rng := rand.New(rand.NewPCG(c.Seed, 1))
	s := &stream{c: c, rng: rng, values: make([]int8, c.Hosts*metrics)}
	for i := range s.values {
		s.values[i] = int8(rng.IntN(101))
	}
	return s, nil
}

// stream makes all hosts' metrics of a tick, then those of the next.
type stream struct {
	c      Config
	rng    *rand.Rand
	values []int8
	tick   int
	next   int // of values
	batch  workload.Batcher
}

// Next implements [workload.Stream].
func (s *stream) Next(b *record.Batch) bool {
	workload.Begin(b)
	for b.Len() < workload.BatchRows && s.tick < s.c.Ticks {
		v := &s.values[s.next]
		*v = min(100, max(0, *v+int8(s.rng.IntN(5))-2))
		workload.AppendRow(b, tenant, int64(s.next/metrics), int32(s.next%metrics),
			s.c.start()+int64(s.tick)*stepNs, float64(*v))
		if s.next++; s.next == len(s.values) {
			s.next, s.tick = 0, s.tick+1
		}
	}
	return s.batch.Seal(b, s.c.start()+int64(s.tick)*stepNs+int64(time.Second))
}

// Err implements [workload.Stream].
func (s *stream) Err() error { return nil }

func (c Config) queries(*workload.Survey) []workload.Query {
	p := picker{c, rand.New(rand.NewPCG(c.Seed, 2))}
	return []workload.Query{
		workload.Once("lastpoint", "last reading of every host and metric",
			system.Query{Want: system.WantLast}),
		workload.Boxes("single-groupby-1-1-1", "max per minute of one metric of a host, an hour",
			func() system.Query { return p.groups(1, 1, 1, time.Minute) }),
		workload.Boxes("single-groupby-5-8-1", "max per minute of 5 metrics of 8 hosts, an hour",
			func() system.Query { return p.groups(5, 8, 1, time.Minute) }),
		workload.Boxes("cpu-max-all-1", "max per hour of all metrics of a host, 8 hours",
			func() system.Query { return p.groups(metrics, 1, 8, time.Hour) }),
		workload.Boxes("double-groupby-1", "mean per hour and host of one metric, 12 hours",
			func() system.Query { return p.means(1) }),
		workload.Boxes("double-groupby-all", "mean per hour and host of all metrics, 12 hours",
			func() system.Query { return p.means(metrics) }),
		workload.Boxes("high-cpu-1", "readings of usage_user above 90 of a host, 12 hours",
			func() system.Query { return p.above(1) }),
		workload.Boxes("high-cpu-all", "readings of usage_user above 90 of all hosts, 12 hours",
			func() system.Query { return p.above(c.Hosts) }),
		workload.Boxes("raw-1", "all readings of one metric of a host, 12 hours",
			func() system.Query { return p.raw(1) }),
		workload.Boxes("raw-100", "all readings of one metric of 100 hosts, 12 hours",
			func() system.Query { return p.raw(100) }),
	}
}

// picker chooses boxes.
type picker struct {
	c   Config
	rng *rand.Rand
}

// box is a number of metrics and of neighbouring hosts for some hours. It begins at a whole number
// of times every: as dashboards do, groups begin with whole buckets.
func (p picker) box(metricCount, hosts, hours int, every int64) (x record.Box) {
	x[record.CID] = workload.Point(tenant)
	if hosts < p.c.Hosts {
		from := p.rng.Int64N(int64(p.c.Hosts - hosts + 1))
		x[record.MID] = record.RangeSet{{From: from, To: from + int64(hosts)}}
	}
	if metricCount < metrics {
		x[record.MOID] = record.RangeSet{{From: user, To: user + int64(metricCount)}}
	}
	x[record.Cap] = workload.Window(p.rng, p.c.start(), p.c.end(), int64(hours)*hourNs, every)
	return x
}

// groups asks for the greatest value per metric and bucket, over all hosts.
func (p picker) groups(metricCount, hosts, hours int, bucket time.Duration) (q system.Query) {
	q.Want, q.Func = system.WantGroups, system.FuncMax
	q.By = record.GroupBy{MOID: true, CapBucketNs: int64(bucket)}
	q.Box = p.box(metricCount, hosts, hours, int64(bucket))
	return q
}

// means asks for the mean per host, metric and hour.
func (p picker) means(metricCount int) (q system.Query) {
	q.Want, q.Func = system.WantGroups, system.FuncMean
	q.By = record.GroupBy{MID: true, MOID: true, CapBucketNs: hourNs}
	q.Box = p.box(metricCount, p.c.Hosts, 12, hourNs)
	return q
}

func (p picker) raw(hosts int) (q system.Query) {
	q.Box = p.box(1, min(hosts, p.c.Hosts), 12, stepNs)
	return q
}

func (p picker) above(hosts int) (q system.Query) {
	q.Want, q.Above = system.WantAbove, high
	q.Box = p.box(1, hosts, 12, stepNs)
	return q
}
