package replica

import (
	"testing"
	"testing/cryptotest"
	"time"
)

// A change comes to its end in a group that no one writes to, also when the library could not
// begin its second phase because leadership was being transferred.
func TestChangeDuringTransfer(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	s := newSimulation(1, "")
	defer s.stop()
	a := s.admins[1]
	s.healing = true
	s.until(5*time.Second, never)
	s.ending, a.busy = true, time.Hour
	s.until(s.now+5*time.Second, never)
	_, leader := a.newest()
	if leader == nil {
		t.Fatal("nobody leads")
	}
	other := s.nodes[leader.id%uint64(s.config.voters)]
	s.cut[[2]uint64{leader.id, other.id}], s.cut[[2]uint64{other.id, leader.id}] = true, true
	var changed bool
	leader.core.Change(1, Change{AddLearner: []uint64{NewID(other.id, 2)}}, func(err error) {
		if err != nil {
			t.Error(err)
		}
		changed = true
	})
	leader.core.TransferLeader(1, NewID(other.id, 1))
	s.until(s.now+400*time.Millisecond, never)
	if st := leader.status(1); !changed || !st.Joint || st.Leader != st.Replica {
		t.Fatalf("a change that cannot end: answered %v, %+v", changed, st)
	}
	s.until(s.now+time.Second, never) // the leader has given the transfer up
	clear(s.cut)
	s.until(s.now+5*time.Second, never)
	if st := leader.status(1); st.Joint || s.violation != "" {
		t.Errorf("later: %+v, %s", st, s.violation)
	}
}
