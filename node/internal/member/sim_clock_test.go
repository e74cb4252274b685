package member

import (
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/clock"
)

// After a start of two nodes of three whose clocks differ, no put is acknowledged until one of
// them is set right or the third one is there. In both cases all go on at once.
func TestSimulatedClocksThatDiffer(t *testing.T) {
	rounds.NotUnderRace(t, "TestSimulatedCluster runs the same goroutines")
	const seed = 5 // of a cluster of three nodes
	for _, way := range []string{"set right", "third node"} {
		t.Run(way, func(t *testing.T) {
			s := inSimulation(t, seed, "", func(s *simulation) { s.differ(way == "set right") })
			if len(s.nodes) != 3 {
				t.Fatalf("%d nodes", len(s.nodes))
			}
			if s.violation != "" {
				t.Error(s.violation)
				s.tellLines(t)
			}
		})
	}
}

func (s *simulation) differ(setRight bool) {
	defer s.stop()
	for _, n := range s.nodes {
		n.start()
	}
	if !s.await(time.Minute, s.settled) {
		s.violated("a new cluster is not whole: %s", s.missing())
		return
	}
	s.startClients()
	s.pass(5 * time.Second)
	for _, n := range s.nodes {
		n.end(false)
	}
	s.nodes[0].clock.Store(int64(time.Hour))
	s.nodes[0].start()
	s.nodes[1].start()
	s.pass(20 * time.Second)
	began := time.Now().Add(-15 * time.Second)
	for _, w := range s.writers {
		w.mu.Lock()
		if w.answeredAt.After(began) {
			s.violated("a put was acknowledged at %v", w.answeredAt.Sub(s.began))
		}
		w.mu.Unlock()
	}
	for _, p := range s.running() {
		if st := p.member.Load().clock.State(); st.Verdict != clock.Undecided {
			s.violated("node %d: %+v", p.node.place, st)
		}
	}
	if setRight {
		s.nodes[0].clock.Store(0)
	} else {
		s.nodes[2].start()
	}
	decided := time.Now()
	if !s.await(30*time.Second, func() bool { return s.allAnswered(decided) }) {
		s.violated("puts are not acknowledged half a minute after it is decided: %s", s.missing())
	}
}
