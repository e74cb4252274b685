package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// sampleSystem is how fast a made-up system is.
type sampleSystem struct {
	name, about, durability, class string
	ingest, settled, bytes         float64
	fixedUs, rowUs                 float64
}

func sampleSystems() []sampleSystem {
	synced, written := classSynced, classWritten
	return []sampleSystem{
		{"pentad", "embedded; default options; sealed, not merged", "log synced per batch", synced,
			2.14, 1.72, 9.9, 6, 0.02},
		{"pentad-http", "as pentad, over HTTP on loopback", "log synced per batch", synced, 1.17,
			1.02, 9.9, 45, 0.08},
		{"pebble", "key (cid, mid, moid, cap, acq), bloom filters, 1 GiB cache, skip scans",
			"WAL synced per batch", synced, 0.78, 0.61, 74, 9, 0.6},
		{"pebble-3", "as pebble, with covering copies (cap, moid, cid, mid, acq) and " +
			"(acq, cid, mid, moid, cap); the best copy per query", "WAL synced per batch", synced,
			0.36, 0.26, 148, 7, 0.04},
		{"duckdb", "one table in the order of arrival; zone maps; rows through database/sql",
			"WAL synced per batch (appender flush and commit)", synced, 1.97, 1.9, 14, 3200, 0.12},
		{"duckdb-sorted", "as duckdb, rewritten in the order (cid, mid, moid, cap, acq)",
			"WAL synced per batch (appender flush and commit)", synced, 1.92, 0.95, 11, 2100, 0.12},
		{"sqlite", "WITHOUT ROWID by (cid, mid, moid, cap, acq), indexes (mid, moid, cap), " +
			"(moid, cap), (cap), (acq), table of series; ANALYZE after the load",
			"WAL, synchronous=FULL, a transaction per batch", synced, 0.034, 0.033, 191, 110, 0.7},
		{"postgres", "heap table, btrees (mid, moid, cap), (cap, moid), (acq), table of series; " +
			"4 GB shared_buffers; VACUUM ANALYZE after the load; binary rows through pgx over a " +
			"socket", "COPY in a transaction per batch, fsync on", synced, 0.15, 0.12, 523, 190,
			0.35},
		{"timescale", "hypertable of a day per chunk, compressed by (mid, moid)",
			"COPY in a transaction per batch, fsync on", synced, 0.11, 0.07, 41, 900, 0.4},
		{"clickhouse", "MergeTree ORDER BY (cid, mid, moid, cap, acq), delta and ZSTD codecs; " +
			"native protocol", "fsync_after_insert, a part per batch", synced, 1.3, 0.88, 8.1, 3900,
			0.03},
		{"questdb", "table by cap, partitions of a day, symbols of series",
			"WAL written, no sync per batch", written, 1.6, 1.4, 38, 1100, 0.15},
		{"influxdb", "measurement per quantity, tags cid, moid", "WAL fsync per write", synced,
			0.21, 0.2, 12, 2600, 1.2},
		{"victoriametrics", "series by labels; an import per batch; last value wins",
			"in memory for up to 5 s, then written", written, 0.92, 0.9, 2.3, 1400, 0.5},
		{"badger", "key (cid, mid, moid, cap, acq), values inline, 1 GiB of block cache",
			"value log synced per batch", synced, 0.42, 0.37, 66, 14, 0.9},
	}
}

func sampleQueries() []Query {
	return []Query{
		{Name: "Q1", About: "one device, one quantity, a day", Rows: 19.4},
		{Name: "Q2", About: "one device, everything", Rows: 402},
		{Name: "Q3", About: "100 devices, one quantity, a day", Rows: 1921},
		{Name: "Q4", About: "all devices, one quantity, 15 minutes", Rows: 2010},
		{Name: "Q5", About: "everything of 15 minutes", Rows: 10050},
		{Name: "Q6", About: "everything acquired in a window", Rows: 10000},
		{Name: "Q7", About: "a part of each of the five axes", Rows: 640},
		{Name: "Q8", About: "Q3, latest versions", Rows: 1902},
		{Name: "Q9", About: "count: half the devices, 2 of 5 quantities, half the time",
			Rows: 402_000, Count: true},
		{Name: "Q10", About: "count: one tenant, 40 % of the time", Rows: 401_312, Count: true},
	}
}

// sampleTime makes up the runs of a query.
func sampleTime(rng *rand.Rand, us float64, runs int) Time {
	samples := make([]float64, runs)
	for i := range samples {
		samples[i] = us * math.Exp(0.12*rng.NormFloat64())
		if rng.IntN(25) == 0 {
			samples[i] *= 1 + 4*rng.Float64()
		}
	}
	return Summarise(samples)
}

// sampleResult makes up a result of the first n systems.
func sampleResult(rng *rand.Rand, workload, phase string, n int) Result {
	r := Result{Workload: workload, Phase: phase, Records: 4_020_000, Series: 50_000,
		About: "a fleet of meters, a reading each quarter of an hour; 2 % late by up to 3 days, " +
			"1 % corrected within 3 days; a float64 and a status word",
		Queries: sampleQueries(),
		LeftOut: []string{"greptimedb: no program greptime in PATH",
			"cassandra: needs a JVM, which this machine has not"}}
	systems := sampleSystems()[:n]
	for _, s := range systems {
		r.Systems = append(r.Systems, System{Name: s.name, Version: "v2.1.7", About: s.about,
			Durability: s.durability, DurabilityClass: s.class, Ingest: s.ingest,
			Settled: s.settled, BytesPerRecord: s.bytes,
			Put: sampleTime(rng, 1e4/s.ingest, 402)})
	}
	for i := range r.Queries {
		q := &r.Queries[i]
		for j, s := range systems {
			skew := math.Exp(0.8 * rng.NormFloat64())
			rows := q.Rows
			if q.Count {
				rows /= 12
			}
			t := sampleTime(rng, (s.fixedUs+rows*s.rowUs)*skew, 33)
			if i == 0 && j == 2 {
				t = sampleTime(rng, 5, 33)
			}
			if j > 0 {
				t.Ratio = sampleRatio(t, q.Times[0])
			}
			switch {
			case s.name == "victoriametrics" && (q.Name == "Q6" || q.Name == "Q8"):
				t = Time{Unsupported: "keeps neither versions nor the time of acquisition"}
			case s.name == "influxdb" && q.Name == "Q6":
				t = Time{Unsupported: "has no index by the time of acquisition"}
			}
			q.Times = append(q.Times, t)
		}
	}
	return r
}

func sampleRatio(t, first Time) Ratio {
	var ratios []float64
	for i := range min(len(t.SamplesUs), len(first.SamplesUs)) {
		other := first.SamplesUs[(i*7+3)%len(first.SamplesUs)]
		ratios = append(ratios, t.SamplesUs[i]/other)
	}
	slices.Sort(ratios)
	return SummariseRatios(ratios)
}

// sampleRun makes up a run of this many systems and results.
func sampleRun(systems, results int) *Run {
	rng := rand.New(rand.NewPCG(5, 7))
	r := &Run{Machine: "AMD EPYC 7763, 2 cores, go1.26.8 linux/amd64, load 0.12",
		LoadEnd: "1.94", When: time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC),
		Took: 73*time.Minute + 12*time.Second, Command: "bench run --rows 4000000 --budget 2s"}
	for i := range results {
		workload := []string{"meters", "vehicles", "weather", "vibration", "grid", "sparse"}[i%6]
		phase := []string{"", "first half", "after corrections"}[i%3]
		r.Results = append(r.Results, sampleResult(rng, workload, phase, systems))
	}
	return r
}
