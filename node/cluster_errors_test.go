package node

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/wire"
)

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
	for _, missing := range []error{store.ErrNoRetention, far} {
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
