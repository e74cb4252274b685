// Package store is the one-machine database: shards, one log for all of them, in-memory heads,
// background seals, versions, the horizon and recovery.
//
// It owns a directory and the order of things in it: a row is acknowledged after the log is
// synced, visible when it is in a head and below the horizon, and leaves the log only when a sealed
// segment holds it. It knows nothing of networks, JSON or plugins. Its main type is [Store].
package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/damage"
	"github.com/pentad-db/pentad/node/store/headbudget"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/notify"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/scan"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/throttle"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/node/store/versions"
	"github.com/pentad-db/pentad/node/store/workers"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/node/wal"
)

// Store is an open directory. All methods may be called from many goroutines.
//
// Goroutines: one commits puts to the log and the heads, one seals, one merges, one lets retentions
// take their steps, one wakes feeds, one scrubs segments, one looks for space when there was none.
// Close stops and waits for them.
type Store struct {
	opt            Options
	lock           *os.File
	log            *wal.Log
	oracle         *acqtime.Oracle  // of acqs and the horizon
	wallClock      *clock.Clock     // what time it is, and whether that is confirmed
	retentionClock *retention.Clock // of what time it is, for retentions
	writers        *writers.Table[putRequest]
	shards         []*shards.Shard
	allShards      []*shards.Shard // shards, and the backdated shard of each

	puts          chan *putRequest // bounded; the committer is the only reader
	committerLock chan struct{}    // full while a goroutine is the committer
	describing    chan struct{}    // full while names or descriptions are put
	sealRequests  chan sealRequest // bounded; the sealer is the only reader
	sealBuffers   sealBufferStock
	stop          chan struct{}  // closed by Close, once
	drained       chan struct{}  // closed by the committer when it ends: no queued put is read
	wg            sync.WaitGroup // of all these goroutines
	failed        health.Latch   // after its error nothing may be put; set by the committer
	counters      counters

	feeds *notify.Notifier // feeds that wait for commits

	// What follows is of a replica.
	replicated bool
	applying   sync.Mutex    // held by Apply; guards apply
	apply      *applyBuffers // while it is held

	durable atomic.Uint64 // index of a command through which all is synced
	applyMu sync.Mutex    // guards applied, and the writers while it is held
	applied acqtime.Applied

	indexBase atomic.Uint64               // see IndexBase
	ownSlots  atomic.Pointer[slots.Range] // see Slots; nil until it is split

	backdatedMu  sync.Mutex    // one backdated put at a time: each looks what is there
	backdatedSeq atomic.Uint64 // odd while the rows of such a put become visible

	// scanning is held for reading by scans; Close takes it to unmap segments.
	scanning sync.RWMutex
	closed   atomic.Bool

	tombstones atomic.Pointer[tombstone.Set] // of the manifest; changed under manifestMu

	// manifestMu guards manifest, firstLogFileAfterPurge and logRemovals. Files of the log are
	// removed under it.
	manifestMu             sync.Mutex
	manifest               *manifest.Manifest
	firstLogFileAfterPurge map[int64]uint64 // purge -> first log file without its rows
	logRemovals            logRemovals      // rows that retentions remove from the log

	logFilesMu sync.Mutex          // guards logFiles: commits do not wait while files are removed
	logFiles   map[uint64][]uint64 // log file -> by shard the last LSN in it

	readahead blocks.Readahead // of segments, for all that reads them
	described descriptions     // of devices, for queries that select by them
	scans     scan.Runner      // what all scans share

	damaged *damage.Tracker

	findingLost sync.Mutex // held while FindLostFiles runs, and for ever by Close
	lookedAt    dirStat    // guarded by findingLost

	scrubLastNs, scrubPassBytes atomic.Int64 // see Stats

	// timelineDurable: the manifest has the timeline of this process, or needs none; of the
	// committer.
	timelineDurable bool
	// headsUnsynced: the heads have rows that the log failed to sync; of the committer.
	headsUnsynced bool

	nextID   atomic.Uint64 // of the next segment file
	throttle throttle.Throttle

	mergeWake chan struct{} // holds one: there may be something to merge
	mergeMu   sync.Mutex
	waiters   mergeWaiters  // who waits until nothing is due, guarded by mergeMu
	mergeErr  health.Latest // why a merge that is due was not done

	headBudget   *headbudget.Budget
	logDeleteErr health.Latest // why files of the log are kept that are not needed
}

// Report says what Open found and mended.
type Report struct {
	Log             wal.Report
	ManifestCut     int      // bytes of a torn last line that were cut
	RemovedFiles    []string // leftovers of interrupted seals
	ReplayedRows    int      // rows that were read from the log into heads
	ReplayedEntries int
	WaitedNs        int64 // time waited until the wall clock passed the last lease
}

// Open opens or creates a store and brings it to the state after the last acknowledged put.
//
// Errors: layout.ErrLocked when another process has it; *durable.CorruptError for damage.
// Cost: maps every sealed segment and replays the unsealed log.
func Open(ctx context.Context, opt Options) (*Store, Report, error) {
	var report Report
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, report, err
	}
	if err := durable.MakeDir(filepath.Join(opt.Dir, layout.LogDir)); err != nil {
		return nil, report, fmt.Errorf("make directory: %w", err)
	}
	s := &Store{
		opt: opt, writers: writers.New[putRequest](), logFiles: map[uint64][]uint64{},
		feeds:                  notify.New(),
		firstLogFileAfterPurge: map[int64]uint64{},
		puts:                   make(chan *putRequest, 64), committerLock: make(chan struct{}, 1),
		describing: make(chan struct{}, 1),
		stop:       make(chan struct{}), drained: make(chan struct{}),
		mergeWake: make(chan struct{}, 1),
	}
	s.damaged = damage.New(damage.Options{Dir: opt.Dir, Live: s.livePaths, Mark: s.markDamaged})
	s.headBudget = headbudget.New(headbudget.Options{MaxBytes: opt.HeadBytes, Wait: opt.PutWait,
		Stop: s.stop, Overloaded: ErrOverloaded, Stopped: ErrClosed})
	s.readahead.Clock = segment.NewVerifyClock(opt.blockNow)
	s.scans.Workers, s.scans.MinParallelRows = opt.Workers, opt.parallelRows
	s.scans.Pool = workers.NewPool(opt.Workers, s.stop)
	s.scans.Access = versions.Access{Readahead: &s.readahead, MaxReadings: opt.maxReadings,
		Pin: s.pin}
	s.retentionClock = retention.NewClock(opt.monotonic)
	s.wallClock = opt.WallClock
	switch {
	case opt.Now != nil:
		s.wallClock = clock.Of(acqtime.Clamped(opt.Now))
	case s.wallClock == nil:
		s.wallClock = clock.New(clock.Options{})
	}
	s.opt.Now = acqtime.Clamped(s.wallClock.NowNs)
	s.oracle = acqtime.New(s.opt.Now)
	fileNs := layout.NewestFile(opt.Dir)
	if s.lock, err = layout.Lock(opt.Dir); err != nil {
		return nil, report, err
	}
	if err := s.recoverState(ctx, &report, fileNs); err != nil {
		return nil, report, errors.Join(layout.WayOut(err), s.closeFiles())
	}
	s.sealRequests = make(chan sealRequest, 2*len(s.shards)*cap(opt.Background.Seals))
	s.sealBuffers = make(sealBufferStock, cap(opt.Background.Seals))
	s.committerLock <- struct{}{} // commitLoop has it
	s.wg.Go(s.commitLoop)
	s.wg.Go(s.sealLoop)
	s.wg.Go(func() { s.feeds.Run(s.oracle.CurrentHorizon, s.stop) })
	if !s.replicated {
		s.wg.Go(s.spaceLoop)
	}
	if !opt.keepSnapshot {
		s.wg.Go(s.mergeLoop)
		s.wg.Go(s.retainLoop)
		s.wg.Go(s.scrubLoop)
	}
	return s, report, nil
}

// Close stops accepting calls, finishes the running puts and seal, waits for running scans
// and closes the files. Rows in the heads stay in the log and are replayed at the next Open.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return ErrClosed
	}
	close(s.stop)
	s.findingLost.Lock()
	s.wg.Wait()
	s.scanning.Lock()
	defer s.scanning.Unlock()
	s.scans.Pool.Wait()
	err := s.recordLogEnd()
	if err == nil {
		_, err = s.appendLog(s.progressEntries(s.oracle.Finish(), true))
	}
	if errors.Is(err, durable.ErrNoSpace) {
		err = nil // the next Open waits a second for the clock, as after a crash
	}
	return errors.Join(err, s.closeFiles())
}

// closeFiles closes whatever is open.
func (s *Store) closeFiles() error {
	var errs []error
	for _, sh := range s.allShards {
		state := sh.State.Load()
		for _, seg := range state.Sealed {
			seg.Partials.Drop()
			errs = append(errs, seg.File.Close())
		}
		state.UnpinHeads()
	}
	if s.manifest != nil {
		errs = append(errs, s.manifest.Close())
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// onCommitter runs f as the committer, between commits. It does so on the caller's goroutine: to
// wake another one and wait for it takes as long as applying some dozen rows.
func (s *Store) onCommitter(ctx context.Context, f func()) error {
	select {
	case s.committerLock <- struct{}{}:
	case <-s.stop:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	whole := false
	defer func() {
		if !whole { // f panicked, and its caller may outlive that: what it has left is unknown
			_ = s.failed.Set(fmt.Errorf("%w: BUG: the committer stopped midway", ErrFailed))
		}
		<-s.committerLock
	}()
	if s.closed.Load() {
		whole = true
		return ErrClosed
	}
	f()
	whole = true
	return nil
}
