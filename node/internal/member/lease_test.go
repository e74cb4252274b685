package member

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestLeasesOutliveLeaders: what a leader has leased of a horizon, beyond what its log says,
// holds when a node leads next whose clock is behind. A cluster that forgets leases is found out.
func TestLeasesOutliveLeaders(t *testing.T) {
	for _, planted := range []bug{"", bugForget} {
		s := inSimulation(t, 3, planted, (*simulation).promiseAndGo)
		switch {
		case planted == "" && s.violation != "":
			t.Error(s.violation)
			s.tellLines(t)
		case planted != "" && !strings.Contains(s.violation, "below the horizon"):
			t.Errorf("where %s, what is found is %q", planted, s.violation)
		}
	}
}

func (s *simulation) promiseAndGo() {
	const skew = 200 * time.Millisecond // each way; more is not a clock that leads
	defer s.stop()
	for _, n := range s.nodes {
		n.start()
	}
	if !s.await(time.Minute, s.settled) {
		s.violated("a new cluster is not whole: %s", s.missing())
		return
	}
	command, err := commands.AppendErase(nil, record.Box{record.CID: {record.At(1)}})
	if err != nil {
		s.violated("%v", err)
		return
	}
	s.pass(restAfter + 2*time.Second)
	for round := 0; round < 6 && !s.isViolated(); round++ {
		leader := s.leaderOf(1)
		if leader == nil {
			s.pass(time.Second)
			continue
		}
		for _, n := range s.nodes {
			n.clock.Store(-int64(skew))
		}
		leader.node.clock.Store(int64(skew))
		s.pass(2 * time.Second) // it closes its groups by that clock
		m := leader.member.Load()
		moved := s.horizonOf(1)
		for range 4 {
			m.CloseSoon(1, leader.node.now()-1)
			s.pass(20 * time.Millisecond)
		}
		horizon := s.horizonOf(1)
		if st := m.Store(1); horizon > moved && st != nil && horizon > st.LogHorizon() {
			s.count("leased")
		}
		next := m.holders(1)[0]
		for _, x := range m.View().Voters(1) {
			if x.Node == next {
				m.run.TransferLeader(1, replicaID(x))
			}
		}
		if !s.await(10*time.Second, func() bool {
			p := s.leaderOf(1)
			return p != nil && p != leader
		}) {
			continue
		}
		answer, err := s.leaderOf(1).member.Load().Propose(s.life, 1, command, true)
		if err == nil && answer.AcqNs < horizon {
			s.violated("round %d: acq %d below the horizon %d", round, answer.AcqNs, horizon)
		}
	}
	if s.counts["leased"] == 0 {
		s.violated("nothing was leased")
	}
}

// leaderOf returns the process that leads a group, nil for none.
func (s *simulation) leaderOf(group cluster.GroupID) *simProcess {
	for _, p := range s.running() {
		st, err := p.member.Load().run.Status(group)
		if err == nil && st.Leader != 0 && st.Leader == st.Replica {
			return p
		}
	}
	return nil
}

// horizonOf returns the greatest horizon of the replicas of a group.
func (s *simulation) horizonOf(group cluster.GroupID) (horizonNs int64) {
	for _, p := range s.running() {
		if st := p.member.Load().Store(group); st != nil {
			if h, err := st.ExtendHorizon(s.life); err == nil {
				horizonNs = max(horizonNs, h)
			}
		}
	}
	return horizonNs
}

func FuzzLeases(f *testing.F) {
	f.Add(leaseNotes(map[cluster.GroupID]lease{1: {5, 6}, 7: {1, -1}})[0])
	f.Add([]byte{leaseKind, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, src []byte) {
		leases, err := parseLeases(src)
		if err != nil || len(src) > 1<<10 {
			return
		}
		for group := range leases {
			if group == cluster.MetaGroup || group > cluster.MaxGroups {
				t.Errorf("group %d", group)
			}
		}
		for _, note := range leaseNotes(leases) {
			again, err := parseLeases(note)
			if err != nil || !maps.Equal(again, leases) {
				t.Errorf("%v is read as %v, %v", leases, again, err)
			}
			if len(src) == len(note) && len(leases) == 1 && !bytes.Equal(note, src) {
				t.Errorf("%x is written as %x", src, note)
			}
		}
	})
}

// TestLeasesOfManyGroups: no note is longer than one may be.
func TestLeasesOfManyGroups(t *testing.T) {
	all := map[cluster.GroupID]lease{}
	for group := range cluster.GroupID(cluster.MaxGroups) {
		all[group+1] = lease{uint64(group), int64(group)}
	}
	got := map[cluster.GroupID]lease{}
	for _, note := range leaseNotes(all) {
		some, err := parseLeases(note)
		if err != nil || len(note) > 1<<10 {
			t.Fatalf("%d bytes, %v", len(note), err)
		}
		maps.Copy(got, some)
	}
	if !maps.Equal(got, all) {
		t.Errorf("%d of %d groups", len(got), len(all))
	}
}
