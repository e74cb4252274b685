package node_test

// measurements is the part of packages for the module bench; what pentad is compared with has a
// folder each.
func measurements() map[string][]string {
	return map[string][]string{
		"bench":        {"bench", "sdk", "node", "plugins", "wasmhost", "github.com/spf13/cobra"},
		"bench/figure": {}, "bench/journal": {}, "bench/process": {},
		"bench/soak": {"bench/figure", "bench/kernels", "bench/process", "sdk", "node",
			"node/store"},
		"bench/kernels":  {"sdk/plugin", "wasmhost", "github.com/tetratelabs/wazero"},
		"bench/report":   {"bench/figure", "gonum.org/v1/plot", "golang.org/x/image"},
		"bench/results":  {"bench/figure", "bench/report"},
		"bench/system":   {"sdk/record"},
		"bench/workload": {"bench/workload", "bench/system", "sdk/record"},
		"bench/runner": {"bench/journal", "bench/process", "bench/report", "bench/system",
			"bench/workload", "sdk/record"},
		"bench/peers/server": {"bench/system"},
		"bench/peers/peertest": {"bench/system", "bench/workload", "sdk/record",
			"cluster-test/required"},
		"bench/peers/ordered": {"bench/system", "sdk/record"},
		"bench/peers/sqltext": {"bench/system", "sdk/record"},
		"bench/peers/pentad":  {"bench/system", "node", "node/store", "sdk"},
		"bench/peers/pebble": {"bench/system", "bench/peers/ordered", "sdk/record",
			"github.com/cockroachdb/pebble/v2"},
		"bench/peers/duckdb": {"bench/system", "bench/peers/sqltext", "sdk/record",
			"github.com/duckdb/duckdb-go/v2", "github.com/duckdb/duckdb-go-bindings"},
		"bench/peers/postgres": {"bench/system", "bench/peers/server", "bench/peers/sqltext",
			"sdk/record", "github.com/jackc/pgx/v5"},
		"bench/peers/sqlite": {"bench/system", "bench/peers/sqltext", "sdk/record",
			"github.com/mattn/go-sqlite3"},
		"bench/peers/badger": {"bench/system", "bench/peers/ordered", "sdk/record",
			"github.com/dgraph-io/badger/v4"},
		"bench/peers/bbolt": {"bench/system", "bench/peers/ordered", "sdk/record",
			"go.etcd.io/bbolt"},
		"bench/peers/clickhouse": {"bench/system", "bench/peers/server", "bench/peers/sqltext",
			"sdk/record"},
		"bench/peers/influxdb": {"bench/system", "bench/peers/server", "sdk/record"},
		"bench/peers/redis": {"bench/system", "bench/peers/server", "sdk/record",
			"github.com/redis/go-redis/v9"},
		"bench/peers/prometheus": {"bench/system", "sdk/record",
			"github.com/prometheus/prometheus"},
	}
}
