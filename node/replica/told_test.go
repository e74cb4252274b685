package replica

import (
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// appends counts the appends among the letters, by whether they bring entries.
func (l *lockstep) appends() (full, empty int) {
	for _, m := range l.mail {
		of, ok := parseMessage(m.message)
		if !ok {
			l.Fatal("a message that cannot be read")
		}
		switch {
		case of.GetType() != pb.MsgApp:
		case len(of.GetEntries()) > 0:
			full++
		default:
			empty++
		}
	}
	return full, empty
}

// step lets everybody do once what waits.
func (l *lockstep) step() {
	mail := l.mail
	l.mail = nil
	for _, m := range mail {
		l.cores[m.to].Deliver(m.from, 1, m.message)
	}
	for node := uint64(1); node <= 3; node++ {
		l.cores[node].StepWorker(0)
		l.cores[node].StepFlusher()
		l.cores[node].StepApplier()
	}
}

// While entries are in flight, followers hear of commits with them; when none are, at once.
func TestFollowersHearOfCommitsWithEntries(t *testing.T) {
	l := newLockstep(t, 1)
	leader := l.cores[l.leader()]
	answers, full, empty := 0, 0, 0
	for range 100 {
		leader.Propose(1, [][]byte{[]byte("x")}, func(_ any, err error) {
			if err == nil {
				answers++
			}
		})
		l.step()
		more, none := l.appends()
		full, empty = full+more, empty+none
	}
	if full < 200 || empty > 10 {
		t.Errorf("%d appends with entries and %d without; want one for each of 100 entries and "+
			"both followers, and hardly any", full, empty)
	}
	l.settle() // and no tick
	want := int(leader.groups[1].machine.Applied())
	for node, c := range l.cores {
		if got := int(c.groups[1].machine.Applied()); got != want || answers != 100 {
			t.Errorf("node %d has applied %d of %d; %d answers", node, got, want, answers)
		}
	}
}

// Followers that got nothing of what was sent are asked again, although no one proposes more.
func TestLostEntriesAreSentAgain(t *testing.T) {
	for proposals := range 4 {
		l := newLockstep(t, 2)
		leader := l.cores[l.leader()]
		answers := 0
		for range proposals + 1 {
			leader.Propose(1, [][]byte{[]byte("x")}, func(_ any, err error) {
				if err == nil {
					answers++
				}
			})
			leader.StepWorker(0)
			l.mail = nil // lost
		}
		l.settle()
		if answers > 0 {
			t.Fatal("nothing was lost")
		}
		l.ticks(4)
		if answers != proposals+1 {
			t.Errorf("%d answers to %d proposals that were lost on their way", answers, proposals+1)
		}
	}
}

// A replica that is removed under load hears of that: nothing comes after it to bring it along.
func TestARemovedReplicaHearsOfIt(t *testing.T) {
	for seed := range uint64(5) {
		l := newLockstep(t, seed)
		leader := l.leader()
		gone, changed := leader%3+1, false
		for i := range 100 {
			l.cores[leader].Propose(1, [][]byte{[]byte("x")}, func(any, error) {})
			if i == 50 {
				l.cores[leader].Change(1, Change{Remove: []uint64{NewID(gone, 1)}},
					func(err error) { changed = err == nil })
			}
			l.step()
		}
		l.settle() // and no tick
		for _, node := range []uint64{leader, gone} {
			st, err := l.cores[node].Status(1)
			if err != nil || !changed || len(st.Members) != 2 || st.Joint {
				t.Errorf("seed %d: changed %v; node %d has %d members, joint %v; %v", seed, changed,
					node, len(st.Members), st.Joint, err)
			}
			if left := l.cores[node].groups[1].changes; len(left) > 0 {
				t.Errorf("seed %d: node %d waits for changes %d", seed, node, left)
			}
		}
	}
}
