package store

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/manifest"
)

// ErrOtherSlots means that a group does not hold what a command is about, or not that alone: it was
// split, or is about to be.
var ErrOtherSlots = errors.New("the group was split, and holds other slots than the command is " +
	"for; look anew which group holds them")

// Split parts a group in two: the group keeps some of its slots and leaves the others to a child,
// which begins with the state that the group has then.
type Split struct {
	Keep, Leave slots.Range
	Child       slots.GroupID // its number
	Group       string        // its identity
}

// splitBytes is keep and leave, u32 from and u32 to each, the number u32 and the identity.
const splitBytes = 20 + groupBytes

// AppendSplit appends the command that lets a group leave slots to another one.
func AppendSplit(dst []byte, sp *Split) ([]byte, error) {
	id, err := hex.DecodeString(sp.Group)
	if err == nil {
		err = sp.check()
	}
	if err != nil || len(id) != groupBytes {
		return dst, fmt.Errorf("split of a group into %q: %w", sp.Group, err)
	}
	dst = appendSlots(appendSlots(appendCommand(dst, commandSplit), sp.Keep), sp.Leave)
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

// whole is the slots before the split.
func (sp *Split) whole() slots.Range {
	return slots.Range{From: min(sp.Keep.From, sp.Leave.From), To: max(sp.Keep.To, sp.Leave.To)}
}

func (c *command) parseSplit(body []byte) error {
	if len(body) != splitBytes {
		return badCommand("%d bytes are no split", len(body))
	}
	c.split = &Split{Keep: parseSlots(body), Leave: parseSlots(body[8:]),
		Child: slots.GroupID(binary.LittleEndian.Uint32(body[16:])),
		Group: hex.EncodeToString(body[20:])}
	return c.split.check()
}

// ParseSplit returns the split that a command is; ok is false for any other.
func ParseSplit(data []byte) (sp *Split, ok bool) {
	if len(data) < 2 || data[1] != byte(commandSplit) {
		return nil, false
	}
	var c command
	if err := c.parse(data); err != nil || c.err != nil {
		return nil, false
	}
	return c.split, true
}

// AppendWithin appends a command for a group that holds these slots and no others: one that was
// split since, or is still to be, answers ErrOtherSlots. Zero is of a group that was never split. A
// put that was taken before a split, with the rows of one part alone, would be known to the other
// part, too, which has its own rows of that sequence still to come.
func AppendWithin(dst []byte, r slots.Range, command []byte) []byte {
	if r.To == 0 {
		return append(dst, command...)
	}
	return append(appendSlots(appendCommand(dst, commandWithin), r), command...)
}

// parseWithin reads the command in one of commandWithin.
func (c *command) parseWithin(body []byte) error {
	const head = 8
	if len(body) < head+commandHeaderBytes {
		c.err = badCommand("%d bytes end before the command inside", len(body))
		return nil
	}
	switch r := parseSlots(body); commandKind(body[head+1]) {
	case commandPut, commandErase, commandPurge, commandRetention, commandRange, commandRelease,
		commandHold:
		if err := c.parse(body[head:]); err != nil {
			return err
		}
		c.within = r
		if r.From >= r.To || r.To > slots.Count {
			c.err = badCommand("it is for slots %d to %d", r.From, r.To)
		}
		return nil
	default:
		c.err = badCommand("a command of kind %d inside", body[head+1])
		return nil
	}
}

// liesIn reports whether a range, unless it is zero, has all rows of a put.
func (c *command) liesIn(r slots.Range) bool {
	if r.To == 0 {
		return true
	}
	cids, mids := c.rows.CID, c.rows.MID
	for i := range mids {
		same := i > 0 && cids[i] == cids[i-1] &&
			mids[i]>>slots.BlockBits == mids[i-1]>>slots.BlockBits
		if !same && !r.Has(cids[i], mids[i]) {
			return false
		}
	}
	return true
}

// Slots returns those that a replica holds, once it was split or split off; before, zero.
func (s *Store) Slots() slots.Range {
	if r := s.held.Load(); r != nil {
		return *r
	}
	return slots.Range{}
}

func (s *Store) noteSlots() {
	s.indexBase.Store(s.manifest.IndexBase)
	if r := s.manifest.Slots; r.To > 0 {
		s.held.Store(&r)
	}
}

// IndexBase returns what is to be added to the index of an entry of the group's log: a group that
// was split off goes on with the indexes of the one that it was part of.
func (s *Store) IndexBase() uint64 {
	return s.indexBase.Load() // and not under manifestMu, over whose syncs nobody may wait here
}

// splittable reports whether a split can be of this replica. Where it comes twice, it is done.
func (s *Store) splittable(sp *Split) bool {
	held := s.Slots()
	return held.To == 0 || held == sp.whole()
}

// WillSplit reports whether a split that is applied next would do anything.
func (s *Store) WillSplit(sp *Split) bool {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	return s.manifest.Copied == nil && s.splittable(sp)
}

// applySplit leaves slots to another group. The caller is the committer.
func (s *Store) applySplit(from Command, sp *Split, out *Outcome) error {
	switch {
	case s.manifest.Copied != nil: // only the committer changes it
		out.Err = ErrIsCopy
		return s.passOver(from)
	case s.Slots() == sp.Keep:
		return s.passOver(from)
	case !s.splittable(sp):
		out.Err = ErrOtherSlots
		return s.passOver(from)
	}
	acq := max(acqtime.Clamp(from.ClockNs), s.position().NextNs)
	out.AcqNs = acq
	at := acqtime.Position{Index: from.Index, NextNs: acq + 1}
	if err := s.confine(sp.Keep, acq, at, manifest.Edit{}); err != nil {
		return err
	}
	_ = s.emptyLog() // it is tried again; if the log has failed, the next command says so
	return nil
}

// Inherit makes the state of a group, as it was before a split, that of the child. Its log begins
// behind entry 1, which stands for all that was applied here.
func (s *Store) Inherit(ctx context.Context, sp *Split) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	var failed error
	err := s.onCommitter(ctx, func() {
		at := s.position()
		if at.Index == 0 || !s.splittable(sp) || s.manifest.Copied != nil {
			failed = fmt.Errorf("inherit slots %v of group %d: %w", sp.Leave, sp.Child,
				ErrOtherSlots)
			return
		}
		acq := at.NextNs
		at.NextNs++
		failed = s.confine(sp.Leave, acq, at,
			manifest.Edit{Store: sp.Group, IndexBase: at.Index - 1})
	})
	return errors.Join(err, failed)
}

// confine hides what a replica holds of other slots; it is removed from disk in the background. The
// caller is the committer.
func (s *Store) confine(to slots.Range, acq int64, at acqtime.Position, e manifest.Edit) error {
	if err := s.syncApplied(); err != nil {
		return s.failApply(err)
	}
	e.Applied, e.Slots = &at, event.SlotsOf(to)
	e.Events = []event.Meta{event.MetaOf(&event.Event{AcqNs: acq, Kind: event.Split, Kept: to})}
	s.manifestMu.Lock()
	err := s.manifest.Append(e)
	if err == nil {
		s.noteSlots()
		s.publishTombstones()
	}
	s.manifestMu.Unlock()
	if err != nil {
		return s.failApply(err)
	}
	s.come(at)
	s.feeds.Changed()
	return nil
}
