package node

import (
	"context"
	"fmt"
	"testing"

	"github.com/pentad-db/pentad/node/replica"
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
