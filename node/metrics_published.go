package node

import (
	"sync"

	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/prometheus/client_golang/prometheus"
)

// Figure is a number that /metrics shows.
type Figure struct {
	Name  string // without pentad_ before it
	Help  string
	Value float64
	Total bool // it only grows
}

// extraMetrics are the metrics and problems of gateways and other embedders.
type extraMetrics struct {
	mu       sync.Mutex
	read     []func() []Figure         // guarded by mu
	problems []func() []health.Problem // guarded by mu
}

// Publish adds figures to /metrics. Read is called for each request of /metrics.
func (n *Node) Publish(read func() []Figure) {
	n.extraMetrics.mu.Lock()
	defer n.extraMetrics.mu.Unlock()
	n.extraMetrics.read = append(n.extraMetrics.read, read)
}

// Watch adds problems to those of the node. Read is called every second and must not block.
func (n *Node) Watch(read func() []health.Problem) {
	n.extraMetrics.mu.Lock()
	defer n.extraMetrics.mu.Unlock()
	n.extraMetrics.problems = append(n.extraMetrics.problems, read)
}

// problemsNow returns the current problems of embedders.
func (f *extraMetrics) problemsNow() (all []health.Problem) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, read := range f.problems {
		all = append(all, read()...)
	}
	return all
}

func (f *extraMetrics) collect(out chan<- prometheus.Metric) {
	f.mu.Lock()
	all := f.read
	f.mu.Unlock()
	for _, read := range all {
		for _, one := range read() {
			kind := prometheus.GaugeValue
			if one.Total {
				kind = prometheus.CounterValue
			}
			out <- prometheus.MustNewConstMetric(
				prometheus.NewDesc("pentad_"+one.Name, one.Help, nil, nil), kind, one.Value)
		}
	}
}
