package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/versions"
	"github.com/pentad-db/pentad/sdk/record"
)

// sealRequest asks the sealer to seal the oldest immutable head of the shard, or, with done set, to
// report that everything asked for before is sealed.
type sealRequest struct {
	shard *shards.Shard
	done  chan error
}

// Seal moves every row that is in a head now into sealed segments, empties the log of them and
// waits for it. A node calls it for measurements and before copying files; otherwise heads are
// sealed when they are full, because small segments slow queries down.
func (s *Store) Seal(ctx context.Context) error {
	if s.closed.Load() {
		return ErrClosed
	}
	done := make(chan error, 1)
	var leaseErr error
	err := s.onCommitter(ctx, func() {
		for _, sh := range s.allShards {
			s.rotate(sh)
		}
		s.log.Roll() // once all is sealed, no file of the log is needed but an empty one
		if leaseErr = s.logLease(); leaseErr != nil {
			return
		}
		select {
		case s.sealRequests <- sealRequest{done: done}:
		case <-s.stop:
		}
	})
	if err = cmp.Or(err, leaseErr); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-s.stop:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sealLoop makes the segments of heads live; it writes them with as many goroutines as seals may
// run at once. A seal that fails is tried again, at least once a minute: the rows stay in the log
// and in memory meanwhile, and puts are refused once the heads are full.
func (s *Store) sealLoop() {
	var p pendingSeals
	defer p.deleting.Wait()
	defer s.sealBuffers.release()
	var idle <-chan time.Time
	for {
		select {
		case r := <-s.sealRequests:
			reports := s.takeRequests(r, &p)
			var err error
			if p.retry == nil || len(reports) > 0 {
				err = s.sealPending(&p)
			}
			idle = time.After(keptSealBuffers)
			for _, done := range reports {
				done <- cmp.Or(err, s.deleteSealedLogNow())
			}
		case <-p.retry:
			_ = s.sealPending(&p) // a put that waits for space sees it
		case <-idle:
			s.sealBuffers.release()
		case <-s.stop:
			return
		}
	}
}

// sealing is an immutable head on its way into a segment.
type sealing struct {
	shard     *shards.Shard
	immutable *shards.ImmutableHead
	segment   *shards.Segment // nil until it is written, and when no row is left
	edit      manifest.Edit   // to make it live
	began     time.Time
	err       error
}

// sealOldest seals the oldest immutable heads of some shards, as many of each as it is in the list,
// and returns how many it sealed: all unless there is an error. The segments are written side by
// side, and become live in the order of the list.
func (s *Store) sealOldest(list []*shards.Shard) (sealed int, err error) {
	if err := s.manifestFailure(); err != nil {
		return 0, fmt.Errorf("seal shard %d: %w", list[0].ID, err)
	}
	if err := s.syncReplica(); err != nil {
		return 0, fmt.Errorf("seal shard %d: %w", list[0].ID, err)
	}
	all, next := make([]sealing, len(list)), map[*shards.Shard]int{}
	var wg sync.WaitGroup
	for i, sh := range list {
		x := &all[i]
		x.shard, x.immutable = sh, sh.State.Load().Immutable[next[sh]]
		if next[sh]++; i > 0 {
			wg.Go(func() { s.writeSealing(x) })
		}
	}
	s.writeSealing(&all[0])
	wg.Wait()
	for i := range all {
		x := &all[i]
		if err == nil && x.err != nil {
			err = fmt.Errorf("seal shard %d: %w", x.shard.ID, x.err)
		}
		if err != nil {
			err = errors.Join(err, x.takeBack())
		} else if err = s.finishSealing(x); err == nil {
			sealed++
		}
	}
	return sealed, err
}

// writeSealing writes the segment of a head.
func (s *Store) writeSealing(x *sealing) {
	x.began = time.Now()
	x.err = s.opt.Background.Seals.Run(s.stop, ErrClosed, func() (err error) {
		x.segment, x.edit, err = s.writeSegment(x.shard, x.immutable)
		return err
	})
}

// takeBack removes a segment that is to be written again.
func (x *sealing) takeBack() error {
	if x.segment == nil {
		return nil
	}
	path := x.segment.File.Path()
	x.segment.Unpin()
	return os.Remove(path)
}

// finishSealing makes the segment of the oldest immutable head of a shard live.
func (s *Store) finishSealing(x *sealing) error {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	if err := s.manifest.Append(x.edit); err != nil {
		return fmt.Errorf("seal shard %d: %w", x.shard.ID, s.discardSegment(x.segment, err))
	}
	x.shard.Replace(x.immutable, x.segment)
	s.throttle.SetBacklog(largestBacklog(s.allShards))
	s.headBudget.Add(-x.immutable.Head.ReportedGrowth())
	s.counters.seals.Add(1)
	if x.segment != nil {
		s.counters.sealedRows.Add(int64(x.segment.Meta.Rows))
	}
	s.counters.sealNs.Add(int64(time.Since(x.began)))
	s.wakeMerger()
	return nil
}

// writeSegment clusters the rows of an immutable head into a new segment file and opens it, without
// those that were purged; there is no segment when none is left. The edit is to make it live.
func (s *Store) writeSegment(
	sh *shards.Shard, immutable *shards.ImmutableHead,
) (*shards.Segment, manifest.Edit, error) {
	work := s.sealBuffers.take()
	defer s.sealBuffers.keep(work)
	rows := &work.rows
	immutable.Head.FreezeFlags()
	flags, unconfirmed := immutable.Head.ReadAllUnconfirmed(rows)
	if uint64(rows.Len()) > math.MaxUint32 {
		return nil, manifest.Edit{}, fmt.Errorf("%d rows in one head", rows.Len())
	}
	if err := versions.ClearUnconfirmed(sh, immutable, rows, flags, unconfirmed); err != nil {
		return nil, manifest.Edit{}, err
	}
	t := s.tombstones.Load()
	e := manifest.Edit{PurgedRows: s.dropPurged(rows, flags, t)}
	if rows.Len() == 0 {
		e.EmptyLSNRanges = []manifest.EmptyLSNRange{{Shard: sh.ID, FirstLSN: immutable.FirstLSN,
			LastLSN: immutable.LastLSN}}
		return nil, e, nil
	}
	meta := manifest.Segment{
		ID: s.nextID.Add(1) - 1, Shard: sh.ID, Rows: uint32(rows.Len()),
		FirstLSN: immutable.FirstLSN, LastLSN: immutable.LastLSN,
		LastAcqNs: rows.AcqNs[rows.Len()-1], PurgesAppliedAcqNs: t.NewestRemovable,
		PutAcqNs: immutable.Info.PutNs,
	}
	e.Add = []manifest.Segment{meta}
	path := s.segmentPath(meta.ID)
	watermarks := index.AppendWatermarks(nil, immutable.Head.Watermarks())
	err := work.write(path, meta, rows, flags, watermarks, s.opt.Index, s.sealEncoders())
	if err != nil {
		return nil, e, err
	}
	seg, err := s.openNew(path, meta)
	return seg, e, err
}

// openNew opens a segment that was just written. The manifest does not name it, so it goes when it
// cannot be read.
func (s *Store) openNew(path string, meta manifest.Segment) (*shards.Segment, error) {
	seg, err := shards.Open(path, meta, s.readahead.Clock)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return seg, nil
}

const (
	// mostEncoders is how many blocks of a seal are encoded at the same time: they take longer than
	// to cluster the next ones.
	mostEncoders = 2
	// quietPuts is how long no row must have come until a seal encodes as many.
	quietPuts = 5 * time.Millisecond
)

// sealEncoders returns what says how many blocks a seal encodes at the same time: one while rows
// come, as puts need the processors more.
func (s *Store) sealEncoders() func() int {
	puts := idleness{rows: s.counters.rows.Load(), since: time.Now()}
	return func() int {
		if puts.isIdleFor(s, quietPuts) {
			return mostEncoders
		}
		return 1
	}
}

// write writes a segment of rows that are in acq order; of encoders see [segment.RunsInput].
func (w *sealBuffers) write(
	path string, meta manifest.Segment, rows *record.Batch, flags []uint64, watermarks []byte,
	opt index.Options, encoders func() int,
) error {
	text, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("describe segment: %w", err)
	}
	var builder index.Builder
	w.clusterer.With(opt)
	_, err = segment.WriteRuns(path, &segment.RunsInput{
		Meta: text, Encoders: encoders,
		Runs: func(add func(*segment.RowRun) error) error {
			run := segment.RowRun{Rows: rows, Flags: flags}
			return overlap(w.layouts[1:], func(give giveFunc[index.Layout]) error {
				return w.clusterer.ClusterInParts(rows, &w.layouts[0], give)
			}, func(part *index.Layout) error {
				builder.Add(part, flags)
				run.Order, run.Keys, run.BlockEnds = part.Order, &part.Keys, part.BlockEnds
				err := add(&run)
				run.Continues = true
				return err
			})
		},
		Sections: func(offsets []uint64, sizes []uint32) ([]segment.Section, error) {
			series := index.SeriesTableOf(w.clusterer.Series(), rows.Len())
			return sections(builder.FinishRows(rows, offsets, sizes), watermarks, series), nil
		},
	})
	return err
}

// sections is what a segment file holds beside its blocks. Its series may be nil.
func sections(idx *index.Segment, watermarks, series []byte) []segment.Section {
	all := []segment.Section{
		{ID: layout.SectionDirectory, Data: idx.AppendBlockDirectory(nil)},
		{ID: layout.SectionPostings, Data: idx.AppendPostings(nil)},
		{ID: layout.SectionRanks, Data: idx.AppendRanks(nil)},
		{ID: layout.SectionWatermarks, Data: watermarks},
	}
	if series != nil {
		all = append(all, segment.Section{ID: layout.SectionSeries, Data: series})
	}
	return all
}

func (s *Store) segmentPath(id uint64) string {
	return filepath.Join(s.opt.Dir, layout.SegmentName(id))
}
