package commands

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store/mirror"
)

// Split parts a group in two: the group keeps some of its slots and leaves the others to a child,
// which begins with the state that the group has then.
type Split struct {
	Keep, Leave slots.Range
	Child       slots.GroupID // its number
	Group       string        // its identity
}

// splitBytes is keep and leave, u32 from and u32 to each, the number u32 and the identity.
const splitBytes = 20 + mirror.IdentityBytes

// AppendSplit appends the command that lets a group leave slots to another one.
func AppendSplit(dst []byte, sp *Split) ([]byte, error) {
	id, err := hex.DecodeString(sp.Group)
	if err == nil {
		err = sp.check()
	}
	if err != nil || len(id) != mirror.IdentityBytes {
		return dst, fmt.Errorf("split of a group into %q: %w", sp.Group, err)
	}
	dst = appendSlots(appendSlots(appendCommand(dst, KindSplit), sp.Keep), sp.Leave)
	return append(binary.LittleEndian.AppendUint32(dst, uint32(sp.Child)), id...), nil
}

func appendSlots(dst []byte, r slots.Range) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, r.From)
	return binary.LittleEndian.AppendUint32(dst, r.To)
}

func parseSlots(src []byte) slots.Range {
	return slots.Range{From: binary.LittleEndian.Uint32(src),
		To: binary.LittleEndian.Uint32(src[4:])}
}

// check wants two ranges that lie beside each other.
func (sp *Split) check() error {
	for _, r := range []slots.Range{sp.Keep, sp.Leave} {
		if r.From >= r.To || r.To > slots.Count {
			return badCommand("a split with slots %d to %d", r.From, r.To)
		}
	}
	if sp.Keep.To != sp.Leave.From && sp.Leave.To != sp.Keep.From {
		return badCommand("a split that keeps slots %v and leaves %v", sp.Keep, sp.Leave)
	}
	return nil
}

// Whole is the slots before the split.
func (sp *Split) Whole() slots.Range {
	return slots.Range{From: min(sp.Keep.From, sp.Leave.From), To: max(sp.Keep.To, sp.Leave.To)}
}

func (c *Command) parseSplit(body []byte) error {
	if len(body) != splitBytes {
		return badCommand("%d bytes are no split", len(body))
	}
	c.Split = &Split{Keep: parseSlots(body), Leave: parseSlots(body[8:]),
		Child: slots.GroupID(binary.LittleEndian.Uint32(body[16:])),
		Group: hex.EncodeToString(body[20:])}
	return c.Split.check()
}

// ParseSplit returns the split that a command is; ok is false for any other.
func ParseSplit(data []byte) (sp *Split, ok bool) {
	if len(data) < 2 || data[1] != byte(KindSplit) {
		return nil, false
	}
	var c Command
	if err := c.Parse(data); err != nil || c.Err != nil {
		return nil, false
	}
	return c.Split, true
}

// AppendForSlots appends a command for a group that holds these slots and no others: one that was
// split since, or is still to be, answers ErrOtherSlots. Zero is of a group that was never split. A
// put that was taken before a split, with the rows of one part alone, would be known to the other
// part, too, which has its own rows of that sequence still to come.
func AppendForSlots(dst []byte, r slots.Range, command []byte) []byte {
	if r.To == 0 {
		return append(dst, command...)
	}
	return append(appendSlots(appendCommand(dst, KindForSlots), r), command...)
}

// parseForSlots reads the command in one of KindForSlots.
func (c *Command) parseForSlots(body []byte) error {
	const head = 8
	if len(body) < head+headerBytes {
		c.Err = badCommand("%d bytes end before the command inside", len(body))
		return nil
	}
	switch r := parseSlots(body); Kind(body[head+1]) {
	case KindPut, KindErase, KindPurge, KindRetention, KindRange, KindPromote,
		KindHold:
		if err := c.Parse(body[head:]); err != nil {
			return err
		}
		c.GroupSlots = r
		if r.From >= r.To || r.To > slots.Count {
			c.Err = badCommand("it is for slots %d to %d", r.From, r.To)
		}
		return nil
	default:
		c.Err = badCommand("a command of kind %d inside", body[head+1])
		return nil
	}
}

// LiesIn reports whether a range, unless it is zero, has all rows of a put.
func (c *Command) LiesIn(r slots.Range) bool {
	if r.To == 0 {
		return true
	}
	cids, mids := c.Rows.CID, c.Rows.MID
	for i := range mids {
		same := i > 0 && cids[i] == cids[i-1] &&
			mids[i]>>slots.DeviceRangeBits == mids[i-1]>>slots.DeviceRangeBits
		if !same && !r.Has(cids[i], mids[i]) {
			return false
		}
	}
	return true
}
