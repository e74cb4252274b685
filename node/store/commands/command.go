// Package commands encodes what the log of a group says to the replicas, and reads it.
//
// It owns the bytes of a command, FORMAT.md of the store. It does not know what a replica does with
// one. Its main type is [Command]. It starts no goroutine.
package commands

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/sdk/record"
)

// version of the encoding of commands, FORMAT.md. 1: first; 2: packed decimals.
const version = 2

// headerBytes is the version u8, the kind u8 and a zero u16.
const headerBytes = 4

// Kind says what a command does. Numbers are for ever.
type Kind uint8

const (
	KindPut       Kind = 1 // stores a batch
	KindErase     Kind = 2 // as Store.Erase
	KindPurge     Kind = 3 // as Store.Purge
	KindRetention Kind = 4 // as Store.SetRetention
	KindStep      Kind = 5 // lets the retentions take the steps that are due
	KindHorizon   Kind = 6 // moves the horizon to the clock reading
	KindRange     Kind = 7 // as Store.PutRange
	KindPromote   Kind = 8 // as Store.PromoteCopy
	KindSplit     Kind = 9 // leaves slots to another group, see [Split]
	// KindForSlots is a command of kind 1, 2, 3, 4, 7, 8 or 11, for a group that holds these
	// slots.
	KindForSlots Kind = 10
	KindHold     Kind = 11 // as Store.HoldRetention
	lastKind          = KindHold
)

var (
	// ErrUnknown means that a command is of a version or kind that this program does not
	// know. A replica that left it out would differ from the others.
	ErrUnknown = errors.New("unknown command; run the version of the program that wrote " +
		"it, which the other replicas run")
	// ErrBad means that a command says nothing that makes sense.
	ErrBad = errors.New("malformed command")
)

// Command is a decoded command. With no kind it is empty, and only counts in the log.
type Command struct {
	Kind       Kind
	Err        error         // of what is wrong with it by itself
	Data       []byte        // of a put: its rows entry, aliasing what was parsed
	Writer     writers.Seq   // of a put
	Rows       *record.Batch // of a put; memory that one Parse hands to the next
	Box        record.Box    // of an erase or purge
	Retention  retention.Rule
	Step       retention.StepTime // of a step: without an acq
	Hold       retention.Hold
	Range      *mirror.Range // its rows alias Rows
	Split      *Split
	GroupSlots slots.Range // that the group is taken to hold; zero for one that was never split
}

// AppendPut appends the command that stores a batch as Store.Put does.
//
// Errors: *record.InvalidError, as of Put.
func AppendPut(dst []byte, b *record.Batch, w writers.Seq) ([]byte, error) {
	if err := b.Validate(); err != nil {
		return dst, err
	}
	return appendPut(dst, b, nil, b.Len(), w), nil
}

// AppendPutRows appends the command that stores those rows of a valid batch, at least one.
func AppendPutRows(dst []byte, b *record.Batch, rows []uint32, w writers.Seq) []byte {
	return appendPut(dst, b, rows, len(rows), w)
}

func appendPut(dst []byte, b *record.Batch, rows []uint32, count int, w writers.Seq) []byte {
	return segment.AppendRowsEntry(appendCommand(dst, KindPut), &segment.RowsHeader{
		Writer: w.ID, Seq: w.Seq, Persistent: w.Persistent, BatchRecords: uint32(count),
		BatchEntries: 1, Packed: true}, b, rows)
}

// AppendErase appends the command that does what Store.Erase does.
//
// Errors: *record.InvalidError.
func AppendErase(dst []byte, box record.Box) ([]byte, error) {
	return appendBoxCommand(dst, KindErase, box)
}

// AppendPurge appends the command that does what Store.Purge does.
//
// Errors: *record.InvalidError.
func AppendPurge(dst []byte, box record.Box) ([]byte, error) {
	return appendBoxCommand(dst, KindPurge, box)
}

// AppendRetention appends the command that does what Store.SetRetention does.
//
// Errors: *record.InvalidError.
func AppendRetention(dst []byte, r retention.Rule) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return dst, err
	}
	dst = appendScope(appendCommand(dst, KindRetention), scopeFlags(r.CID, r.MOID), r.CID, r.MOID)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.MaxCapAgeNs))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.MaxAcqAgeNs))
	return binary.LittleEndian.AppendUint64(dst, uint64(r.DelayNs)), nil
}

// What the scope of a policy names.
const (
	scopeHasCID  = 1
	scopeHasMOID = 2
	scopeIsAll   = 4 // of a hold: every policy
)

func scopeFlags(cid, moid *int32) (flags byte) {
	if cid != nil {
		flags |= scopeHasCID
	}
	if moid != nil {
		flags |= scopeHasMOID
	}
	return flags
}

// appendScope appends flags u8, cid i32, moid i32; what the scope does not name is 0.
func appendScope(dst []byte, flags byte, cid, moid *int32) []byte {
	dst = append(dst, flags)
	for _, id := range []*int32{cid, moid} {
		n := int32(0)
		if id != nil {
			n = *id
		}
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	}
	return dst
}

// parseScope reads 9 bytes of appendScope, of which more bits may be set.
func parseScope(src []byte, more byte) (cid, moid *int32, err error) {
	if src[0]&^(scopeHasCID|scopeHasMOID|more) != 0 {
		return nil, nil, badCommand("flags %#x of a policy", src[0])
	}
	for i, of := range []**int32{&cid, &moid} {
		id := int32(binary.LittleEndian.Uint32(src[1+4*i:]))
		if src[0]>>i&1 != 0 {
			*of = &id
		} else if id != 0 {
			return nil, nil, badCommand("it names a %v and says that it does not",
				[]string{"tenant", "quantity"}[i])
		}
	}
	return cid, moid, nil
}

// AppendStep appends the command that lets the retentions take the steps that are due at a time,
// with how long nodes have run; see Store.RetentionStep.
func AppendStep(dst []byte, timeNs, ranNs int64) []byte {
	dst = binary.LittleEndian.AppendUint64(appendCommand(dst, KindStep), uint64(timeNs))
	return binary.LittleEndian.AppendUint64(dst, uint64(ranNs))
}

func (c *Command) parseStep(body []byte) error {
	if len(body) != 16 {
		return badCommand("%d bytes are no step", len(body))
	}
	c.Step.TimeNs = int64(binary.LittleEndian.Uint64(body))
	c.Step.RanNs = int64(binary.LittleEndian.Uint64(body[8:]))
	if c.Step.TimeNs < 1 || c.Step.TimeNs > acqtime.LastNs || c.Step.RanNs < 0 {
		return badCommand("a step at %d, after %d ns", c.Step.TimeNs, c.Step.RanNs)
	}
	return nil
}

// AppendHorizon appends the command that moves the horizon to its clock reading: no record put
// later has a smaller acq.
func AppendHorizon(dst []byte) []byte { return appendCommand(dst, KindHorizon) }

func appendCommand(dst []byte, kind Kind) []byte {
	return append(dst, version, byte(kind), 0, 0)
}

func appendBoxCommand(dst []byte, kind Kind, box record.Box) ([]byte, error) {
	if err := box.Normalize(); err != nil {
		return dst, err
	}
	dst = appendCommand(dst, kind)
	for _, set := range box {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(set)))
		for _, r := range set {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(r.From))
			dst = binary.LittleEndian.AppendUint64(dst, uint64(r.To))
		}
	}
	return dst, nil
}

// Parse reads a command into c, reusing its memory; what is wrong with it by itself is in c.Err.
//
// Errors: ErrUnknown.
func (c *Command) Parse(src []byte) error {
	c.Forget()
	if len(src) == 0 {
		return nil
	}
	if src[0] < version {
		return fmt.Errorf("%w: version %d is of an older program", ErrUnknown, src[0])
	}
	if src[0] > version {
		return fmt.Errorf("%w: version %d", ErrUnknown, src[0])
	}
	if len(src) < headerBytes {
		c.Err = badCommand("%d bytes end inside the header", len(src))
		return nil
	}
	if src[2]|src[3] != 0 || src[1] == 0 || src[1] > byte(lastKind) {
		return fmt.Errorf("%w: kind %d, then %d and %d", ErrUnknown, src[1], src[2], src[3])
	}
	c.Kind = Kind(src[1])
	body := src[headerBytes:]
	switch c.Kind {
	case KindPut:
		c.Err = c.parsePut(body)
	case KindErase, KindPurge:
		c.Err = c.parseBox(body)
	case KindRetention:
		c.Err = c.parseRetention(body)
	case KindRange:
		c.Err = c.parseRange(body)
	case KindSplit:
		c.Err = c.parseSplit(body)
	case KindForSlots:
		return c.parseForSlots(body)
	case KindStep:
		c.Err = c.parseStep(body)
	case KindHold:
		c.Err = c.parseHold(body)
	case KindHorizon, KindPromote:
		if len(body) > 0 {
			c.Err = badCommand("%d bytes follow", len(body))
		}
	}
	if formats.Is(c.Err) { // others may know it
		return fmt.Errorf("%w: %w", ErrUnknown, c.Err)
	}
	return nil
}

// Forget empties c but for its memory.
func (c *Command) Forget() {
	*c = Command{Rows: c.Rows}
}

func badCommand(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBad, fmt.Sprintf(format, args...))
}

func (c *Command) parsePut(body []byte) error {
	if c.Rows == nil {
		c.Rows = new(record.Batch)
	}
	var h segment.RowsHeader
	if err := segment.ParseRowsEntry(body, &h, c.Rows); formats.Is(err) {
		return err
	} else if err != nil {
		return badCommand("%v", err)
	}
	if h.HasAcqs || h.FirstAcqNs != 0 || h.BatchFirstAcqNs != 0 || h.BatchEntries != 1 ||
		uint64(h.BatchRecords) != uint64(c.Rows.Len()) {
		return badCommand("the rows are stamped already, or not a whole batch")
	}
	if err := c.Rows.Validate(); err != nil {
		return err
	}
	c.Data = body
	c.Writer = writers.Seq{ID: h.Writer, Seq: h.Seq, Persistent: h.Persistent}
	return nil
}

func (c *Command) parseBox(body []byte) error {
	for d := range c.Box {
		if len(body) < 4 {
			return badCommand("it ends inside a box")
		}
		count := uint64(binary.LittleEndian.Uint32(body))
		body = body[4:]
		if count > record.MaxRangesPerDim || uint64(len(body))/16 < count {
			return badCommand("%d ranges in %d bytes", count, len(body))
		}
		for range count {
			c.Box[d] = append(c.Box[d], record.Range{
				From: int64(binary.LittleEndian.Uint64(body)),
				To:   int64(binary.LittleEndian.Uint64(body[8:])),
			})
			body = body[16:]
		}
	}
	if len(body) > 0 {
		return badCommand("%d bytes follow the box", len(body))
	}
	return c.Box.Normalize()
}

func (c *Command) parseRetention(body []byte) (err error) {
	if len(body) != 33 {
		return badCommand("%d bytes are no retention", len(body))
	}
	if c.Retention.CID, c.Retention.MOID, err = parseScope(body[:9], 0); err != nil {
		return err
	}
	c.Retention.MaxCapAgeNs = int64(binary.LittleEndian.Uint64(body[9:]))
	c.Retention.MaxAcqAgeNs = int64(binary.LittleEndian.Uint64(body[17:]))
	c.Retention.DelayNs = int64(binary.LittleEndian.Uint64(body[25:]))
	return c.Retention.Validate()
}

// IsEvent reports whether a command changes what hides rows, or is applied by itself as those are.
// One that is wrong does nothing.
func (c *Command) IsEvent() bool {
	return c.Err == nil && slices.Contains([]Kind{KindErase, KindPurge,
		KindRetention, KindStep, KindRange, KindPromote, KindSplit, KindHold},
		c.Kind)
}
