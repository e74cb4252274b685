package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/record"
)

// State is what a copy needs to know of a store beside its rows.
type State struct {
	Store     string     // identity
	Of        string     // identity of the store that it is a copy of; empty: of none
	Box       record.Box // what it is a copy of
	Empty     bool       // it never held anything
	HorizonNs int64      // all events and steps with a smaller acq are below, durably logged
	Lineage   record.Lineage
	// Held is of a copy: the timeline, of the store that it is of, at HeldNs, where it ends.
	Held     uint64
	HeldNs   int64
	Events   []event.Event // erases and purges
	Policies []retention.Policy
}

// State returns the state of the store at one time.
func (s *Store) State(ctx context.Context) (st State, err error) {
	if s.closed.Load() {
		return st, ErrClosed
	}
	if _, err := s.ExtendHorizon(ctx); err != nil { // so that the log has the lease
		return st, err
	}
	err = s.onCommitter(ctx, func() {
		st.HorizonNs, _ = s.oracle.Horizon()
		if !s.replicated {
			st.HorizonNs = s.logHorizon(st.HorizonNs)
		}
		s.manifestMu.Lock()
		defer s.manifestMu.Unlock()
		m := s.manifest
		st.Store, st.Empty, st.Lineage = m.Store, s.isEmpty(), m.Timelines()
		if m.Copy != nil {
			st.Of, st.Held, st.HeldNs = m.Copy.Store, m.Copy.Timeline, st.HorizonNs
			st.Box, _ = event.ParseBox(&m.Copy.Box) // checked when it came
		}
		for _, e := range m.Events {
			if e.AcqNs < st.HorizonNs && e.Kind != event.Split { // which is no copy's business
				st.Events = append(st.Events, e)
			}
		}
		for i := range m.Policies {
			st.Policies = append(st.Policies, m.Policies[i].Unmarked())
		}
	})
	return st, err
}

// IsCopy reports whether the store is a copy, whose horizon is where its last range ended.
func (s *Store) IsCopy() bool {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	return s.manifest.Copy != nil
}

// isEmpty reports whether nothing was ever stored. The caller is the committer and holds
// manifestMu.
func (s *Store) isEmpty() bool {
	m := s.manifest
	for _, sh := range s.allShards {
		if sh.LastLSN > 0 {
			return false
		}
	}
	hides := slices.ContainsFunc(m.Events, func(e event.Event) bool {
		return e.Kind != event.Split
	})
	return m.Copy == nil && !hides && len(m.Live)+len(m.EmptyLSNRanges)+len(m.Policies) == 0
}

// PutRange adds a range to a copy: rows with the acqs that they have, and events in their place.
// The first range, from acq 0 on, makes an empty store a copy: from then on it takes nothing else,
// and its horizon is the end of the last range. On return the range is durable and visible; after
// a crash it is there whole or not at all. One that is there already changes nothing.
//
// Returns: the horizon.
// Errors: *record.InvalidError; ErrNotCopied when the range does not continue the copy, or the
// store is none and not empty; as with [Store.Put] and [Store.Erase].
func (s *Store) PutRange(ctx context.Context, r *mirror.Range) (horizonNs int64, err error) {
	if s.closed.Load() {
		return 0, ErrClosed
	}
	if err := s.refuseReplicated(); err != nil {
		return 0, err
	}
	if err := r.Validate(); err != nil {
		return 0, err
	}
	if err := s.headBudget.Wait(ctx, 0); err != nil {
		return 0, err
	}
	put := &putRequest{done: make(chan struct{})}
	if r.Len() > 0 {
		put.rows, put.byShard = r.Len(), s.split(r.Rows)
		stampShardRows(put.byShard, r.Rows, len(s.shards))
	}
	entries := make([]wal.Entry, 0, len(put.byShard)+1)
	for i := range put.byShard {
		entries = append(entries, wal.Entry{Data: appendStamped(nil, put, i)})
	}
	var failed error
	err = s.onCommitter(ctx, func() {
		failed = s.commitRange(r, put, entries)
		horizonNs = s.oracle.NextNs()
	})
	return horizonNs, errors.Join(err, failed)
}

// stampShardRows stamps the rows of a batch that were divided by shard with the acqs of the batch.
func stampShardRows(byShard []shardRows, b *record.Batch, shards int) {
	ready := make([][]int64, shards)
	for i := range byShard {
		ready[byShard[i].shard] = byShard[i].rows.AcqNs
	}
	for i, acq := range b.AcqNs {
		sh := layout.ShardOf(b.CID[i], b.MID[i], shards)
		ready[sh][0] = acq
		ready[sh] = ready[sh][1:]
	}
}

func appendStamped(dst []byte, put *putRequest, i int) []byte {
	rows := &put.byShard[i].rows
	return segment.AppendRowsEntry(dst, &segment.RowsHeader{
		FirstAcqNs: rows.AcqNs[0], HasAcqs: true,
		BatchFirstAcqNs: rows.AcqNs[0], BatchRecords: uint32(rows.Len()),
		BatchEntries: uint32(len(put.byShard)),
	}, rows, nil)
}

// commitRange is the part of PutRange on the committer. Events come first: until the horizon has
// passed them they hide nothing but what a purge hides, and the append that holds the rows moves
// it.
func (s *Store) commitRange(r *mirror.Range, put *putRequest, entries []wal.Entry) error {
	if s.failed.Err() != nil {
		return s.failed.Err()
	}
	if err := s.checkContinues(r); err != nil {
		return err
	}
	at := s.oracle.NextNs()
	if r.ToNs <= at {
		return nil
	}
	if r.FromNs != at {
		return fmt.Errorf("%w: it begins at acq %d, and the copy ends at %d; continue from there",
			ErrNotCopied, r.FromNs, at)
	}
	purges, err := s.copyEvents(r)
	if err != nil {
		return err
	}
	for i := range entries {
		data := entries[i].Data
		entries[i] = s.shards[put.byShard[i].shard].NextEntry()
		entries[i].Data = data
	}
	began := time.Now()
	file, err := s.appendLog(append(entries, layout.NextAcqEntry(r.ToNs, false)))
	s.counters.logNs.Add(int64(time.Since(began)))
	s.counters.logAppends.Add(1)
	if err != nil {
		s.refuse([]*putRequest{put}, entries, fmt.Errorf("copy range: %w", err))
		return put.err
	}
	s.recordLogFile(file, entries)
	s.insert([]*putRequest{put})
	s.oracle.StartCopy(r.ToNs)
	notifyFeeds(s.feeds, []*putRequest{put})
	if len(r.Events)+len(r.Policies) > 0 {
		s.feeds.Changed()
	}
	s.counters.rows.Add(int64(put.rows))
	if purges {
		_ = s.dropPurgedFromLog() // it is tried again; if the log has failed, ranges say so
	}
	s.rotateFull()
	s.throttle.Wait(put.rows, s.stop)
	return nil
}

// checkContinues sees to it that the store is a copy that the range can continue.
func (s *Store) checkContinues(r *mirror.Range) error {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	if failed := s.manifest.Err(); failed != nil {
		return fmt.Errorf("%w: %w", ErrFailed, failed)
	}
	box := event.BoxOf(&r.Box)
	if m := s.manifest.Copy; m != nil {
		switch {
		case m.Store != r.Of:
			return fmt.Errorf("%w: it is of store %s, and this is a copy of store %s; copy "+
				"into a new store", ErrNotCopied, r.Of, m.Store)
		case !event.SameBox(&m.Box, &box):
			return fmt.Errorf("%w: this is a copy of another box; take the same selectors each "+
				"time, or copy into a new store", ErrNotCopied)
		}
		return nil
	}
	if !s.isEmpty() {
		return fmt.Errorf("%w: this store holds records or events of its own; copy into a new "+
			"store, or give the records new acqs", ErrNotCopied)
	}
	if r.FromNs != 0 {
		return fmt.Errorf("%w: a copy begins at acq 0, not at %d", ErrNotCopied, r.FromNs)
	}
	return s.becomeCopy(r, box)
}

// becomeCopy makes an empty store a copy. What its log has leased so far is void: a log file is
// begun for what counts. The caller holds manifestMu.
func (s *Store) becomeCopy(r *mirror.Range, box event.Box) error {
	if err := s.beginLogging(); err != nil {
		return err
	}
	s.log.Roll()
	file, err := s.log.Append([]wal.Entry{layout.NextAcqEntry(0, false)})
	if err != nil {
		return fmt.Errorf("begin copy: %w", err)
	}
	s.recordLogFile(file, nil)
	err = s.manifest.Append(manifest.Edit{Store: manifest.NewStoreID(),
		Lineage: record.Lineage{manifest.NewTimeline(0)},
		Copy:    &manifest.Copy{Store: r.Of, Timeline: r.Timeline, Box: box, FirstLog: file}})
	if err != nil {
		return s.failEvent(err)
	}
	s.oracle.StartCopy(0)
	return nil
}

// failEvent is what a manifest that failed means: whether the edit is on disk is unknown, and
// nothing may be put after it. The caller is the committer and holds manifestMu.
func (s *Store) failEvent(err error) error {
	if s.manifest.Err() == nil {
		return err
	}
	return s.failed.Set(fmt.Errorf("%w: %w", ErrFailed, err))
}

// copyEvents puts the events and steps of a range into force, all at once, so that none comes after
// one with a greater acq. Those that came with the same range before a crash are there.
func (s *Store) copyEvents(r *mirror.Range) (purges bool, err error) {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	e, newest := manifest.Edit{}, int64(math.MinInt64)
	if n := len(s.manifest.Events); n > 0 {
		newest = s.manifest.Events[n-1].AcqNs
	}
	for i := range r.Events {
		next := event.Event{AcqNs: r.Events[i].AcqNs, Kind: r.Events[i].Kind, Box: r.Events[i].Box}
		acq := next.AcqNs
		if s.manifest.FindEvent(acq) >= 0 {
			continue
		}
		if acq < newest {
			return false, fmt.Errorf("%w: it brings an event with acq %d, but the one with acq "+
				"%d is here already; copy into a new store", ErrNotCopied, acq, newest)
		}
		// a purge is done here when it is done here
		e.Events = append(e.Events, event.MetaOf(&next))
	}
	if len(s.manifest.Events)+len(e.Events) > manifest.MaxEvents {
		return false, manifest.ErrTooManyEvents
	}
	e.Policies = s.changedPolicies(r)
	if r.Whole {
		for _, p := range s.manifest.Policies {
			if _, known := findPolicy(r.Policies, p.Scope); !known {
				e.DropPolicies = append(e.DropPolicies, p.Scope)
			}
		}
	}
	if was := s.manifest.Copy; was.Timeline != r.Timeline {
		now := *was
		now.Timeline, e.Copy = r.Timeline, &now
	}
	if !e.ChangesTombstones() && e.Copy == nil {
		return false, nil
	}
	if err := s.manifest.Append(e); err != nil {
		return false, s.failEvent(err)
	}
	s.publishTombstones()
	return e.Purges(), nil
}

// changedPolicies returns the policies of a range that differ from what the store has, without the
// steps that belong to later ranges. The caller holds manifestMu.
func (s *Store) changedPolicies(r *mirror.Range) (all []retention.Policy) {
	for i := range r.Policies {
		p := r.Policies[i].Unmarked()
		old := retention.Policy{}
		at, known := s.manifest.FindPolicy(p.Scope)
		if known {
			old = s.manifest.Policies[at]
		}
		p.Cap.Between(r.FromNs, r.ToNs, &old.Cap)
		p.Acq.Between(r.FromNs, r.ToNs, &old.Acq)
		if old.Scope = p.Scope; !known || !p.Same(&old) {
			all = append(all, p)
		}
	}
	return all
}

// PromoteCopy promotes a copy to a stand-alone store: it takes records from then on, and nothing
// more of the store that it was a copy of. Results of that one's puts are not known here.
//
// Errors: ErrNoCopy; ErrClosed; ErrFailed.
func (s *Store) PromoteCopy(ctx context.Context) error {
	var failed error
	err := s.onCommitter(ctx, func() {
		s.manifestMu.Lock()
		defer s.manifestMu.Unlock()
		if s.manifest.Copy == nil {
			failed = ErrNoCopy
			return
		}
		from := s.manifest.LastEvent() + 1
		err := s.manifest.Append(manifest.Edit{Store: manifest.NewStoreID(), Promote: true})
		if err != nil {
			failed = s.failEvent(err)
			return
		}
		s.oracle.EndCopy(from)
	})
	return errors.Join(err, failed)
}

func findPolicy(all []retention.Policy, sc retention.Scope) (at int, known bool) {
	at = slices.IndexFunc(all, func(p retention.Policy) bool {
		return p.Scope.Compare(sc) == 0
	})
	return at, at >= 0
}
