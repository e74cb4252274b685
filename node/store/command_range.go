package store

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// rangeHead is what the command of a range says beside its rows; see [Range].
type rangeHead struct {
	Of       string             `json:"of"`
	Timeline uint64             `json:"timeline,string,omitempty"`
	Box      event.Box          `json:"box"`
	FromNs   int64              `json:"from_acq_ns"`
	ToNs     int64              `json:"to_acq_ns"`
	Events   []event.Meta       `json:"events,omitempty"`
	Policies []retention.Policy `json:"policies,omitempty"`
	Whole    bool               `json:"whole,omitempty"`
}

// AppendRange appends the command that does what [Store.PutRange] does, with the range as far as it
// lies above the horizon: what a group has of it already came with a run that was cut short.
//
// Errors: *record.InvalidError.
func AppendRange(dst []byte, r *Range) ([]byte, error) {
	if err := checkIdentity(r.Of); err != nil {
		return dst, err
	}
	if err := r.validate(); err != nil {
		return dst, err
	}
	head := rangeHead{Of: r.Of, Timeline: r.Timeline, Box: event.BoxOf(&r.Box), FromNs: r.FromNs,
		ToNs: r.ToNs, Whole: r.Whole}
	for i := range r.Events {
		e := event.Event{AcqNs: r.Events[i].AcqNs, Kind: r.Events[i].Kind, Box: r.Events[i].Box}
		head.Events = append(head.Events, event.MetaOf(&e))
	}
	for i := range r.Policies {
		head.Policies = append(head.Policies, r.Policies[i].Unmarked())
	}
	text, err := json.Marshal(&head)
	if err != nil {
		return dst, fmt.Errorf("describe range: %w", err)
	}
	dst = binary.LittleEndian.AppendUint32(appendCommand(dst, commandRange), uint32(len(text)))
	dst = append(dst, text...)
	if r.rows() == 0 {
		return dst, nil
	}
	return appendRangeRows(dst, r.Rows), nil
}

// AppendRelease appends the command that does what [Store.ReleaseCopy] does.
func AppendRelease(dst []byte) []byte { return appendCommand(dst, commandRelease) }

func checkIdentity(of string) error {
	if id, err := hex.DecodeString(of); err != nil || len(id) != groupBytes {
		return &record.InvalidError{Part: "store", Reason: record.OutOfRange, Row: -1,
			Detail: fmt.Sprintf("%.40q is not the identity of a store, 32 hex digits", of)}
	}
	return nil
}

func appendRangeRows(dst []byte, rows *record.Batch) []byte {
	return segment.AppendRowsEntry(dst, &segment.RowsHeader{FirstAcqNs: rows.AcqNs[0],
		Stamped: true, BatchFirstAcqNs: rows.AcqNs[0], BatchRecords: uint32(rows.Len()),
		BatchEntries: 1}, rows, nil)
}

func (c *command) parseRange(body []byte) error {
	if len(body) < 4 || uint64(binary.LittleEndian.Uint32(body)) > uint64(len(body)-4) {
		return badCommand("%d bytes end inside a range", len(body))
	}
	size := binary.LittleEndian.Uint32(body)
	text, rest := body[4:4+size], body[4+size:]
	var head rangeHead
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields() // who left one out might differ from who knows it
	if err := from.Decode(&head); err != nil || from.InputOffset() != int64(len(text)) {
		return badCommand("the range is described by %.100q: %v", text, err)
	}
	if err := checkIdentity(head.Of); err != nil {
		return err
	}
	r := &Range{Of: head.Of, Timeline: head.Timeline, FromNs: head.FromNs, ToNs: head.ToNs,
		Whole: head.Whole}
	var err error
	if r.Box, err = event.ParseBox(&head.Box); err != nil {
		return err
	}
	for i := range head.Events {
		e, err := head.Events[i].Event()
		if err != nil {
			return badCommand("%v", err)
		}
		r.Events = append(r.Events, e)
	}
	for i := range head.Policies {
		r.Policies = append(r.Policies, head.Policies[i].Unmarked())
	}
	if len(rest) > 0 {
		if r.Rows, err = c.parseRangeRows(rest); err != nil {
			return err
		}
	}
	c.rng = r
	return r.validate()
}

func (c *command) parseRangeRows(src []byte) (*record.Batch, error) {
	if c.rows == nil {
		c.rows = new(record.Batch)
	}
	var h segment.RowsHeader
	if err := segment.ParseRowsEntry(src, &h, c.rows); formats.Is(err) {
		return nil, err
	} else if err != nil {
		return nil, badCommand("%v", err)
	}
	n := c.rows.Len()
	if n == 0 || !h.Stamped || h.Shared || h.Writer != ([16]byte{}) || h.Seq != 0 ||
		h.BatchEntries != 1 || uint64(h.BatchRecords) != uint64(n) ||
		h.FirstAcqNs != c.rows.AcqNs[0] || h.BatchFirstAcqNs != h.FirstAcqNs {
		return nil, badCommand("the rows of the range are not those of a whole stamped batch")
	}
	return c.rows, nil
}

// above leaves out what a copy has already that ends at an acq.
func (r *Range) above(acqNs int64) *Range {
	if r.FromNs >= acqNs {
		return r
	}
	out := *r
	out.FromNs, out.Events, out.Rows = acqNs, nil, nil
	for _, e := range r.Events {
		if e.AcqNs >= acqNs {
			out.Events = append(out.Events, e)
		}
	}
	if r.rows() > 0 {
		if k, _ := slices.BinarySearch(r.Rows.AcqNs, acqNs); k < r.Rows.Len() {
			out.Rows = &record.Batch{}
			out.Rows.AppendRows(r.Rows, k, r.Rows.Len())
		}
	}
	return &out
}

// applyRange is [Store.PutRange] of a replica. What it refuses depends on the manifest alone, which
// is the same on all replicas at this place of the log. Events come first, as there: a crash leaves
// them without the rows, and the command comes again. The caller is the committer.
func (s *Store) applyRange(from Command, r *Range, out *Outcome) error {
	refused, err := s.followInLog(r)
	if err != nil {
		return s.failApply(err)
	}
	at := s.position()
	if refused == nil && r.FromNs > at.NextNs {
		refused = fmt.Errorf("%w: it begins at acq %d, and the copy ends at %d: go on from there",
			ErrNotCopied, r.FromNs, at.NextNs)
	}
	if out.Err = refused; refused != nil {
		return s.passOver(from)
	}
	out.AcqNs = r.ToNs - 1 // the greatest below the horizon
	if r.ToNs <= at.NextNs {
		return s.passOver(from)
	}
	r = r.above(at.NextNs)
	if err := s.syncApplied(); err != nil {
		return s.failApply(err)
	}
	purges, err := s.copyEvents(r)
	if errors.Is(err, ErrNotCopied) || errors.Is(err, manifest.ErrTooManyEvents) {
		*out = Outcome{Err: err}
		return s.passOver(from)
	}
	if err != nil {
		return s.failApply(err)
	}
	if err := s.writeRange(r, acqtime.Position{Index: from.Index, NextNs: r.ToNs}); err != nil {
		return err
	}
	if purges {
		_ = s.emptyLog() // it is tried again; if the log has failed, the next command says so
	}
	return nil
}

// passOver notes that a command was applied that does nothing.
func (s *Store) passOver(from Command) error {
	return s.applyRun([]Command{from}, []command{{}}, make([]Outcome, 1))
}

// writeRange writes the rows of a range and where the replica stands with them.
func (s *Store) writeRange(r *Range, at acqtime.Position) error {
	var group []*putRequest
	s.applyMu.Lock()
	buf := &s.apply.buffers
	buf.entries, buf.data = buf.entries[:0], buf.data[:0]
	if r.rows() > 0 {
		buf.data = appendRangeRows(buf.data, r.Rows)
		buf.entries = append(buf.entries, s.shards[0].NextEntry())
		group = append(group, &putRequest{rows: r.rows(), bytes: int64(len(buf.data)),
			byShard: []shardRows{{rows: *r.Rows}}})
	}
	file, err := s.writeApplied(buf, at, group)
	s.applyMu.Unlock()
	if err != nil {
		return s.failApply(err)
	}
	s.noteFile(file, buf.entries)
	s.insert(group)
	s.clock.Drive(at)
	s.feeds.committed(group)
	if len(r.Events)+len(r.Policies) > 0 {
		s.feeds.changed()
	}
	s.counters.rows.Add(int64(r.rows()))
	s.sealFull()
	s.throttle(r.rows())
	return nil
}

// followInLog is [Store.follow] of a replica.
func (s *Store) followInLog(r *Range) (refused, err error) {
	s.manifestMu.Lock()
	box := event.BoxOf(&r.Box)
	m, empty := s.manifest.Copied, s.isEmpty()
	s.manifestMu.Unlock()
	switch {
	case m != nil && m.Store != r.Of:
		return fmt.Errorf("%w: it is of store %s, and this is a copy of store %s; copy "+
			"into a new cluster", ErrNotCopied, r.Of, m.Store), nil
	case m != nil && !event.SameBox(&m.Box, &box):
		return fmt.Errorf("%w: this is a copy of another box; take the same selectors each "+
			"time, or copy into a new cluster", ErrNotCopied), nil
	case m != nil:
		return nil, nil
	case !empty:
		return fmt.Errorf("%w: the cluster holds records or events of its own; copy into a new "+
			"one, or give the records new acqs", ErrNotCopied), nil
	case r.FromNs != 0:
		return fmt.Errorf("%w: a copy begins at acq 0, not at %d", ErrNotCopied, r.FromNs), nil
	}
	return nil, s.becomeCopyInLog(r, box)
}

// becomeCopyInLog is [Store.becomeCopy] of a replica, which stays that of its group. What its log
// says of the horizon so far is void, as long as it is a copy.
func (s *Store) becomeCopyInLog(r *Range, box event.Box) error {
	if err := s.syncApplied(); err != nil {
		return err
	}
	was := s.position()
	at := acqtime.Position{Index: was.Index}
	s.log.Roll()
	file, err := s.log.Append([]segment.Entry{appliedEntry(at)})
	if err != nil {
		return fmt.Errorf("begin copy: %w", err)
	}
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	s.noteEntries(file, nil)
	err = s.manifest.Append(manifest.Edit{Applied: &at,
		Copy: &manifest.Copy{Store: r.Of, Timeline: r.Timeline, Box: box, FirstLog: file,
			VoidNs: was.NextNs}})
	if err != nil {
		return err
	}
	s.applyMu.Lock()
	s.applied = at
	s.applyMu.Unlock()
	s.clock.RevokeLeases(was.NextNs)
	s.clock.Drive(at)
	return nil
}

// applyRelease is [Store.ReleaseCopy] of a replica. Its horizon goes on above all that was ever
// promised, here and while it was no copy. The caller is the committer.
func (s *Store) applyRelease(from Command, out *Outcome) error {
	if s.manifest.Copied == nil { // only the committer changes it
		out.Err = ErrNoCopy
		return s.passOver(from)
	}
	if err := s.syncApplied(); err != nil {
		return s.failApply(err)
	}
	at := acqtime.Position{Index: from.Index,
		NextNs: max(acqtime.Clamp(from.ClockNs), s.position().NextNs)}
	s.manifestMu.Lock()
	at.NextNs = max(at.NextNs, s.manifest.Copied.VoidNs)
	at.NextNs = max(at.NextNs, s.manifest.LastEvent()+1)
	err := s.manifest.Append(manifest.Edit{Release: true, Applied: &at})
	s.manifestMu.Unlock()
	if err != nil {
		return s.failApply(err)
	}
	s.clock.AcceptLeases()
	s.come(at)
	out.AcqNs = at.NextNs - 1
	return nil
}
