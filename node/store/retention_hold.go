package store

import (
	"cmp"
	"context"

	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/retention"
)

// HoldRetention stops retentions, lets them go on, or undoes what they have hidden and not
// removable. It is durable on return.
//
// Errors: as of SetRetention; retention.ErrNoPolicy when there is no such policy.
func (s *Store) HoldRetention(ctx context.Context, h retention.Hold) error {
	if s.closed.Load() {
		return ErrClosed
	}
	if err := cmp.Or(s.refuseReplicated(), commands.CheckHold(&h)); err != nil {
		return err
	}
	return s.changeEvents(ctx, 1, func(acqNs int64) (manifest.Edit, error) {
		return s.manifest.HoldEdit(&h, acqNs)
	})
}
