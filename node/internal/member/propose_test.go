package member

import (
	"github.com/pentad-db/pentad/node/cluster"
	"testing"
)

// Who waits for a leader of a group is woken once, by an election of that group.
func TestElectionsWake(t *testing.T) {
	e := elections{next: map[cluster.GroupID]chan struct{}{}}
	woken := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	first, other := e.wait(1), e.wait(2)
	e.wake(1)
	e.wake(3) // no one waits
	if !woken(first) || woken(other) || woken(e.wait(1)) || e.wait(2) != other {
		t.Error("an election woke others, or not all who waited")
	}
}
