package store

import (
	"cmp"
	"context"
	"encoding/binary"

	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/retention"
)

// checkHold says what is wrong with a hold by itself.
//
// Errors: *record.InvalidError, ErrBadCommand.
func checkHold(h *retention.Hold) error {
	r := retention.Rule{CID: h.CID, MOID: h.MOID}
	switch {
	case !h.Action.Known():
		return badCommand("a hold of action %d", h.Action)
	case h.All && (h.CID != nil || h.MOID != nil):
		return badCommand("a hold of every policy names one")
	case h.TimeNs < 0 || h.TimeNs > acqtime.LastNs || h.TimeNs != 0 &&
		h.Action != retention.HoldResume:
		return badCommand("a hold of action %d says that it is %d", h.Action, h.TimeNs)
	}
	return r.Validate()
}

// HoldRetention stops retentions, lets them go on, or undoes what they have hidden and not
// released. It is durable on return.
//
// Errors: as of SetRetention; retention.ErrNoPolicy when there is no such policy.
func (s *Store) HoldRetention(ctx context.Context, h retention.Hold) error {
	if s.closed.Load() {
		return ErrClosed
	}
	if err := cmp.Or(s.refuseReplicated(), checkHold(&h)); err != nil {
		return err
	}
	return s.changeEvents(ctx, 1, func(acqNs int64) (manifest.Edit, error) {
		return s.manifest.HoldEdit(&h, acqNs)
	})
}

// AppendHold appends the command that does what [Store.HoldRetention] does.
//
// Errors: *record.InvalidError, ErrBadCommand.
func AppendHold(dst []byte, h retention.Hold) ([]byte, error) {
	if err := checkHold(&h); err != nil {
		return dst, err
	}
	has := givenOf(h.CID, h.MOID)
	if h.All {
		has |= givenAll
	}
	dst = append(appendCommand(dst, commandHold), byte(h.Action))
	dst = appendScope(dst, has, h.CID, h.MOID)
	return binary.LittleEndian.AppendUint64(dst, uint64(h.TimeNs)), nil
}

func (c *command) parseHold(body []byte) error {
	if len(body) != 18 {
		return badCommand("%d bytes are no hold", len(body))
	}
	c.hold = retention.Hold{Action: retention.Action(body[0]), All: body[1]&givenAll != 0,
		TimeNs: int64(binary.LittleEndian.Uint64(body[10:]))}
	var err error
	if c.hold.CID, c.hold.MOID, err = parseScope(body[1:10], givenAll); err != nil {
		return err
	}
	return checkHold(&c.hold)
}
