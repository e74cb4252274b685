package node

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/sdk/wire"
)

// healthEvery is how often the rooms are asked for their problems.
const healthEvery = time.Second

// lookTicks is how many of these times pass between two looks at the files.
const lookTicks = 3

// Problems returns what is wrong with the node now, by code and subject.
func (n *Node) Problems() []health.Problem {
	n.updateHealth()
	return n.health.List()
}

// updateHealth asks all rooms for their problems, and logs each that begins or ends.
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

// watchHealth keeps the list of problems, their log lines and their metrics up to date, and looks
// for files that have gone.
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

// lookAtFiles finds files that were removed or replaced while the node runs, which no write and no
// sync tells. The store of a node of a cluster holds nothing but the lock of the directory: without
// it another process could run there, so the node must end.
func (n *Node) lookAtFiles() (end error) {
	err := n.store.Look(n.open)
	m := n.member.Load()
	if m == nil {
		return nil
	}
	m.Look(n.open)
	return err
}

// problems asks the rooms.
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
	if n.opt.Outbox != nil {
		all = append(all, n.opt.Outbox.Problems()...)
	}
	all = append(all, n.plugins.problems()...)
	if n.cursors != nil {
		all = append(all, n.cursors.Problems()...)
	}
	return append(all, n.figures.watched()...)
}

// unready returns the first of the problems for which the node should get no requests.
func unready(all []health.Problem) *health.Problem {
	for i := range all {
		if all[i].NotReady {
			return &all[i]
		}
	}
	return nil
}

// problemText is a problem in one line.
func problemText(p *health.Problem) string {
	if p.Subject == "" {
		return fmt.Sprintf("%s: %s; %s", p.Code, p.Message, p.Advice)
	}
	return fmt.Sprintf("%s, %s: %s; %s", p.Code, p.Subject, p.Message, p.Advice)
}

// ready answers /readyz: whether the node should get requests.
func (s *server) ready(ctx *fasthttp.RequestCtx) {
	said, err := s.readiness()
	if err != nil {
		writeError(ctx, toWire(err))
		return
	}
	writeJSON(ctx, said)
}

func (s *server) readiness() (said map[string]any, err error) {
	if s.node.closing.Load() {
		return nil, errClosing
	}
	if err := s.node.serving(); err != nil {
		return nil, err
	}
	problems := s.node.Problems()
	if p := unready(problems); p != nil {
		return nil, &wire.Error{Kind: wire.KindUnavailable, Message: problemText(p)}
	}
	said = map[string]any{"status": "ready", "problems": problems}
	if m := s.node.member.Load(); m != nil {
		rc, cancel := s.context()
		defer cancel()
		err := m.Ready(rc)
		if err == nil {
			err = s.node.placedHere(m)
		}
		if err != nil {
			return nil, &wire.Error{Kind: wire.KindUnavailable, Message: err.Error()}
		}
		said["nodes"] = m.Addresses()
	}
	return said, nil
}

// alive answers /healthz: whether starting the process again would help.
func (s *server) alive(ctx *fasthttp.RequestCtx) {
	problems := s.node.Problems()
	for i := range problems {
		if problems[i].Restart {
			writeError(ctx, &wire.Error{Kind: wire.KindUnavailable,
				Message: problemText(&problems[i])})
			return
		}
	}
	status := "ok"
	if len(problems) > 0 {
		status = "problems"
	}
	writeJSON(ctx, map[string]any{"status": status, "problems": problems})
}

// healthState answers GET /v1/health: everything that is wrong, with status 200.
func (s *server) healthState(ctx *fasthttp.RequestCtx) {
	said := map[string]any{"ready": true, "problems": s.node.Problems()}
	if _, err := s.readiness(); err != nil {
		said["ready"], said["reason"] = false, toWire(err).Message
	}
	ctx.SetStatusCode(http.StatusOK)
	writeJSON(ctx, said)
}

// collectHealth publishes the problems.
func (r rooms) collectHealth(out chan<- prometheus.Metric) {
	desc := prometheus.NewDesc("pentad_problem", "1 for each problem that the node has now; "+
		"GET /v1/health says what it is and what to do.", []string{"code", "subject"}, nil)
	problems := r.node.health.List()
	out <- prometheus.MustNewConstMetric(prometheus.NewDesc("pentad_ready", "0 while a problem "+
		"keeps the node from being ready for requests.", nil, nil), prometheus.GaugeValue,
		boolean(unready(problems) == nil))
	for _, p := range problems {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1, p.Code, p.Subject)
	}
}
