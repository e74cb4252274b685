package node

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/pentad-db/pentad/wasmhost"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics counts requests and publishes the figures of all packages.
type metrics struct {
	once     sync.Once
	requests *prometheus.HistogramVec
}

func (m *metrics) init() {
	m.once.Do(func() {
		m.requests = prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "pentad_node_request_seconds",
			Help:    "Time from a request to its answer or the start of its stream.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}, []string{"status"})
	})
}

func (m *metrics) request(status int, took time.Duration) {
	m.init()
	m.requests.WithLabelValues(strconv.Itoa(status)).Observe(took.Seconds())
}

// handler returns the handler of /metrics.
func (m *metrics) handler(n *Node) http.Handler {
	m.init()
	r := prometheus.NewRegistry()
	r.MustRegister(m.requests, collectors.NewGoCollector(), collector{n},
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// collector publishes the figures of the node and of all that it owns.
type collector struct{ node *Node }

// Describe implements prometheus.Collector; without descriptions the collector is unchecked.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (r collector) Collect(out chan<- prometheus.Metric) {
	count := func(name, help string, v float64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("pentad_"+name, help, nil, nil),
			prometheus.CounterValue, v)
	}
	gauge := func(name, help string, v float64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("pentad_"+name, help, nil, nil),
			prometheus.GaugeValue, v)
	}
	st := r.node.storeTotals.sum(r.node.stores)
	count("store_rows_put_total", "Rows acknowledged.", float64(st.RowsPut))
	count("store_log_flushes_total", "Appends to the log that held rows.", float64(st.LogAppends))
	count("store_log_seconds_total", "Time spent writing the log, and syncing it but in replicas.",
		float64(st.LogNs)/1e9)
	count("store_puts_delayed_total", "Puts that waited for memory of heads.",
		float64(st.PutsDelayed))
	count("store_seals_total", "Heads sealed.", float64(st.Seals))
	count("store_sealed_rows_total", "Rows sealed.", float64(st.SealedRows))
	count("store_seal_seconds_total", "Time spent sealing.", float64(st.SealNs)/1e9)
	count("store_merges_total", "Merges of segments.", float64(st.Merges))
	count("store_merged_rows_total", "Rows merged.", float64(st.MergedRows))
	count("store_scrub_bytes_total", "Bytes read by the scrub.",
		float64(st.ScrubBytes))
	count("store_scrub_damages_total", "Damage found by the scrub, in each pass.",
		float64(st.ScrubDamages))
	count("store_scrub_passes_total", "Passes of the scrub over all files of a store.",
		float64(st.ScrubPasses))
	gauge("store_scrub_pass_bytes", "Bytes of segments read in the current pass.",
		float64(st.ScrubPassBytes))
	gauge("store_scrub_last_pass_seconds", "Unix time at which the last pass over all files "+
		"ended, of several stores the oldest; 0: none has.", float64(st.ScrubLastNs)/1e9)
	count("store_merge_seconds_total", "Time spent merging.", float64(st.MergeNs)/1e9)
	count("store_purged_rows_total", "Rows removed because they were purged or had expired.",
		float64(st.PurgedRows))
	count("store_backdated_puts_total", "Puts below the horizon.",
		float64(st.BackdatedPuts))
	count("store_backdated_rows_total", "Rows that were put below the horizon.",
		float64(st.BackdatedRows))
	count("store_throttled_seconds_total", "Time by which commits were throttled for merges.",
		float64(st.ThrottledNs)/1e9)
	count("store_scans_total", "Scans started.", float64(st.Scans))
	count("store_blocks_scanned_total", "Blocks opened by scans.", float64(st.Blocks))
	gauge("store_rows", "Rows stored, all versions.", float64(st.Rows))
	gauge("store_head_rows", "Rows in heads.", float64(st.HeadRows))
	gauge("store_head_bytes", "Memory of heads.", float64(st.HeadBytes))
	gauge("store_description_bytes", "Memory of the index of descriptions of devices.",
		float64(st.DescriptionBytes))
	gauge("store_segments", "Sealed segments.", float64(st.Segments))
	gauge("store_segment_bytes", "Bytes of sealed segments.", float64(st.SegmentBytes))
	gauge("store_index_bytes", "Bytes of segments that are not blocks.",
		float64(st.IndexBytes))
	gauge("store_log_bytes", "Bytes of the log.", float64(st.LogBytes))
	gauge("store_writers", "Writers whose answers are stored.", float64(st.Writers))
	r.collectRequests(count, gauge)
	r.collectTime(count, gauge, out)
	r.collectPlugins(count, gauge, out)
	r.node.collectPartialCache(count, gauge)
	count("node_hedges_total", "Calls hedged by a second node because the first was slow.",
		float64(r.node.hedges.Sent.Load()))
	count("node_hedges_won_total", "Hedged calls that the second node answered first.",
		float64(r.node.hedges.Won.Load()))
	r.node.extraMetrics.collect(out)
	r.collectCluster(gauge, out)
	r.collectHealth(out)
}

// collectRequests publishes running and waiting requests.
func (r collector) collectRequests(count, gauge func(name, help string, v float64)) {
	queries, peers := r.node.queries.Stats(), r.node.peerQueries.Stats()
	gauge("queries_running", "Queries that run.", float64(queries.Held+peers.Held))
	gauge("queries_waiting", "Queries that wait for a permit.",
		float64(queries.Waiting+peers.Waiting))
	gauge("queries_paused", "Queries paused because their clients do not read.",
		float64(queries.Paused+peers.Paused))
	count("queries_refused_total", "Queries rejected by a full queue or after a wait.",
		float64(queries.Refused+peers.Refused))
	share := r.node.processors.Stats()
	gauge("queries_long", "Queries of more than 2 ms, which run in time slices.",
		float64(share.Long))
	gauge("queries_goroutines_waiting", "Their goroutines that wait for a time slice.",
		float64(share.Waiting))
	sorts := r.node.spill.Stats()
	gauge("sort_memory_bytes", "Memory of answers being sorted.",
		float64(sorts.MemoryBytes))
	gauge("sort_disk_bytes", "Temporary files of answers being sorted.", float64(sorts.DiskBytes))
	count("sort_spilled_bytes_total", "Bytes written to these files.", float64(sorts.SpilledBytes))
	if s := r.node.server; s != nil {
		gauge("request_bytes", "Memory of requests that arrive or are being stored.",
			float64(s.RequestBytes()))
	}
}

// collectPlugins is the part of Collect about plugins and their host.
func (r collector) collectPlugins(
	count, gauge func(name, help string, v float64), out chan<- prometheus.Metric,
) {
	h := r.node.hostStats()
	gauge("wasmhost_modules", "Modules loaded.", float64(h.Modules))
	gauge("wasmhost_instances", "Instances in use.", float64(h.Instances))
	count("wasmhost_instances_reset_total", "Instances reused from the pool.",
		float64(h.InstancesReset))
	count("wasmhost_calls_total", "Guest calls.", float64(h.Calls))
	count("wasmhost_call_seconds_total", "Time that guests held permits for calls.",
		float64(h.CallNs)/1e9)
	count("wasmhost_records_total", "Records passed to guests.", float64(h.Records))
	count("wasmhost_fuel_total", "Fuel used by guests.", float64(h.FuelUsed))
	count("wasmhost_refused_total", "Modules rejected.", float64(h.Refused))
	for kind, failures := range h.Failures {
		if kind > 0 {
			out <- prometheus.MustNewConstMetric(prometheus.NewDesc(
				"pentad_wasmhost_failures_total", "Instances that failed.", []string{"what"}, nil),
				prometheus.CounterValue, float64(failures), wasmhost.ErrorKind(kind).String())
		}
	}
	p := r.node.plugins.Count()
	gauge("node_plugins", "Plugins, built-in ones included.", float64(p.Names))
	gauge("node_plugin_versions", "Versions of plugins that were uploaded.", float64(p.Versions))
	gauge("node_plugins_damaged", "Versions of plugins that could not be loaded, and lines of the "+
		"catalogue that could not be read.", float64(p.Damaged))
}

// hostStats returns the metrics of both plugin hosts, none of a node without plugins.
func (n *Node) hostStats() wasmhost.Stats {
	if n.host == nil {
		return wasmhost.Stats{}
	}
	return sum(n.host.Stats(), n.adHocHost.Stats())
}

// sum adds the metrics of two plugin hosts.
func sum(a, b wasmhost.Stats) wasmhost.Stats {
	a.Modules += b.Modules
	a.Instances += b.Instances
	a.InstancesReset += b.InstancesReset
	a.Calls += b.Calls
	a.CallNs += b.CallNs
	a.Records += b.Records
	a.FuelUsed += b.FuelUsed
	a.Refused += b.Refused
	for kind, failures := range b.Failures {
		a.Failures[kind] += failures
	}
	return a
}

// collectPartialCache publishes the metrics of the cache.
func (n *Node) collectPartialCache(count, gauge func(name, help string, v float64)) {
	if n.partialCache == nil {
		return
	}
	k := n.partialCache.Stats()
	count("partial_cache_hits_total", "Partials of blocks whose state was cached.",
		float64(k.Hits))
	count("partial_cache_misses_total", "Partials of blocks that were not cached.",
		float64(k.Misses))
	count("partial_cache_stored_total", "States stored in the cache.", float64(k.Stored))
	count("partial_cache_evicted_total", "States evicted from the cache.", float64(k.Evicted))
	gauge("partial_cache_entries", "States in the cache.", float64(k.States))
	gauge("partial_cache_bytes", "Memory of the cache.", float64(k.Bytes))
}
