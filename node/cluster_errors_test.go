package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestAGroupHasOneNumber in all errors of one incident, from whichever layer they come.
func TestAGroupHasOneNumber(t *testing.T) {
	const group = cluster.GroupID(3)
	here := &localSource{Node: &Node{}, group: group}
	far := &remoteSource{peer: &peer{name: "n1"}, groups: []cluster.GroupID{group}}
	errs := []error{notHere(group), noRoute(group), cutOff(group), movedAway(group),
		acqAhead(group, 1), ofGroups([]error{1: nil, 2: nil, 3: errNoView}),
		(&routingTable{groups: []*groupRoute{{}}}).checkNeverSplit(group),
		&replica.NotLeaderError{Group: group},
		&replica.NotLeaderError{Group: group, Leader: 1}, &replica.DamageError{Group: group},
		&SourceError{Source: here.String(), Err: errNoView},
		&SourceError{Source: far.String(), Err: errNoView}}
	for _, err := range errs {
		text := strings.ReplaceAll(err.Error(), "groups [3]", "group 3")
		if !strings.Contains(text, "group 3") {
			t.Errorf("an error of group 3: %v", err)
		}
	}
	asked, _, err := parseAsked("3")
	if err != nil || len(asked) != 1 || asked[0] != group {
		t.Errorf("groups=3 asks for %v, %v", asked, err)
	}
}

// TestPutsThatANodeGivesUp as it ends, while a group has no leader, may be sent again.
func TestPutsThatANodeGivesUp(t *testing.T) {
	for _, cause := range []error{&replica.NotLeaderError{Group: 1}, replica.ErrGroupUnknown,
		replica.ErrUnknown, replica.ErrLogFailed} {
		err := fmt.Errorf("group 1: %w (%w)", context.Canceled, cause)
		if kind := toWire(err).Kind; !kind.Temporary() {
			t.Errorf("%v is %v", err, kind)
		}
	}
}

// TestRemovalsThatComeAgain find nothing to remove when the first one was done and only its answer
// was lost: that is no error, as it is for one that came once.
func TestRemovalsThatComeAgain(t *testing.T) {
	far := &wire.Error{Kind: wire.KindNotFound, Message: "there is no policy"}
	for _, missing := range []error{retention.ErrNoPolicy, far} {
		if err := removedFrom(member.Answer{Again: true}, missing); err != nil {
			t.Errorf("%v, and it may have been done", err)
		}
		if err := removedFrom(member.Answer{}, missing); !errors.Is(err, missing) {
			t.Errorf("%v, want %v", err, missing)
		}
	}
	again := member.Answer{Again: true}
	if err := removedFrom(again, replica.ErrUnknown); !errors.Is(err, replica.ErrUnknown) {
		t.Errorf("%v, without an outcome", err)
	}
}
