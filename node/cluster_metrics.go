package node

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// collectCluster publishes metrics of the cluster: those to alert on, and those that explain them.
func (r collector) collectCluster(
	gauge func(name, help string, v float64), out chan<- prometheus.Metric,
) {
	m := r.node.member.Load()
	if m == nil {
		return
	}
	f := m.Figures(context.Background(), r.node.clock.NowNs())
	gauge("cluster_replicas", "Replicas on this node.", float64(f.Replicas))
	gauge("cluster_groups_led", "Groups that this node leads.", float64(f.Leads))
	gauge("cluster_groups_without_leader", "Groups with a replica here and without a leader: "+
		"they take no writes.", float64(f.Leaderless))
	gauge("cluster_replicas_stopped", "Replicas here that are damaged or have stopped.",
		float64(f.Stopped))
	gauge("cluster_entries_behind", "Entries of the logs here that are not applied yet.",
		float64(f.EntriesBehind))
	gauge("cluster_horizon_lag_seconds", "How far the oldest horizon of the replicas here "+
		"is behind the clock.", float64(f.HorizonLagNs)/1e9)
	gauge("cluster_changes", "Changes of groups that are in progress.", float64(f.Changes))
	gauge("cluster_copies_target", "Copies that each group should have.", float64(f.CopiesTarget))
	gauge("cluster_copies_fewest", "Voting copies on reachable nodes, of the group that has the "+
		"fewest.", float64(f.CopiesFewest))
	gauge("cluster_groups_with_fewer_copies", "Groups that have fewer copies than they should.",
		float64(f.GroupsFewer))
	gauge("cluster_epoch", "Number of changes of the cluster's state.", float64(f.Epoch))
	gauge("cluster_log_bytes", "Bytes of the log that all replicas here share.",
		float64(f.LogBytes))
	nodes := prometheus.NewDesc("pentad_cluster_nodes", "Nodes, by what the cluster decided and "+
		"what gossip hears of them.", []string{"state", "gossip"}, nil)
	for of, count := range f.Nodes {
		out <- prometheus.MustNewConstMetric(nodes, prometheus.GaugeValue, float64(count), of.State,
			of.Gossip)
	}
}
