package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/node/replica"
)

// ReadIndex returns when everything that was acknowledged by any node before the call is in the
// replica of a group here, which need not lead: a majority says what that is. Elections are
// outlived, as long as there is time.
//
// Errors: ErrUnavailable; replica.ErrGroupUnknown; of ctx.
func (m *Member) ReadIndex(ctx context.Context, group uint32) error {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTimeout, ErrUnavailable)
	defer cancel()
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		err := m.run.ReadIndex(ctx, group)
		if err == nil || ctx.Err() == nil && !errors.Is(err, replica.ErrNotLeader) {
			return err
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
