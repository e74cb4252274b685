package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
)

// cutOffAfter is how long a replica has no leader before a query does not wait for it any more:
// elections take less.
const cutOffAfter = 4 * time.Second

// ErrCutOff means that a replica here has had no leader for longer than elections take.
var ErrCutOff = errors.New("the replica here has no leader: this node may be cut off from the " +
	"others, or most of the group's nodes are down; ask another node")

// HasNoLeader reports whether the replica of a group here follows no leader.
func (m *Member) HasNoLeader(group cluster.GroupID) bool {
	leader, known := m.leaderHere(group)
	return known && leader == 0
}

// ReadIndex returns when everything that was acknowledged by any node before the call is in the
// replica of a group here, which need not lead: a majority says what that is. Elections are
// outlived, as long as there is time; a replica that has no leader for longer may be cut off.
//
// Errors: ErrUnavailable, ErrCutOff; replica.ErrGroupUnknown; of ctx.
func (m *Member) ReadIndex(ctx context.Context, group cluster.GroupID) error {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTimeout, ErrUnavailable)
	defer cancel()
	led := time.Now()
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		_, err := m.run.ReadIndex(ctx, group)
		if err == nil || ctx.Err() == nil && !errors.Is(err, replica.ErrNotLeader) {
			return err
		}
		if !m.HasNoLeader(group) {
			led = time.Now()
		} else if time.Since(led) > cutOffAfter {
			return fmt.Errorf("read group %d: %w", group, ErrCutOff)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("read group %d: %w (%w)", group, context.Cause(ctx), err)
		case <-m.open.Done():
			return replica.ErrClosed
		}
	}
}
