package results

import (
	"slices"
	"strings"
)

// List returns what RESULTS.md shows, in its order.
func List() []Measurement {
	list := slices.Concat(beside(), alone(), parts())
	for i := range list {
		if m := &list[i]; m.Args[0] == "run" {
			m.Args = append(m.Args, "--name", m.Name)
		}
	}
	return list
}

// Headline names the measurement that the README shows.
const Headline = "meters-20m-embedded"

func args(line string) []string { return strings.Fields(line) }

// beside are runs of several systems.
func beside() []Measurement {
	return []Measurement{
		{Name: Headline, Title: "20 million records, embedded systems",
			About: "The standard workload: 50,000 meters, 16-byte payloads, batches of 10,000 " +
				"records. Each batch is synced before it is acknowledged.",
			Args: args("run --workloads meters --rows 20000000 " +
				"--systems pentad,pebble,pebble-3,duckdb-sorted")},
		{Name: "meters-20m", Title: "20 million records, all systems",
			About: "The same workload in every system that is installed. ClickHouse is Debian's " +
				"package of 2018 and not the current version: its figures say little about " +
				"ClickHouse today.",
			Args: args("run --workloads meters --rows 20000000")},
		{Name: "meters-100m", Title: "100 million records, embedded systems",
			About: "The standard workload with 250,000 meters, asked when each store is at rest.",
			Args: args("run --workloads meters --rows 100000000 " +
				"--systems pentad,pebble,pebble-3,duckdb-sorted")},
		{Name: "workloads", Title: "Six workloads, all systems",
			About: "1.5 to 3 million records each. `tsbs` has the shape of the devops data of " +
				"TSBS at 40 hosts; published TSBS results are of 4,000 hosts, and a row there " +
				"is ten records here. `real` needs the public data sets (`REAL=folder`).",
			Args: args("run"), Real: true},
		{Name: "servers", Title: "SQL and time-series systems, short run",
			About: "300,000 records of the standard workload and of a day of smart meters, a " +
				"fifth of a second for each query and system: enough for orders of magnitude.",
			Args: args("run --workloads meters,daily --rows 300000 --budget 200ms --systems " +
				"pentad,pentad-http,sqlite,postgres,clickhouse,influxdb,redis")},
		{Name: "daily", Title: "A day of a million smart meters",
			About: "48 million readings in one burst. The published record for ten million " +
				"meters is 36 minutes, on 16 cores of 2011 ([sources](README.md)).",
			Args: args("run --workloads daily --rows 48000000 --systems pentad,pebble,duckdb")},
		{Name: "tsbs", Title: "Metrics of 100 hosts, beside VictoriaMetrics",
			About: "4.7 million readings of 1,000 series: ten cpu metrics of 100 hosts, " +
				"every 10 s for 13 hours, walks of whole percents, in the shape of the " +
				"devops data of TSBS. " +
				"`pentad-http` and VictoriaMetrics are asked over HTTP; `pentad` and DuckDB, in " +
				"the process that asks.",
			Args: args("run --workloads tsbs --rows 4680000 " +
				"--systems pentad,pentad-http,victoriametrics,duckdb")},
		{Name: "tsbs-wide", Title: "Metrics of 4,000 hosts, beside VictoriaMetrics",
			About: "28.8 million readings of 40,000 series, two hours.",
			Args:  args("run --workloads tsbs-wide --systems pentad,pentad-http,victoriametrics")},
		{Name: "thesis", Title: "A tenth of the sensor thesis",
			About: "95 million of the 946 million values that a thesis on sensors stored in " +
				"DynamoDB.",
			Args: args("run --workloads thesis --rows 94608000 --systems pentad")},
		{Name: "thesis-full", Title: "The sensor thesis at full size",
			About: "All 946 million values, which took 75.8 GiB in DynamoDB.",
			Args:  args("run --workloads thesis --rows 946080000 --systems pentad")},
	}
}

// alone are measurements of pentad, some of them beside one peer.
func alone() []Measurement {
	return []Measurement{
		{Name: "feed", Title: "Change feeds",
			About: "10 million records in the order of acq, and the latency from the " +
				"acknowledgement of a put to a follower over HTTP.",
			Args: args("feed")},
		{Name: "resident", Title: "An open store",
			About: "Time to open, memory, and the processor time of an idle node.",
			Args:  args("resident --sizes 20e6,100e6")},
		{Name: "cold", Title: "Empty page cache",
			About: "The ten queries of 5 million records in stores just opened.",
			Args:  args("cold")},
		{Name: "growth", Title: "Growth",
			About: "The ten queries at 5, 20 and 100 million records of the same meters, over 4 " +
				"to 85 days. Q1, Q3 to Q6 and Q8 have answers of a fixed size; Q2, one device " +
				"with everything, returns 20 times the rows at the largest size.",
			Args: args("growth")},
		{Name: "underload", Title: "Queries during ingest",
			About: "The ten queries of 20 million records while records arrive at half the top " +
				"acknowledged rate, compared with an idle store.",
			Args: args("underload")},
		{Name: "neighbours", Title: "Several tenants",
			About: "Small queries of one tenant over HTTP while eight clients of another tenant " +
				"read everything it has without a pause: all rows, ordered, the latest state, " +
				"sums, windows.",
			Args: args("neighbours")},
		{Name: "overload", Title: "Overload",
			About: "Twice the puts and twice the queries that a node sustains, with a hard " +
				"limit of 2 GiB. The node refuses the rest at once with Retry-After.",
			Args: args("overload")},
		{Name: "small", Title: "A node in 512 MiB",
			About: "20 million records over HTTP, ten queries, large answers and aggregates, a " +
				"restart and 10,000 malformed requests, with a hard limit of 512 MiB.",
			Args: args("small")},
		{Name: "stalled", Title: "A change feed beside 300 that are not read",
			About: "One client follows what is put while 300 others ask for all changes and read " +
				"nothing, with a hard limit of 256 MiB.",
			Args: args("stalled")},
		{Name: "cluster", Title: "Clusters",
			About: "Clusters of processes on one machine: compared with a stand-alone node, and " +
				"asked through a node that holds no copies. All nodes share the processors of " +
				"the machine, so only ratios carry over to other machines.",
			Args: args("cluster")},
		{Name: "plugins", Title: "Plugins",
			About: "WebAssembly plugins, metered, compared with the same loops in Go; and what " +
				"endless loops of one tenant cost another.",
			Args: args("plugins")},
		{Name: "sealed", Title: "Sealed payloads",
			About: "Sums and filters of encrypted payloads, without a key, compared with the " +
				"same questions about plain ones: the same bytes with a float64 in place of " +
				"the lane that is added up or the tag that is compared. The bars are for " +
				"these; rows whose number comes first need not be read to their end.",
			Args: args("sealed")},
		{Name: "names", Title: "Questions by descriptions of devices",
			About: "A million devices with names, types, projects, places and altitudes, 20 " +
				"readings each. The scenario asks for the readings above a value, in five hours, " +
				"of the devices of a type in a rectangle, below an altitude, of a project, " +
				"about 900 of them: in pentad one question with a selector, elsewhere a join.",
			Args: args("names")},
	}
}

// parts are measurements of parts of a node.
func parts() []Measurement {
	return []Measurement{
		{Name: "shards", Title: "Heads of several shards",
			About: "12 million records of the standard workload, put by four writers into heads " +
				"of one shard and of two, in turns, each acknowledged when it is synced. Nothing " +
				"is sealed meanwhile.",
			Args: args("shards --seal-rows 20000000")},
		{Name: "last", Title: "Last readings",
			About: "The last readings of 4,000 of 50,000 devices: a micro-benchmark of the store.",
			Args:  args("-run ^$ -bench Last ./node/store"), Test: true},
		{Name: "where", Title: "Conditions on fields",
			About: "Conditions on a declared field beside the filter `threshold`, in turns: x is " +
				"how many times as long the filter takes. Of 700,000 readings half, few and " +
				"none meet the condition.",
			Args: args("-run ^$ -bench ^BenchmarkWhere$ ./node"), Test: true},
		{Name: "tstorage", Title: "TStorage clients",
			About: "Rows stored and read through the TStorage gateway, in turn with the native " +
				"client over HTTP.",
			Args: args("-run ^$ -bench Beside -benchtime 5x ./node/gateway/tstorage"), Test: true},
	}
}
