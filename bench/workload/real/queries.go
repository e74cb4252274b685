package real

import (
	"math/rand/v2"
	"time"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/sdk/record"
)

// queries asks about the first devices of each set, which every size of the workload has.
func (c Config) queries(*workload.Survey) []workload.Query {
	rng := rand.New(rand.NewPCG(c.Seed, 2))
	const dayNs = int64(24 * time.Hour)
	// Small loads hold the first station for all years, and the counters from January 2015 on. The
	// sets are of years that hardly meet: a window anywhere would mostly be empty.
	month := func(year int, days int64) record.RangeSet {
		from := time.Date(year, 1, 1+rng.IntN(28), 0, 0, 0, 0, time.UTC).UnixNano()
		return record.RangeSet{{From: from, To: from + days*dayNs}}
	}
	return []workload.Query{
		workload.Boxes("R1", "a water meter, everything", func() (q system.Query) {
			q.Box[record.CID], q.Box[record.MID] = workload.Point(water),
				workload.Point(rng.Int64N(3))
			return q
		}),
		workload.Boxes("R2", "a station's temperature, 30 days", func() (q system.Query) {
			q.Box[record.CID], q.Box[record.MID] = workload.Point(air), workload.Point(0)
			q.Box[record.MOID], q.Box[record.Cap] = workload.Point(airTemperature),
				month(2014, 30)
			return q
		}),
		workload.Boxes("R3", "all counters of a city, a day", func() (q system.Query) {
			q.Box[record.CID], q.Box[record.Cap] = workload.Point(counters),
				month(2015, 1)
			return q
		}),
		workload.Boxes("R4", "everything of a week", func() (q system.Query) {
			q.Box[record.Cap] = month(2015, 7)
			return q
		}),
		workload.Once("R5", "last reading of every series", system.Query{Want: system.WantLast}),
		workload.Boxes("R6", "counts above 3000 vehicles an hour, 30 days",
			func() (q system.Query) {
				q.Want, q.Above = system.WantAbove, 3000
				q.Box[record.CID], q.Box[record.Cap] = workload.Point(counters),
					month(2015, 30)
				return q
			}),
		workload.Boxes("R7", "greatest value per day and quantity of a station, 90 days",
			func() (q system.Query) {
				q.Want, q.Func = system.WantGroups, system.FuncMax
				q.By = record.GroupBy{MOID: true, CapBucketNs: dayNs}
				q.Box[record.CID], q.Box[record.MID] = workload.Point(air), workload.Point(0)
				q.Box[record.Cap] = month(2014, 90)
				return q
			}),
		workload.Boxes("R8", "count: a year of a city", func() (q system.Query) {
			q.Want = system.WantCount
			years := [...]int{water: 2016, air: 2014, traffic: 2023, counters: 2015}
			city := 1 + rng.IntN(counters)
			q.Box[record.CID] = workload.Point(int64(city))
			q.Box[record.Cap] = month(years[city], 365)
			return q
		}),
	}
}
