package store

import (
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/node/wal"
)

// applyRange is [Store.PutRange] of a replica. What it refuses depends on the manifest alone, which
// is the same on all replicas at this position of the log. Events come first, as there: a crash
// leaves them without the rows, and the command comes again. The caller is the committer.
func (s *Store) applyRange(from Command, r *mirror.Range, out *Outcome) error {
	refused, err := s.followInLog(r)
	if err != nil {
		return s.failApply(err)
	}
	at := s.lastApplied()
	if refused == nil && r.FromNs > at.NextNs {
		refused = fmt.Errorf("%w: it begins at acq %d, and the copy ends at %d; continue "+
			"from there", ErrNotCopied, r.FromNs, at.NextNs)
	}
	if out.Err = refused; refused != nil {
		return s.skipCommand(from)
	}
	out.AcqNs = r.ToNs - 1 // the greatest below the horizon
	if r.ToNs <= at.NextNs {
		return s.skipCommand(from)
	}
	r = r.Above(at.NextNs)
	if err := s.syncApplied(); err != nil {
		return s.failApply(err)
	}
	purges, err := s.copyEvents(r)
	if errors.Is(err, ErrNotCopied) || errors.Is(err, manifest.ErrTooManyEvents) {
		*out = Outcome{Err: err}
		return s.skipCommand(from)
	}
	if err != nil {
		return s.failApply(err)
	}
	if err := s.writeRange(r, acqtime.Applied{Index: from.Index, NextNs: r.ToNs}); err != nil {
		return err
	}
	if purges {
		_ = s.dropPurgedFromLog() // tried again; if the log has failed, the next command says so
	}
	return nil
}

// skipCommand notes that a command was applied that does nothing.
func (s *Store) skipCommand(from Command) error {
	return s.applyInOneAppend([]Command{from}, []loggedCommand{{}}, make([]Outcome, 1))
}

// writeRange writes the rows of a range and where the replica stands with them.
func (s *Store) writeRange(r *mirror.Range, at acqtime.Applied) error {
	var group []*putRequest
	s.applyMu.Lock()
	buf := &s.apply.buffers
	buf.entries, buf.data = buf.entries[:0], buf.data[:0]
	if r.Len() > 0 {
		buf.data = commands.AppendRangeRows(buf.data, r.Rows)
		buf.entries = append(buf.entries, s.shards[0].NextEntry())
		group = append(group, &putRequest{rows: r.Len(), bytes: int64(len(buf.data)),
			byShard: []shardRows{{rows: *r.Rows}}})
		group[0].byShard[0].divide(s.opt.HeadShards)
	}
	file, err := s.writeApplied(buf, at, group)
	s.applyMu.Unlock()
	if err != nil {
		return s.failApply(err)
	}
	s.recordLogFile(file, buf.entries)
	s.insert(group)
	s.oracle.SetApplied(at)
	notifyFeeds(s.feeds, group)
	if len(r.Events)+len(r.Policies) > 0 {
		s.feeds.Changed()
	}
	s.counters.rows.Add(int64(r.Len()))
	s.rotateFull()
	s.throttle.Wait(r.Len(), s.stop)
	return nil
}

// followInLog is [Store.checkContinues] of a replica.
func (s *Store) followInLog(r *mirror.Range) (refused, err error) {
	s.manifestMu.Lock()
	box := event.BoxOf(&r.Box)
	m, empty := s.manifest.Copy, s.isEmpty()
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
func (s *Store) becomeCopyInLog(r *mirror.Range, box event.Box) error {
	if err := s.syncApplied(); err != nil {
		return err
	}
	was := s.lastApplied()
	at := acqtime.Applied{Index: was.Index}
	s.log.Roll()
	file, err := s.log.Append([]wal.Entry{appliedEntry(at)})
	if err != nil {
		return fmt.Errorf("begin copy: %w", err)
	}
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	s.recordLogFile(file, nil)
	err = s.manifest.Append(manifest.Edit{Applied: &at,
		Copy: &manifest.Copy{Store: r.Of, Timeline: r.Timeline, Box: box, FirstLog: file,
			PriorHorizonNs: was.NextNs}})
	if err != nil {
		return err
	}
	s.applyMu.Lock()
	s.applied = at
	s.applyMu.Unlock()
	s.oracle.RevokeLeases(was.NextNs)
	s.oracle.SetApplied(at)
	return nil
}

// applyPromote is [Store.PromoteCopy] of a replica. Its horizon goes on above all that was ever
// leased, here and while it was no copy. The caller is the committer.
func (s *Store) applyPromote(from Command, out *Outcome) error {
	if s.manifest.Copy == nil { // only the committer changes it
		out.Err = ErrNoCopy
		return s.skipCommand(from)
	}
	if err := s.syncApplied(); err != nil {
		return s.failApply(err)
	}
	at := acqtime.Applied{Index: from.Index,
		NextNs: max(acqtime.Clamp(from.ClockNs), s.lastApplied().NextNs)}
	s.manifestMu.Lock()
	at.NextNs = max(at.NextNs, s.manifest.Copy.PriorHorizonNs)
	at.NextNs = max(at.NextNs, s.manifest.LastEvent()+1)
	err := s.manifest.Append(manifest.Edit{Promote: true, Applied: &at})
	s.manifestMu.Unlock()
	if err != nil {
		return s.failApply(err)
	}
	s.oracle.AcceptLeases()
	s.setApplied(at)
	out.AcqNs = at.NextNs - 1
	return nil
}
