package member

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/replica"
)

func TestTheOddOneOutEnds(t *testing.T) {
	for odd, want := range map[time.Duration]bool{0: false, oddFor - 1: false, oddFor: true} {
		if err := clockError(odd); errors.Is(err, ErrClock) != want {
			t.Errorf("after %v: %v", odd, err)
		}
	}
}

// Nodes ask those that follow them, so that in a large cluster each is asked by as many.
func TestClockPeers(t *testing.T) {
	v := &cluster.View{}
	for id := range cluster.NodeID(41) {
		v.Nodes = append(v.Nodes, cluster.Node{ID: id + 1, Role: cluster.RoleCore})
	}
	asked := map[cluster.NodeID]int{}
	for self := range cluster.NodeID(41) {
		nodes, peers := clockPeers(v, self+1)
		if nodes != maxPinged+1 || len(peers) != maxPinged {
			t.Fatalf("%d nodes, %d asked", nodes, len(peers))
		}
		for _, id := range peers {
			asked[id]++
		}
	}
	for id, count := range asked {
		if count != maxPinged {
			t.Errorf("node %d is asked by %d", id, count)
		}
	}
	v.Nodes = v.Nodes[:4]
	v.Nodes[1].State, v.Nodes[2].Role = cluster.NodeLeft, cluster.RoleEdge
	if nodes, peers := clockPeers(v, 4); nodes != 2 ||
		!slices.Equal(peers, []cluster.NodeID{1}) {
		t.Errorf("%d nodes, asked %v", nodes, peers)
	}
}

// wrongMachine is a machine whose wall clock is wrong by as much.
type wrongMachine struct {
	began time.Time
	by    time.Duration
}

func (w wrongMachine) Read() (wallNs, monotonicNs int64) {
	now := time.Now()
	return now.Add(w.by).UnixNano(), int64(now.Sub(w.began))
}
func (w wrongMachine) SleptNs() int64     { return 0 }
func (w wrongMachine) Synchronized() bool { return true }

// A node gives no acqs while its clock and another one differ and no third one is heard; then it
// does, or is known to be wrong.
func TestNoAcqsWhileClocksDiffer(t *testing.T) {
	var clocks []*clock.Clock
	for _, by := range []time.Duration{0, time.Hour, 0} {
		c := clock.New(clock.Options{Machine: wrongMachine{time.Now(), by}})
		c.SetNodes(3)
		clocks = append(clocks, c)
	}
	ask := func(from, to int) {
		clocks[from].Hear(uint64(to), clocks[to].Hear(uint64(from), clocks[from].Ping()))
	}
	m := &Member{clock: clocks[0]}
	ask(0, 1)
	_, err := m.stamp(1)
	if !errors.Is(err, ErrUndecided) || errors.Is(err, replica.ErrNotLeader) {
		t.Errorf("of two clocks that differ, one stamps: %v", err)
	}
	if !sendAgain(err, false) {
		t.Error("and the command is not sent again")
	}
	ask(0, 2)
	if ns, err := m.stamp(1); err != nil || time.Since(time.Unix(0, ns)).Abs() > time.Minute {
		t.Errorf("with a third clock: %d, %v", ns, err)
	}
}
