package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/writers"
)

// maxApplyBytes is how many bytes of commands one append takes, if it is not one command: beyond,
// an append more costs nothing, and less memory.
const maxApplyBytes = 64 << 20

// manyCommands are seldom applied at once.
const manyCommands = 64

// Command is an entry of the log of a group.
type Command struct {
	Index   uint64 // of the entry; they rise
	ClockNs int64  // what the proposer's clock said
	Data    []byte // of commands.AppendPut and the like; empty: nothing is to be done
}

// Outcome is the answer to a command, the same on all replicas that apply it.
type Outcome struct {
	Put   PutResult // of a put
	AcqNs int64     // of an erase, purge or change of a retention; 0: nothing was to be done
	// Err says that the command was wrong by itself, and did nothing: *record.InvalidError,
	// commands.ErrBad, writers.ErrTooOld, writers.ErrTooMany, ErrTooManyEvents,
	// retention.ErrNoPolicy or ErrOtherSlots.
	Err error
	// Skipped says that the command had been applied before, with an answer that is not known any
	// more.
	Skipped bool
}

// Apply applies commands of the log of the group, in their order, and makes them visible. Each
// takes acqs from its clock reading on, or from where the last one ended if that is later; so what
// a command does and answers depends on nothing but the commands before it. The horizon is where
// the last one ended. What is applied becomes durable with the next [Store.Sync], or when events
// and seals need it; after a crash the store opens after one of the commands from Durable on, and
// wants those after Applied again. One goroutine at a time applies.
//
// Returns: the outcomes of the commands that were applied, all of them unless there is an error.
// Errors: ErrNotReplicated; commands.ErrUnknown; ErrClosed; ErrOverloaded and ctx.Err(), after
// which the rest may be applied later. After any other one, of the disk, the store has failed: it
// is opened again.
func (s *Store) Apply(ctx context.Context, all []Command) ([]Outcome, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	if !s.replicated || s.opt.keepSnapshot {
		return nil, fmt.Errorf("apply: %w", ErrNotReplicated)
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	s.apply = applyBufferPool.Get().(*applyBuffers)
	defer func() {
		s.apply.keep(len(all))
		s.apply = nil
	}()
	decoded, unknown := s.decode(all)
	out := make([]Outcome, 0, len(decoded))
	for len(out) < len(decoded) {
		rest, from := decoded[len(out):], all[len(out):]
		n := appendLength(rest)
		if err := s.waitToApply(ctx); err != nil {
			return out, err
		}
		var failed error
		answers := make([]Outcome, max(1, n))
		err := s.onCommitter(ctx, func() {
			failed = s.failed.Err()
			switch {
			case failed != nil:
			case n == 0:
				failed = s.applyEvent(from[0], &rest[0], &answers[0])
			default:
				failed = s.applyInOneAppend(from[:n], rest[:n], answers)
			}
		})
		if err = errors.Join(err, failed); err != nil {
			return out, err
		}
		out = append(out, answers...)
	}
	return out, unknown
}

// loggedCommand is a command of the log and, of a put, the request that it becomes here.
type loggedCommand struct {
	commands.Command
	put putRequest
}

// parse reads a command into c, reusing its memory; what is wrong with it by itself is in c.Err.
//
// Errors: commands.ErrUnknown.
func (c *loggedCommand) parse(src []byte) error {
	c.forget()
	if err := c.Parse(src); err != nil {
		return err
	}
	if c.Kind == commands.KindPut && c.Err == nil {
		c.put.writer, c.put.rows = c.Writer, c.Rows.Len()
		c.put.byShard = append(c.put.byShard, shardRows{rows: *c.Rows})
	}
	return nil
}

// forget empties c but for its memory.
func (c *loggedCommand) forget() {
	c.Forget()
	clear(c.put.byShard)
	c.put = putRequest{byShard: c.put.byShard[:0]}
}

// bytes is about what a command takes in memory and in the log.
func (c *loggedCommand) bytes() int { return len(c.Data) + c.put.rows*rowOverheadBytes }

// stampAt gives the rows of a put consecutive acqs from first on.
func (c *loggedCommand) stampAt(first int64) {
	acqs := c.Rows.AcqNs
	for i := range acqs {
		acqs[i] = first + int64(i)
	}
	c.put.result = writers.Result{Seq: c.put.writer.Seq, FirstNs: first,
		Records: uint32(len(acqs))}
}

// decode parses commands up to the first one that is unknown. The caller holds applying.
func (s *Store) decode(from []Command) (all []loggedCommand, unknown error) {
	all = s.apply.commands
	for len(all) < len(from) {
		all = append(all, loggedCommand{})
	}
	s.apply.commands = all
	for i := range from {
		if err := all[i].parse(from[i].Data); err != nil {
			return all[:i], fmt.Errorf("command at index %d: %w", from[i].Index, err)
		}
	}
	return all[:len(from)], nil
}

// applyBuffers is what applying commands needs. One Apply hands it to the next, of any store: a
// node has many, and what each of them kept for itself would be in no processor's cache when it is
// needed.
type applyBuffers struct {
	commands []loggedCommand
	buffers  commitBuffers // the committer's
}

var applyBufferPool = sync.Pool{New: func() any { return new(applyBuffers) }}

// keep leaves the memory to the next Apply, with that of at most manyCommands, unless it is large.
// Nothing of a log stays in it.
func (m *applyBuffers) keep(used int) {
	bytes := cap(m.buffers.data)
	for i := range m.commands[:min(used, len(m.commands))] {
		m.commands[i].forget()
	}
	if len(m.commands) > manyCommands {
		clear(m.commands[manyCommands:])
		m.commands = m.commands[:manyCommands]
	}
	for i := range m.commands {
		if rows := m.commands[i].Rows; rows != nil {
			bytes += cap(rows.Data) + cap(rows.MID)*rowOverheadBytes
		}
	}
	clear(m.buffers.entries[:cap(m.buffers.entries)])
	if bytes <= 2*maxWriteGroupBytes {
		applyBufferPool.Put(m)
	}
}

// appendLength returns how many commands go into the next append: none when the first is an event.
func appendLength(all []loggedCommand) (n int) {
	bytes := 0
	for ; n < len(all) && !all[n].IsEvent(); n++ {
		if bytes += all[n].bytes(); bytes > maxApplyBytes && n > 0 {
			break
		}
	}
	return n
}

// waitToApply waits for space in the heads for as long as sealing makes some.
func (s *Store) waitToApply(ctx context.Context) error {
	for {
		err := s.headBudget.Wait(ctx, 0)
		if !errors.Is(err, ErrOverloaded) || s.headBudget.SealErr() != nil {
			return err
		}
	}
}

// applyInOneAppend applies commands that are not events, with one append of the log. The caller is
// the committer.
func (s *Store) applyInOneAppend(entries []Command, decoded []loggedCommand, out []Outcome) error {
	puts := make([]*putRequest, 0, len(decoded))
	s.applyMu.Lock()
	at := s.applied
	buf := &s.apply.buffers
	buf.entries, buf.data = buf.entries[:0], buf.data[:0]
	for i := range decoded {
		if entries[i].Index <= at.Index {
			out[i].Skipped = true
			continue
		}
		at.Index = entries[i].Index
		if s.applyOne(&decoded[i], acqtime.Clamp(entries[i].ClockNs), &at, &out[i]) {
			decoded[i].put.byShard[0].divide(s.opt.HeadShards)
			puts = append(puts, &decoded[i].put)
		}
	}
	if at == s.applied {
		s.applyMu.Unlock()
		return nil
	}
	file, err := s.writeApplied(buf, at, puts)
	s.applyMu.Unlock()
	if err != nil {
		return s.failApply(err)
	}
	s.recordLogFile(file, buf.entries)
	s.insert(puts)
	s.oracle.SetApplied(at)
	notifyFeeds(s.feeds, puts)
	s.feeds.Passed(s.oracle.CurrentHorizon())
	rows := 0
	for _, r := range puts {
		rows += r.rows
	}
	s.counters.rows.Add(int64(rows))
	s.rotateFull()
	s.throttle.Wait(rows, s.stop)
	return nil
}

// applyOne decides what a command that is no event does, and reports whether it stores rows. The
// caller holds applyMu.
func (s *Store) applyOne(
	c *loggedCommand, clockNs int64, at *acqtime.Applied, out *Outcome,
) (stores bool) {
	if out.Err = c.Err; c.Err != nil {
		return false
	}
	first := max(clockNs, at.NextNs)
	copied := s.manifest.Copy != nil // only the committer changes it
	switch {
	case c.Kind == commands.KindHorizon && !copied:
		at.NextNs = first
	case c.Kind == commands.KindPut && copied:
		out.Err = ErrIsCopy
	case c.Kind == commands.KindPut && c.GroupSlots != s.manifest.Slots: // of the committer, too
		out.Err = ErrOtherSlots
	case c.Kind == commands.KindPut:
		protected := c.put.writer.ID != ([16]byte{})
		if protected {
			earlier, err := s.writers.FindOrAdmit(c.put.writer, first)
			if earlier != nil {
				out.Put = resultOf(*earlier, true)
			}
			if out.Err = err; earlier != nil || err != nil {
				return false
			}
		}
		if !c.LiesIn(c.GroupSlots) {
			out.Err = ErrOtherSlots
			return false
		}
		c.stampAt(first)
		at.NextNs = first + int64(c.put.rows)
		if protected {
			s.writers.RecordInOrder(c.put.writer, c.put.result)
		}
		out.Put = resultOf(c.put.result, false)
		s.appendApplied(c)
		return true
	}
	return false
}

// appendApplied appends the log entry of a put: its command, of which only the beginning is copied
// to be stamped.
func (s *Store) appendApplied(c *loggedCommand) {
	buf := &s.apply.buffers
	start := len(buf.data)
	buf.data = append(buf.data, c.Data[:segment.StampBytes]...)
	segment.StampRowsEntry(buf.data[start:], c.put.result.FirstNs, c.put.result.FirstNs)
	c.put.bytes = int64(len(c.Data))
	e := s.shards[0].NextEntry()
	e.Rest = c.Data[segment.StampBytes:]
	buf.entries = append(buf.entries, e)
}

// writeApplied appends the entries of puts, and how far commands are applied. The caller holds
// applyMu: a result must not be saved whose rows the log does not hold.
func (s *Store) writeApplied(
	buf *commitBuffers, at acqtime.Applied, puts []*putRequest,
) (file uint64, err error) {
	rest := buf.data
	for i, r := range puts {
		e := &buf.entries[i]
		size := int(r.bytes) - len(e.Rest)
		e.Data, rest = rest[:size:size], rest[size:]
	}
	buf.entries = append(buf.entries, appliedEntry(at))
	began := time.Now()
	file, err = s.log.Write(buf.entries)
	s.counters.logNs.Add(int64(time.Since(began)))
	s.counters.logAppends.Add(1)
	if err != nil {
		s.shards[0].LastLSN -= uint64(len(puts))
		return 0, err
	}
	s.applied = at
	return file, nil
}

// applyEvent applies a command that changes what hides rows. Its line of the manifest says itself
// that it was applied, and the log is made durable up to it: so after a loss of power there is
// nothing in the manifest that the log does not lead to. The caller is the committer.
func (s *Store) applyEvent(from Command, c *loggedCommand, out *Outcome) error {
	at := s.lastApplied()
	if from.Index <= at.Index {
		out.Skipped = true
		return nil
	}
	switch {
	case c.Kind == commands.KindSplit:
		return s.applySplit(from, c.Split, out)
	case c.Kind != commands.KindStep && c.GroupSlots != s.Slots():
		out.Err = ErrOtherSlots
		return s.skipCommand(from)
	case c.Kind == commands.KindRange:
		return s.applyRange(from, c.Range, out)
	case c.Kind == commands.KindPromote:
		return s.applyPromote(from, out)
	case s.manifest.Copy != nil: // only the committer changes it
		out.Err = ErrIsCopy
		return s.skipCommand(from)
	}
	acq := max(acqtime.Clamp(from.ClockNs), at.NextNs)
	s.manifestMu.Lock()
	e, err := eventOf(s.manifest, c, acq)
	s.manifestMu.Unlock()
	if err != nil || !e.ChangesTombstones() {
		out.Err = err
		return s.skipCommand(from)
	}
	if err := s.syncApplied(); err != nil {
		return s.failApply(err)
	}
	at = acqtime.Applied{Index: from.Index, NextNs: acq + 1}
	e.Applied = &at
	s.manifestMu.Lock()
	if err = s.manifest.Append(e); err == nil {
		s.publishEdit(&e)
	}
	s.manifestMu.Unlock()
	if err != nil {
		return s.failApply(err)
	}
	s.setApplied(at)
	s.feeds.Changed()
	out.AcqNs = acq
	if e.Purges() {
		_ = s.dropPurgedFromLog() // tried again; if the log has failed, the next command says so
	}
	return nil
}

// setApplied sets the state to that after a command, which the manifest holds. The caller
// is the committer.
func (s *Store) setApplied(at acqtime.Applied) {
	s.applyMu.Lock()
	s.applied = at
	s.applyMu.Unlock()
	s.recordDurable(at.Index)
	s.oracle.SetApplied(at)
	s.feeds.Passed(s.oracle.CurrentHorizon())
}

// eventOf returns the edit of a command at an acq.
func eventOf(m *manifest.Manifest, c *loggedCommand, acqNs int64) (e manifest.Edit, err error) {
	switch c.Kind {
	case commands.KindErase:
		e, err = m.EventEdit(event.Event{AcqNs: acqNs, Kind: event.Erase, Box: c.Box})
	case commands.KindPurge:
		e, err = m.EventEdit(event.Event{AcqNs: acqNs, Kind: event.Purge, Box: c.Box})
	case commands.KindRetention:
		e, err = m.RetentionEdit(&c.Retention,
			retention.StepTime{AcqNs: acqNs, TimeNs: m.Steps.TimeNs})
	case commands.KindStep:
		e = m.StepEdit(retention.StepTime{AcqNs: acqNs, TimeNs: c.Step.TimeNs, RanNs: c.Step.RanNs})
	case commands.KindHold:
		e, err = m.HoldEdit(&c.Hold, acqNs)
	}
	return e, err
}

// failApply is what an error of the machine means: how far the store has come on disk is only known
// once it is opened again. The caller is the committer.
func (s *Store) failApply(err error) error {
	return s.failed.Set(fmt.Errorf("%w: %w", ErrFailed, err))
}
