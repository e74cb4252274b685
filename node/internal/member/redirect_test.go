package member

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestReach: who did not answer is gone around for a while, and not after an answer; a group that
// is led for the sake of others stays for longer each time.
func TestReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reach
		if r.isSuspect(1) || r.isLeaderPinned(1) {
			t.Error("a suspect or a pinned leader of nothing")
		}
		r.note(1, false)
		if !r.isSuspect(1) || r.isSuspect(2) {
			t.Error("of nodes 1 and 2, the first did not answer")
		}
		r.note(1, true)
		if r.isSuspect(1) {
			t.Error("a node that answered is suspect")
		}
		r.note(1, false)
		time.Sleep(detourFor)
		if r.isSuspect(1) {
			t.Error("a node is suspect for ever")
		}
		for span := minLeaderPin; span < 2*maxLeaderPin; span *= 2 {
			r.pinLeader(1)
			time.Sleep(min(span, maxLeaderPin) - 1)
			if r.pinLeader(1); !r.isLeaderPinned(1) { // asked again while it is held
				t.Errorf("a pin ends before %s", min(span, maxLeaderPin))
			}
			time.Sleep(min(span, maxLeaderPin))
			if r.isLeaderPinned(1) {
				t.Errorf("a pin of %s does not end", min(span, maxLeaderPin))
			}
		}
		time.Sleep(2 * maxLeaderPin)
		r.pinLeader(1)
		if time.Sleep(minLeaderPin); r.isLeaderPinned(1) {
			t.Error("a hold after a long time is not short")
		}
	})
}

// TestErrorsOfARelayCross: who asks over a third node learns what is known, and may ask again.
func TestErrorsOfARelayCross(t *testing.T) {
	f := func(err, want error) {
		t.Helper()
		var remote *wire.Error
		if !errors.As(encodeLeaderError(err), &remote) {
			t.Fatalf("%v does not cross", err)
		}
		got := decodeLeaderError(1, remote)
		if !errors.Is(got, want) || !sendAgain(got, true) {
			t.Errorf("%v is heard as %v", err, got)
		}
	}
	late := context.DeadlineExceeded
	f(fmt.Errorf("group 1: %w (%w)", ErrUnavailable, replica.ErrUnknown), replica.ErrUnknown)
	f(fmt.Errorf("group 1: %w (%w)", late, replica.ErrUnknown), replica.ErrUnknown)
	f(fmt.Errorf("group 1: %w", ErrUnavailable), replica.ErrGroupUnknown)
	f(&replica.NotLeaderError{Group: 1, Leader: 7}, replica.ErrNotLeader)
	f(fmt.Errorf("group 1: node 7: %w", ErrUndecided), ErrUndecided)
	got := unanswered(late)
	if !errors.Is(got, errNoAnswer) || !errors.Is(got, replica.ErrUnknown) {
		t.Errorf("no answer: %v", got)
	}
}

// followed is groups of which the replica here leads or follows another one.
type followed struct {
	groups
	leader, handed uint64
}

func (f *followed) Status(cluster.GroupID) (replica.Status, error) {
	return replica.Status{Replica: 1, Leader: f.leader}, nil
}

func (f *followed) TransferLeader(_ cluster.GroupID, to uint64) { f.handed = to }

// TestOnlyALeaderHandsOver: a node that is asked by mistake says so, and whom it follows. Else it
// would go unnoticed that nothing is handed over.
func TestOnlyALeaderHandsOver(t *testing.T) {
	args := func(name string) string { return map[string]string{"group": "3", "to": "2"}[name] }
	run := &followed{leader: 1}
	m := &Member{run: run}
	if _, err := m.serveTransfer(args); err != nil || run.handed != 2 {
		t.Errorf("the leader hands over to %d: %v", run.handed, err)
	}
	run.leader, run.handed = 4, 0
	var remote *wire.Error
	if _, err := m.serveTransfer(args); !errors.As(err, &remote) || remote.Part != "4" ||
		run.handed != 0 {
		t.Errorf("a follower hands over to %d: %v", run.handed, err)
	}
}
