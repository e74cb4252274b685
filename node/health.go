package node

import (
	"fmt"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/prometheus/client_golang/prometheus"
)

// healthEvery is how often problems are collected.
const healthEvery = time.Second

// lookTicks is the number of these ticks between two checks of files.
const lookTicks = 3

// Problems returns the current problems of the node, by code and subject.
func (n *Node) Problems() []health.Problem {
	n.updateHealth()
	return n.health.List()
}

// updateHealth collects all problems, and logs each that begins or ends.
func (n *Node) updateHealth() {
	n.healthMu.Lock()
	defer n.healthMu.Unlock()
	n.logClock()
	began, ended := n.health.Update(n.problems(), time.Now())
	for _, p := range began {
		n.log.Error("problem", "code", p.Code, "subject", p.Subject, "problem", p.Message,
			"advice", p.Advice)
	}
	for _, p := range ended {
		n.log.Info("problem is over", "code", p.Code, "subject", p.Subject,
			"took", time.Since(time.Unix(0, p.SinceNs)).Round(time.Second))
	}
}

// watchHealth keeps the list of problems, their log lines and metrics up to date, and checks for
// lost files.
func (n *Node) watchHealth() {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	var end error
	for i := 1; ; i++ {
		n.updateHealth()
		if i%lookTicks == 0 && end == nil {
			if end = n.lookAtFiles(); end != nil {
				n.opt.Fail(end)
			}
		}
		select {
		case <-tick.C:
		case <-n.open.Done():
			return
		}
	}
}

// lookAtFiles detects files that were removed or replaced while the node runs, which neither writes
// nor syncs report. In a cluster, the node's own store is only the lock of the directory: without
// it another process could use the directory, so the node must end.
func (n *Node) lookAtFiles() (end error) {
	err := n.store.FindLostFiles(n.open)
	m := n.member.Load()
	if m == nil {
		return nil
	}
	m.CheckFiles(n.open)
	return err
}

// problems collects the problems of all parts of the node.
func (n *Node) problems() []health.Problem {
	all := n.store.Problems()
	if m := n.member.Load(); m != nil {
		for group, s := range m.Stores() {
			for _, p := range s.Problems() {
				p.Subject = strings.TrimSpace(fmt.Sprintf("group %d %s", group, p.Subject))
				all = append(all, p)
			}
		}
		all = append(all, m.Problems()...)
	}
	all = append(append(all, n.hidden...), n.clockProblems()...)
	if n.opt.Shipper != nil {
		all = append(all, n.opt.Shipper.Problems()...)
	}
	all = append(all, n.plugins.Problems()...)
	all = append(all, n.cursors.Problems()...)
	return append(all, n.extraMetrics.problemsNow()...)
}

// collectHealth publishes the problems.
func (r collector) collectHealth(out chan<- prometheus.Metric) {
	desc := prometheus.NewDesc("pentad_problem", "1 for each problem that the node has now; "+
		"GET /v1/health says what it is and what to do.", []string{"code", "subject"}, nil)
	problems := r.node.health.List()
	out <- prometheus.MustNewConstMetric(prometheus.NewDesc("pentad_ready", "0 while a problem "+
		"keeps the node from being ready for requests.", nil, nil), prometheus.GaugeValue,
		boolean(health.Unready(problems) == nil))
	for _, p := range problems {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1, p.Code, p.Subject)
	}
}
