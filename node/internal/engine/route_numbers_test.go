package engine

import (
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/replica"
)

// TestAGroupHasOneNumber in all errors of one incident, from whichever layer they come.
func TestAGroupHasOneNumber(t *testing.T) {
	const group = cluster.GroupID(3)
	here := &localSource{engine: new(Engine), group: group}
	far := &remoteSource{peer: &Peer{name: "n1"}, groups: []cluster.GroupID{group}}
	errs := []error{NotHere(group), noRoute(group), cutOff(group), movedAway(group),
		acqAhead(group, 1),
		(&routingTable{groups: []*groupRoute{{}}}).checkNeverSplit(group),
		&replica.NotLeaderError{Group: group},
		&replica.NotLeaderError{Group: group, Leader: 1}, &replica.DamageError{Group: group},
		&nodeerror.SourceError{Source: here.String(), Err: nodeerror.ErrNoView},
		&nodeerror.SourceError{Source: far.String(), Err: nodeerror.ErrNoView}}
	for _, err := range errs {
		text := strings.ReplaceAll(err.Error(), "groups [3]", "group 3")
		if !strings.Contains(text, "group 3") {
			t.Errorf("an error of group 3: %v", err)
		}
	}
}
