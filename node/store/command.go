package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/sdk/record"
)

// commandVersion of the encoding of commands, FORMAT.md. 1: first; 2: packed decimals.
const commandVersion = 2

// commandHeaderBytes is the version u8, the kind u8 and a zero u16.
const commandHeaderBytes = 4

// commandKind says what a command does. Numbers are for ever.
type commandKind uint8

const (
	commandPut       commandKind = 1 // stores a batch
	commandErase     commandKind = 2 // as [Store.Erase]
	commandPurge     commandKind = 3 // as [Store.Purge]
	commandRetention commandKind = 4 // as [Store.SetRetention]
	commandStep      commandKind = 5 // lets the retentions take the steps that are due
	commandClose     commandKind = 6 // moves the horizon to the clock reading
	commandRange     commandKind = 7 // as [Store.PutRange]
	commandRelease   commandKind = 8 // as [Store.ReleaseCopy]
	commandSplit     commandKind = 9 // leaves slots to another group, see [Split]
	// commandWithin is a command of kind 1, 2, 3, 4, 7, 8 or 11, for a group that holds these
	// slots.
	commandWithin commandKind = 10
	commandHold   commandKind = 11 // as [Store.HoldRetention]
	lastCommand               = commandHold
)

var (
	// ErrUnknownCommand means that a command is of a version or kind that this program does not
	// know. A replica that left it out would differ from the others.
	ErrUnknownCommand = errors.New("unknown command; run the version of the program that wrote " +
		"it, which the other replicas run")
	// ErrBadCommand means that a command says nothing that makes sense.
	ErrBadCommand = errors.New("malformed command")
)

// command is a decoded command. With no kind it is empty, and only counts in the log.
type command struct {
	kind      commandKind
	err       error         // of what is wrong with it by itself
	data      []byte        // of a put: its rows entry, aliasing what was parsed
	put       putRequest    // of a put: its writer and rows
	rows      *record.Batch // of a put: those of its only part
	box       record.Box    // of an erase or purge
	retention retention.Rule
	step      retention.Moment // of a step: without an acq
	hold      retention.Hold
	rng       *Range // its rows alias rows
	split     *Split
	within    slots.Range // that the group is taken to hold; zero for one that was never split
}

// AppendPut appends the command that stores a batch as [Store.Put] does.
//
// Errors: *record.InvalidError, as of Put.
func AppendPut(dst []byte, b *record.Batch, w WriterSeq) ([]byte, error) {
	if err := b.Validate(); err != nil {
		return dst, err
	}
	return appendPut(dst, b, nil, b.Len(), w), nil
}

// AppendPutRows appends the command that stores those rows of a valid batch, at least one.
func AppendPutRows(dst []byte, b *record.Batch, rows []uint32, w WriterSeq) []byte {
	return appendPut(dst, b, rows, len(rows), w)
}

func appendPut(dst []byte, b *record.Batch, rows []uint32, count int, w WriterSeq) []byte {
	return segment.AppendRowsEntry(appendCommand(dst, commandPut), &segment.RowsHeader{
		Writer: w.ID, Seq: w.Seq, BatchRecords: uint32(count), BatchEntries: 1,
		Packed: true}, b, rows)
}

// AppendErase appends the command that does what [Store.Erase] does.
//
// Errors: *record.InvalidError.
func AppendErase(dst []byte, box record.Box) ([]byte, error) {
	return appendBoxCommand(dst, commandErase, box)
}

// AppendPurge appends the command that does what [Store.Purge] does.
//
// Errors: *record.InvalidError.
func AppendPurge(dst []byte, box record.Box) ([]byte, error) {
	return appendBoxCommand(dst, commandPurge, box)
}

// AppendRetention appends the command that does what [Store.SetRetention] does.
//
// Errors: *record.InvalidError.
func AppendRetention(dst []byte, r retention.Rule) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return dst, err
	}
	dst = appendScope(appendCommand(dst, commandRetention), givenOf(r.CID, r.MOID), r.CID, r.MOID)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.MaxCapAgeNs))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.MaxAcqAgeNs))
	return binary.LittleEndian.AppendUint64(dst, uint64(r.DelayNs)), nil
}

// What of a policy is named.
const (
	givenCID  = 1
	givenMOID = 2
	givenAll  = 4 // of a hold: every policy
)

func givenOf(cid, moid *int32) (given byte) {
	if cid != nil {
		given |= givenCID
	}
	if moid != nil {
		given |= givenMOID
	}
	return given
}

// appendScope appends given u8, cid i32, moid i32; what is not given is 0.
func appendScope(dst []byte, given byte, cid, moid *int32) []byte {
	dst = append(dst, given)
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
	if src[0]&^(givenCID|givenMOID|more) != 0 {
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

// appendStep appends the command that lets the retentions take the steps that are due at a time,
// with how long nodes have run; see [Store.RetentionStep].
func appendStep(dst []byte, timeNs, ranNs int64) []byte {
	dst = binary.LittleEndian.AppendUint64(appendCommand(dst, commandStep), uint64(timeNs))
	return binary.LittleEndian.AppendUint64(dst, uint64(ranNs))
}

func (c *command) parseStep(body []byte) error {
	if len(body) != 16 {
		return badCommand("%d bytes are no step", len(body))
	}
	c.step.TimeNs = int64(binary.LittleEndian.Uint64(body))
	c.step.RanNs = int64(binary.LittleEndian.Uint64(body[8:]))
	if c.step.TimeNs < 1 || c.step.TimeNs > acqtime.LastNs || c.step.RanNs < 0 {
		return badCommand("a step at %d, after %d ns", c.step.TimeNs, c.step.RanNs)
	}
	return nil
}

// AppendClose appends the command that moves the horizon to its clock reading: no record put later
// has a smaller acq.
func AppendClose(dst []byte) []byte { return appendCommand(dst, commandClose) }

func appendCommand(dst []byte, kind commandKind) []byte {
	return append(dst, commandVersion, byte(kind), 0, 0)
}

func appendBoxCommand(dst []byte, kind commandKind, box record.Box) ([]byte, error) {
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

// parse reads a command into c, reusing its memory; what is wrong with it by itself is in c.err.
//
// Errors: ErrUnknownCommand.
func (c *command) parse(src []byte) error {
	c.forget()
	if len(src) == 0 {
		return nil
	}
	if src[0] < commandVersion {
		return fmt.Errorf("%w: version %d is of an older program", ErrUnknownCommand, src[0])
	}
	if src[0] > commandVersion {
		return fmt.Errorf("%w: version %d", ErrUnknownCommand, src[0])
	}
	if len(src) < commandHeaderBytes {
		c.err = badCommand("%d bytes end inside the header", len(src))
		return nil
	}
	if src[2]|src[3] != 0 || src[1] == 0 || src[1] > byte(lastCommand) {
		return fmt.Errorf("%w: kind %d, then %d and %d", ErrUnknownCommand, src[1], src[2], src[3])
	}
	c.kind = commandKind(src[1])
	body := src[commandHeaderBytes:]
	switch c.kind {
	case commandPut:
		c.err = c.parsePut(body)
	case commandErase, commandPurge:
		c.err = c.parseBox(body)
	case commandRetention:
		c.err = c.parseRetention(body)
	case commandRange:
		c.err = c.parseRange(body)
	case commandSplit:
		c.err = c.parseSplit(body)
	case commandWithin:
		return c.parseWithin(body)
	case commandStep:
		c.err = c.parseStep(body)
	case commandHold:
		c.err = c.parseHold(body)
	case commandClose, commandRelease:
		if len(body) > 0 {
			c.err = badCommand("%d bytes follow", len(body))
		}
	}
	if formats.Is(c.err) { // others may know it
		return fmt.Errorf("%w: %w", ErrUnknownCommand, c.err)
	}
	return nil
}

// forget empties c but for its memory.
func (c *command) forget() {
	clear(c.put.byShard)
	*c = command{rows: c.rows, put: putRequest{byShard: c.put.byShard[:0]}}
}

func badCommand(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBadCommand, fmt.Sprintf(format, args...))
}

func (c *command) parsePut(body []byte) error {
	if c.rows == nil {
		c.rows = new(record.Batch)
	}
	var h segment.RowsHeader
	if err := segment.ParseRowsEntry(body, &h, c.rows); formats.Is(err) {
		return err
	} else if err != nil {
		return badCommand("%v", err)
	}
	if h.Stamped || h.FirstAcqNs != 0 || h.BatchFirstAcqNs != 0 || h.BatchEntries != 1 ||
		uint64(h.BatchRecords) != uint64(c.rows.Len()) {
		return badCommand("the rows are stamped already, or not a whole batch")
	}
	if err := c.rows.Validate(); err != nil {
		return err
	}
	c.data = body
	c.put.writer, c.put.rows = WriterSeq{h.Writer, h.Seq}, c.rows.Len()
	c.put.byShard = append(c.put.byShard, shardRows{rows: *c.rows})
	return nil
}

func (c *command) parseBox(body []byte) error {
	for d := range c.box {
		if len(body) < 4 {
			return badCommand("it ends inside a box")
		}
		count := uint64(binary.LittleEndian.Uint32(body))
		body = body[4:]
		if count > record.MaxRangesPerDim || uint64(len(body))/16 < count {
			return badCommand("%d ranges in %d bytes", count, len(body))
		}
		for range count {
			c.box[d] = append(c.box[d], record.Range{
				From: int64(binary.LittleEndian.Uint64(body)),
				To:   int64(binary.LittleEndian.Uint64(body[8:])),
			})
			body = body[16:]
		}
	}
	if len(body) > 0 {
		return badCommand("%d bytes follow the box", len(body))
	}
	return c.box.Normalize()
}

func (c *command) parseRetention(body []byte) (err error) {
	if len(body) != 33 {
		return badCommand("%d bytes are no retention", len(body))
	}
	if c.retention.CID, c.retention.MOID, err = parseScope(body[:9], 0); err != nil {
		return err
	}
	c.retention.MaxCapAgeNs = int64(binary.LittleEndian.Uint64(body[9:]))
	c.retention.MaxAcqAgeNs = int64(binary.LittleEndian.Uint64(body[17:]))
	c.retention.DelayNs = int64(binary.LittleEndian.Uint64(body[25:]))
	return c.retention.Validate()
}

// bytes is about what a command takes in memory and in the log.
func (c *command) bytes() int { return len(c.data) + c.put.rows*rowOverheadBytes }

// isEvent reports whether a command changes what hides rows, or is applied by itself as those are.
// One that is wrong does nothing.
func (c *command) isEvent() bool {
	return c.err == nil && slices.Contains([]commandKind{commandErase, commandPurge,
		commandRetention, commandStep, commandRange, commandRelease, commandSplit, commandHold},
		c.kind)
}

// stampAt gives the rows of a put consecutive acqs from first on.
func (c *command) stampAt(first int64) {
	acqs := c.rows.AcqNs
	for i := range acqs {
		acqs[i] = first + int64(i)
	}
	c.put.answer = writers.Answer{Seq: c.put.writer.Seq, FirstNs: first,
		Records: uint32(len(acqs))}
}
