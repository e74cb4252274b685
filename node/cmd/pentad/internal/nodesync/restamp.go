package nodesync

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Target is what is asked of a node that gives records acqs of its own; a client is one.
type Target interface {
	SyncState(ctx context.Context) (wire.State, error)
	Put(ctx context.Context, b *record.Batch, writer [16]byte, seq uint64) (wire.PutReply, error)
	Erase(ctx context.Context, box *wire.Box) (acqNs int64, err error)
	Purge(ctx context.Context, box *wire.Box) (acqNs int64, err error)
}

// positionFormat of a position. 1: first.
const positionFormat = 1

// Position is how far the records of a source were put into a target that gives them new acqs. It
// is to be kept between runs: without it they would be put again.
type Position struct {
	Format int        `json:"format"`
	Source string     `json:"source"` // identity of its store
	Target string     `json:"target"` // likewise
	Box    record.Box `json:"box"`
	Writer string     `json:"writer"` // as which the target knows us
	Seq    uint64     `json:"seq"`    // of the last put
	FromNs int64      `json:"from_acq_ns"`
	ToNs   int64      `json:"to_acq_ns"` // acqs in between may or may not have been put as Seq
	// Timeline of the source at ToNs; 0: it had none.
	Timeline uint64 `json:"timeline,string,omitempty"`
	// LastNs is above the acqs of all that was put or done, and of what hid records of the source,
	// and LastTimeline its timeline there: a source that has all below lacks nothing.
	LastNs       int64  `json:"last_acq_ns,omitempty"`
	LastTimeline uint64 `json:"last_timeline,string,omitempty"`
	// ThereNs is above the acqs that the target gave to what is below FromNs, and ThereTimeline its
	// timeline there: a target that was put back from an older copy lacks some of that.
	ThereNs       int64  `json:"target_acq_ns,omitempty"`
	ThereTimeline uint64 `json:"target_timeline,string,omitempty"`
}

// Restamp puts what a source has below its horizon into a target that gives it acqs of its own, in
// the same order, in addition to what it holds: versions hide each other as they do at the source.
// Erases and purges are done at the target in their place, in the box that is copied; policies are
// not. Each range is put exactly once, by a sequence that save keeps before it is sent, as long as
// the target remembers the writer.
//
// Errors: ErrNotACopy when the position is of another source or selectors, a node lacks what was
// put of it or into it, or there is an erase or purge of acqs, or any without a box of tenants;
// those of the nodes and of save.
func Restamp(
	ctx context.Context, from Node, to Target, p *Position, save func(p *Position) error,
	opt Options,
) (Report, error) {
	r := &restamping{target: to, position: p, save: save,
		copying: copying{from: from, opt: opt.withDefaults(), began: time.Now()}}
	if err := r.begin(ctx); err != nil {
		return r.report, err
	}
	return r.report, r.run(ctx)
}

type restamping struct {
	copying
	target   Target
	position *Position
	save     func(p *Position) error
	writer   [16]byte
	there    record.Lineage // of the target, when it was asked last
}

// begin asks both nodes and looks whether the position is of them.
func (r *restamping) begin(ctx context.Context) error {
	there, err := r.target.SyncState(ctx)
	if err != nil {
		return fmt.Errorf("ask the target: %w", err)
	}
	r.there = there.Lineage
	if r.source, err = r.from.SyncState(ctx); err != nil {
		return fmt.Errorf("ask the source: %w", err)
	}
	if r.source.Store == there.Store {
		return fmt.Errorf("%w: both are the same node", ErrNotACopy)
	}
	if err := normalizeBox(&r.opt.Box); err != nil {
		return err
	}
	source, target := hex.EncodeToString(r.source.Store[:]), hex.EncodeToString(there.Store[:])
	p := r.position
	if p.Source == "" {
		_, _ = rand.Read(r.writer[:]) // never fails
		*p = Position{Format: positionFormat, Source: source, Target: target, Box: r.opt.Box,
			Writer: hex.EncodeToString(r.writer[:])}
	}
	if raw, err := hex.DecodeString(p.Writer); err != nil || copy(r.writer[:], raw) != 16 ||
		p.Format != positionFormat || p.FromNs < 0 || p.ToNs < p.FromNs {
		return fmt.Errorf("%w: the position of the last run is invalid: %+v", ErrNotACopy, *p)
	}
	switch {
	case p.Source != source || p.Target != target:
		return fmt.Errorf("%w: the position is of store %s into store %s, but this run is of "+
			"store %s into store %s; use one file per pair", ErrNotACopy, p.Source, p.Target,
			source, target)
	case !sameBox(&p.Box, &r.opt.Box):
		return fmt.Errorf("%w: the last run had other selectors; use the same ones",
			ErrNotACopy)
	}
	return r.resume(there.HorizonNs)
}

// resume looks whether both nodes have what the position says.
func (r *restamping) resume(thereNs int64) error {
	p := r.position
	if p.LastNs == 0 { // written by a version that did not know more
		p.LastNs, p.LastTimeline = p.ToNs, p.Timeline
	}
	if err := r.goBack(); err != nil {
		return fmt.Errorf("%w; restore its newer directory, or continue with a new file, which "+
			"stores everything again", err)
	}
	if err := r.thereLacks(); err != nil {
		return err
	}
	if p.ThereTimeline != 0 && len(r.there) == record.MaxLineage { // which forgets the oldest
		p.ThereNs, p.ThereTimeline = thereNs, r.there.At(thereNs)
	}
	if p.ToNs > r.source.HorizonNs {
		return fmt.Errorf("%w: acq %d was reached, but the source ends at %d: it lost records, "+
			"or its clock was set back", ErrNotACopy, p.ToNs, r.source.HorizonNs)
	}
	r.from = past(r.from, r.source.HorizonNs)
	return r.checkEvents()
}

// goBack says why the source lacks what was put of it. If it has all that, and lacks only acqs that
// nothing was put of, it goes back to where these begin.
func (r *restamping) goBack() error {
	p := r.position
	err := lacks(&r.source, p.Timeline, p.ToNs)
	if err == nil || p.FromNs < p.ToNs || p.LastTimeline == 0 ||
		lacks(&r.source, p.LastTimeline, p.LastNs) != nil {
		return err
	}
	at := min(p.LastNs, p.ToNs)
	r.reach(at, at)
	return nil
}

// passed notes that what was put or hidden has an acq.
func (r *restamping) passed(acqNs int64) {
	if p := r.position; p.LastNs <= acqNs {
		p.LastNs, p.LastTimeline = acqNs+1, r.source.Lineage.At(acqNs+1)
	}
}

// thereLacks says why the target does not have what was put into it.
func (r *restamping) thereLacks() error {
	lack := r.there.Lacks(r.position.ThereTimeline, r.position.ThereNs)
	if lack == nil {
		return nil
	}
	return fmt.Errorf("%w: the target lacks records that were stored there: %w; restore its "+
		"newer directory, or continue with a new file, which stores everything again", ErrNotACopy,
		lack)
}

// reach notes up to where the records were put, or may have been.
func (r *restamping) reach(fromNs, toNs int64) {
	p := r.position
	p.FromNs, p.ToNs, p.Timeline = fromNs, toNs, r.source.Lineage.At(toNs)
}

// checkEvents refuses erases and purges that cannot be done at the target, or would concern there
// what others wrote.
func (r *restamping) checkEvents() error {
	for i := range r.source.History.Hiding {
		e := &r.source.History.Hiding[i]
		if e.AcqNs < r.position.FromNs {
			continue
		}
		if _, some := r.within(e); !some {
			continue
		}
		if r.source.Groups > 0 {
			return fmt.Errorf("%w: the source is a cluster of %d groups, each of which has the "+
				"erase or purge with acq %d at another position or not at all; use selectors "+
				"that it does not match, or pentad export", ErrNotACopy, r.source.Groups, e.AcqNs)
		}
		if len(e.Box[record.Acq]) > 0 {
			return fmt.Errorf("%w: the erase or purge with acq %d selects acqs, which differ in "+
				"the target; make an exact copy", ErrNotACopy, e.AcqNs)
		}
		if len(r.opt.Box[record.CID]) == 0 {
			return fmt.Errorf("%w: the erase or purge with acq %d of the source would affect "+
				"records of other writers in the target; select tenants that only the source "+
				"writes", ErrNotACopy, e.AcqNs)
		}
	}
	return nil
}

func (r *restamping) run(ctx context.Context) error {
	p := r.position
	r.report.FromNs, r.report.ToNs = p.FromNs, r.source.HorizonNs
	if p.ToNs > p.FromNs {
		rows, purgedNs, err := readRows(ctx, r.from, &r.opt.Box, p.FromNs, p.ToNs)
		if err != nil {
			return fmt.Errorf("read the source: %w", err)
		}
		r.passed(purgedNs)
		if err := r.send(ctx, rows); err != nil {
			return err
		}
	}
	left := copying{from: r.from, opt: r.opt, report: Report{FromNs: p.FromNs,
		ToNs: r.source.HorizonNs}}
	if err := left.each(ctx, r.put); err != nil {
		return err
	}
	r.reach(r.source.HorizonNs, r.source.HorizonNs)
	return r.save(p)
}

// tooManyOfOne is the error of records that one put does not take: positions lie between acqs.
func tooManyOfOne(acqNs int64) error {
	return fmt.Errorf("more than %d records, or %d payload bytes, share the acq %s and cannot "+
		"be restamped in one batch; export and store them separately, and copy the others by "+
		"selectors", record.MaxBatchRecords, record.MaxBatchBytes, record.FormatNs(acqNs))
}

// put puts a slice, in batches that end where an event has its place.
func (r *restamping) put(ctx context.Context, s *slice) error {
	r.passed(s.purgedNs)
	for row := 0; row < s.rows.Len() || r.next(s.digest.ToNs) != nil; {
		from, e := r.position.ToNs, r.next(s.digest.ToNs)
		to, last := s.digest.ToNs, s.rows.Len()
		if e != nil {
			to = e.AcqNs
			last = row + sort.Search(last-row, func(i int) bool {
				return s.rows.AcqNs[row+i] >= e.AcqNs
			})
		}
		switch {
		case last > row+record.MaxBatchRecords:
			last = row + record.MaxBatchRecords
			for s.rows.AcqNs[last-1] == s.rows.AcqNs[last] { // of two groups of a cluster
				if last--; last == row {
					return tooManyOfOne(s.rows.AcqNs[row])
				}
			}
			to = s.rows.AcqNs[last]
		case last == row:
			to = e.AcqNs + 1 // its turn has come
		}
		batch := &record.Batch{}
		batch.AppendRows(s.rows, row, last)
		if len(batch.Data) > record.MaxBatchBytes {
			return tooManyOfOne(s.rows.AcqNs[row])
		}
		r.position.Seq++
		r.reach(from, to)
		if err := r.save(r.position); err != nil {
			return err
		}
		if err := r.send(ctx, batch); err != nil {
			return err
		}
		row = last
	}
	r.reach(s.digest.ToNs, s.digest.ToNs)
	r.report.Bytes += s.digest.Bytes
	return nil
}

// next returns the next event that has its place before an acq, nil for none.
func (r *restamping) next(untilNs int64) *wire.Hiding {
	for i := range r.source.History.Hiding {
		e := &r.source.History.Hiding[i]
		if e.AcqNs >= r.position.ToNs && e.AcqNs < untilNs {
			return e
		}
	}
	return nil
}

// maxRestarts is how often the target may be started again while one batch is put.
const maxRestarts = 10

// send puts the rows of the position, and does the event in it, until the target is the same
// process before and afterwards. One that was started again may have been put back from an older
// copy; it knows the batch by its sequence, or has lost it and takes it again.
func (r *restamping) send(ctx context.Context, rows *record.Batch) error {
	events := 0
	for tries := 0; ; tries++ {
		acqNs, done, err := r.sendOnce(ctx, rows)
		if err != nil {
			return err
		}
		if events = done; acqNs == 0 {
			break // nothing was to be put
		}
		same, err := r.look(ctx, acqNs)
		if err != nil {
			return err
		}
		if same {
			break
		}
		if tries == maxRestarts {
			return fmt.Errorf("the target restarted %d times during one batch; retry when it is "+
				"stable", tries+1)
		}
	}
	if n := rows.Len(); n > 0 {
		r.passed(rows.AcqNs[n-1])
	}
	r.position.FromNs = r.position.ToNs
	r.report.Rows += uint64(rows.Len())
	r.report.Events += events
	r.report.Ranges++
	if r.opt.Progress != nil {
		r.opt.Progress(&r.report)
	}
	return r.slowDown(ctx)
}

// adviceOn says what to do about names of devices that the target has given itself.
func adviceOn(err error) string {
	var remote *wire.Error
	if !errors.As(err, &remote) ||
		remote.Kind != wire.KindConflict && remote.Reason != string(record.Inconsistent) {
		return ""
	}
	return "; the target has names of devices of this tenant, with ids of its own: copy tenants " +
		"whose devices only the source names (--cid); what pentad get --names mid shows, put " +
		"takes by name"
}

// sendOnce is one try of send. It returns the greatest acq of the target that it was answered with,
// 0 for none, and how many events were done.
func (r *restamping) sendOnce(
	ctx context.Context, rows *record.Batch,
) (acqNs int64, events int, err error) {
	p := r.position
	if rows.Len() > 0 {
		unstamped := *rows
		unstamped.AcqNs = nil
		err := retry(ctx, func() error {
			reply, err := r.target.Put(ctx, &unstamped, r.writer, p.Seq)
			acqNs = reply.LastAcqNs
			return err
		})
		if err != nil {
			return 0, 0, fmt.Errorf("put records from acq %d to %d: %w%s", p.FromNs, p.ToNs, err,
				adviceOn(err))
		}
	}
	for i := range r.source.History.Hiding {
		e := &r.source.History.Hiding[i]
		if e.AcqNs < p.FromNs || e.AcqNs >= p.ToNs {
			continue
		}
		do := r.target.Erase
		if e.Purge {
			do = r.target.Purge
		}
		box, some := r.within(e)
		if !some {
			continue
		}
		at, err := do(ctx, &box)
		if err != nil {
			return 0, 0, fmt.Errorf("erase or purge what was at acq %d: %w", e.AcqNs, err)
		}
		acqNs = max(acqNs, at)
		r.passed(e.AcqNs)
		events++
	}
	return acqNs, events, nil
}

// look asks the target, notes up to where it must have all that was put, and reports whether it is
// the process that was asked before. If so it has given the acq, or had it before, and has it yet.
//
// Errors: ErrNotACopy when it has lost what was put before.
func (r *restamping) look(ctx context.Context, acqNs int64) (same bool, err error) {
	var now wire.State
	err = retry(ctx, func() (err error) {
		now, err = r.target.SyncState(ctx)
		return err
	})
	p := r.position
	switch store := hex.EncodeToString(now.Store[:]); {
	case err != nil:
		return false, fmt.Errorf("ask the target: %w", err)
	case store != p.Target:
		return false,
			fmt.Errorf("%w: the target was store %s and is now store %s; serve the former one "+
				"again", ErrNotACopy, p.Target, store)
	}
	same = now.Lineage.At(math.MaxInt64) == r.there.At(math.MaxInt64)
	r.there = now.Lineage
	if err := r.thereLacks(); err != nil {
		return false, err
	}
	if same {
		p.ThereNs, p.ThereTimeline = acqNs+1, r.there.At(acqNs+1)
	}
	return same, nil
}

// within returns what an event concerns of what is copied, false for nothing: the target may hold
// other records.
func (r *restamping) within(e *wire.Hiding) (box wire.Box, some bool) {
	for d := range box.Box {
		a, b := r.opt.Box[d], e.Box[d]
		switch {
		case len(a) == 0:
			box.Box[d] = b
		case len(b) == 0:
			box.Box[d] = a
		default:
			if box.Box[d] = meet(a, b); len(box.Box[d]) == 0 {
				return box, false
			}
		}
	}
	box.Box.IncludeReserved()
	return box, true
}

// meet returns what lies in both of two sets.
func meet(a, b record.RangeSet) (both record.RangeSet) {
	for _, x := range a {
		for _, y := range b {
			if z := (record.Range{From: max(x.From, y.From), To: min(x.To, y.To)}); z.From < z.To {
				both = append(both, z)
			}
		}
	}
	return both
}
