package commands

import (
	"encoding/binary"

	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/retention"
)

// CheckHold says what is wrong with a hold by itself.
//
// Errors: *record.InvalidError, ErrBad.
func CheckHold(h *retention.Hold) error {
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

// AppendHold appends the command that does what Store.HoldRetention does.
//
// Errors: *record.InvalidError, ErrBad.
func AppendHold(dst []byte, h retention.Hold) ([]byte, error) {
	if err := CheckHold(&h); err != nil {
		return dst, err
	}
	has := scopeFlags(h.CID, h.MOID)
	if h.All {
		has |= scopeIsAll
	}
	dst = append(appendCommand(dst, KindHold), byte(h.Action))
	dst = appendScope(dst, has, h.CID, h.MOID)
	return binary.LittleEndian.AppendUint64(dst, uint64(h.TimeNs)), nil
}

func (c *Command) parseHold(body []byte) error {
	if len(body) != 18 {
		return badCommand("%d bytes are no hold", len(body))
	}
	c.Hold = retention.Hold{Action: retention.Action(body[0]), All: body[1]&scopeIsAll != 0,
		TimeNs: int64(binary.LittleEndian.Uint64(body[10:]))}
	var err error
	if c.Hold.CID, c.Hold.MOID, err = parseScope(body[1:10], scopeIsAll); err != nil {
		return err
	}
	return CheckHold(&c.Hold)
}
