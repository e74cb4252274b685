// Package store is the one-machine database: shards, one log for all of them, in-memory heads,
// background seals, versions, the horizon and recovery.
//
// It owns a directory and the order of things in it: a row is acknowledged after the log is
// synced, visible after it is in a head, and leaves the log only when a sealed segment holds it.
// It knows nothing of networks, JSON or plugins. Its main type is [Store].
package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/segment"
)

const (
	// maxShards bounds the shards of one directory: more leave sealed segments too small.
	maxShards = 1024

	defaultShards   = 1       // a node that starts alone
	defaultSealRows = 1 << 21 // below this, blocks per segment are too few to prune well
	// defaultHeadBytes bounds all heads together: 8 shards of 1M rows of 100 bytes, twice.
	defaultHeadBytes = 1 << 31
	// maxHeadBytes is how large one head gets before it is sealed: with a flush of the log more
	// its payloads still have 32-bit offsets.
	maxHeadBytes = 1 << 30
	// defaultLogFiles bounds the unsealed log (64 MiB files), and with it the time to open.
	defaultLogFiles = 16
	// defaultVersionRoom bounds what a scan keeps to resolve versions to some 20 MiB.
	defaultVersionRoom = 1 << 18
)

// Options of a store. The zero value of each field but Dir works.
type Options struct {
	Dir      string        // the directory; made when missing
	Shards   int           // shards of a new directory, a power of two; default 1
	SealRows int           // rows after which a head is sealed; default 2^21
	HeadMax  int64         // bytes of all heads after which puts wait, seals from half on; 2 GiB
	LogFiles int           // log files after which the shard that pins the oldest is sealed; 16
	Workers  int           // goroutines of one scan at most; default GOMAXPROCS
	PutWait  time.Duration // how long a put waits for room in the heads; default 10 s
	Index    index.Options // how rows are partitioned into blocks

	// Clock is what rows are stamped by; stores of one node share one. Nil: a clock of its own.
	Clock *clock.Clock
	// Now takes the place of Clock in a program that replays or simulates: ns since 1970, always
	// believed. Stamps rise also when it does not.
	Now func() int64

	// Group makes the store a replica: it takes commands of the log of a group, see [Store.Apply],
	// and nothing else. 32 hex digits, the identity of the group, which is that of the store on all
	// replicas; empty: a store of its own. A replica has one shard.
	Group string

	// Scrub is how fast the files are read in search of damage; stores of one process share one.
	// Nil: its own, everything once a week and 16 MiB/s at most.
	Scrub *Scrub

	// Turns bound what stores that share them do at once in the background; nil: its own, for one
	// seal and one merge.
	Turns *Turns

	keepSnapshot bool // a snapshot stays one: it is not made a store of its own, nor merged

	blockNow func() time.Time // drives Store.blockClock; time.Now

	regionBytes uint64 // what a merge has in memory at once; tests make it small
	versionRoom int    // readings that a scan keeps at once to resolve versions; 2^18

	parallelRows int // rows read that make a second worker pay; tests are small

	retainEvery  time.Duration // how often retentions may take a step; tests do it themselves
	monotonic    func() int64  // ns of a clock that is never set; tests have their own
	mergeRetry   time.Duration // how long a merge that failed is left alone; tests are impatient
	restAfter    time.Duration // how long nothing must have come until what is left is merged
	restSealRows int           // of heads that are sealed then
}

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("store: Options.Dir is empty; name a directory")
	}
	setDefault(&o.Shards, defaultShards)
	setDefault(&o.SealRows, defaultSealRows)
	setDefault(&o.HeadMax, defaultHeadBytes)
	setDefault(&o.LogFiles, defaultLogFiles)
	setDefault(&o.Workers, runtime.GOMAXPROCS(0))
	setDefault(&o.regionBytes, defaultRegionBytes)
	setDefault(&o.retainEvery, minStep)
	setDefault(&o.mergeRetry, mergeRetry)
	setDefault(&o.restAfter, restAfter)
	setDefault(&o.restSealRows, max(1, o.SealRows/restSealShare))
	setDefault(&o.Turns, NewTurns(1))
	setDefault(&o.Scrub, NewScrub(DefaultScrubEvery, DefaultScrubRate))
	setDefault(&o.PutWait, 10*time.Second)
	if o.blockNow == nil {
		o.blockNow = time.Now
	}
	setDefault(&o.versionRoom, defaultVersionRoom)
	setDefault(&o.parallelRows, parallelRows)
	if o.Shards < 1 || o.Shards > maxShards || o.Shards&(o.Shards-1) != 0 {
		return o, fmt.Errorf("store: Options.Shards is %d; take a power of two up to %d",
			o.Shards, maxShards)
	}
	return o, o.checkGroup()
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Store is an open directory. All methods may be called from many goroutines.
//
// Goroutines: one commits puts to the log and the heads, one seals, one merges, one lets retentions
// take their steps, one wakes feeds, one looks for space when there was none. Close stops and waits
// for them.
type Store struct {
	opt      Options
	lock     *os.File
	log      *segment.Log
	clock    acqClock
	time     *clock.Clock // what time it is, and whether that is confirmed
	evidence *evidence    // of what time it is, for retentions
	writers  *writers
	shards   []*shard
	all      []*shard // shards, and those aside of them

	puts     chan *putRequest // bounded; the committer is the only reader
	turn     chan struct{}    // full while somebody is the committer
	seals    chan sealRequest // the sealer is the only reader
	stop     chan struct{}    // closed by Close, once
	drained  chan struct{}    // closed by the committer as it ends: no queued put is read any more
	wg       sync.WaitGroup   // committer, sealer, merger, what takes steps and wakes
	failed   health.Latch     // after its error nothing may be put; set by the committer
	counters counters

	followers *followers // feeds that wait for commits

	// What follows is of a replica.
	replicated bool
	applying   sync.Mutex   // held by Apply; guards apply
	apply      *applyMemory // while it is held

	durable atomic.Uint64 // index of a command through which all is synced
	applyMu sync.Mutex    // guards applied, and the writers while it is held
	applied position

	indexBase atomic.Uint64               // see IndexBase
	held      atomic.Pointer[slots.Range] // see Slots; nil until it is split

	belowMu sync.Mutex    // one put below the horizon at a time: each looks what is there
	belowAt atomic.Uint64 // odd while the rows of such a put become visible

	// scanning is held for reading by scans; Close takes it to unmap segments.
	scanning sync.RWMutex
	together atomic.Int32 // scans of several workers that are running
	helpers  *helpers
	closed   atomic.Bool

	history atomic.Pointer[history] // of the manifest; changed under manifestMu

	// manifestMu guards manifest, files and cleanLog.
	manifestMu sync.Mutex
	manifest   *manifest
	files      map[uint64][]uint64 // log file -> per shard the last index in it
	cleanLog   map[int64]uint64    // purge under way -> first log file without its rows
	releases   releases            // of retentions, that are to leave the log

	blockClock *segment.Clock // by which blocks of segments are verified again

	damaged damages

	looking  sync.Mutex // held while Look runs, and for ever by Close
	lookedAt lookedAt   // guarded by looking

	scrubLastNs, scrubPassBytes atomic.Int64 // see Stats

	begun bool // the manifest has the timeline of this process, or needs none; of the committer

	nextID  atomic.Uint64 // of the next segment file
	tight   atomic.Bool   // segments do not fit memory
	backlog atomic.Int64  // segments above the calm, of the shard that has most

	mergeWake chan struct{} // holds one: there may be something to merge
	mergeMu   sync.Mutex
	settling  settlers // who waits until nothing is due, guarded by mergeMu
	mergeErr  error    // why a merge that is due was not done, guarded by mergeMu

	roomMu    sync.Mutex
	headBytes int64         // bytes of all heads, guarded by roomMu
	room      chan struct{} // closed and replaced when headBytes falls, guarded by roomMu
	sealErr   error         // why the last seal failed, guarded by roomMu
	// releaseErr is why files of the log are kept that are not needed, guarded by roomMu.
	releaseErr error
}

// Report says what Open found and mended.
type Report struct {
	Log             segment.LogReport
	ManifestCut     int      // bytes of a torn last line that were cut
	RemovedFiles    []string // leftovers of interrupted seals
	ReplayedRows    int      // rows that were read from the log into heads
	ReplayedEntries int
	WaitedNs        int64 // time waited until the wall clock passed the last promise
}

// Open opens or creates a store and brings it to the state after the last acknowledged put.
//
// Errors: ErrLocked when another process has it; *segment.CorruptError for damage.
// Cost: maps every sealed segment and replays the unsealed log.
func Open(ctx context.Context, opt Options) (*Store, Report, error) {
	var report Report
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, report, err
	}
	if err := makeDir(filepath.Join(opt.Dir, logDir)); err != nil {
		return nil, report, fmt.Errorf("make directory: %w", err)
	}
	s := &Store{
		opt: opt, writers: newWriters(), files: map[uint64][]uint64{}, followers: newFollowers(),
		cleanLog: map[int64]uint64{},
		puts:     make(chan *putRequest, 64), turn: make(chan struct{}, 1),
		stop: make(chan struct{}), drained: make(chan struct{}), room: make(chan struct{}),
		mergeWake: make(chan struct{}, 1), blockClock: segment.NewClock(opt.blockNow),
		damaged: damages{files: map[string]*segment.CorruptError{}, news: make(chan struct{}, 1)},
	}
	s.helpers = newHelpers(opt.Workers, s.stop)
	s.evidence = newEvidence(opt.monotonic)
	s.time = opt.Clock
	switch {
	case opt.Now != nil:
		s.time = clock.Of(clamped(opt.Now))
	case s.time == nil:
		s.time = clock.New(clock.Options{})
	}
	s.opt.Now = clamped(s.time.NowNs)
	s.clock.now = s.opt.Now
	fileNs := newestFile(opt.Dir)
	if s.lock, err = lockDir(opt.Dir); err != nil {
		return nil, report, err
	}
	if err := s.recover(ctx, &report, fileNs); err != nil {
		return nil, report, errors.Join(err, s.release())
	}
	s.seals = make(chan sealRequest, 2*len(s.shards))
	s.turn <- struct{}{} // commitLoop has it
	s.wg.Go(s.commitLoop)
	s.wg.Go(s.sealLoop)
	s.wg.Go(s.followLoop)
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

// Close stops accepting calls, finishes the puts and the seal under way, waits for running scans
// and closes the files. Rows in the heads stay in the log and are replayed at the next Open.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return ErrClosed
	}
	close(s.stop)
	s.looking.Lock()
	s.wg.Wait()
	s.scanning.Lock()
	defer s.scanning.Unlock()
	s.helpers.wait()
	err := s.noteLogEnd()
	if err == nil {
		_, err = s.appendLog(s.marks(s.clock.finish(), true))
	}
	if errors.Is(err, segment.ErrNoSpace) {
		err = nil // the next Open waits a second for the clock, as after a crash
	}
	return errors.Join(err, s.release())
}

// release closes whatever is open.
func (s *Store) release() error {
	var errs []error
	for _, sh := range s.all {
		now := sh.snapshot.Load()
		for _, seg := range now.sealed {
			seg.kept.Drop()
			errs = append(errs, seg.file.Close())
		}
		now.releaseHeads()
	}
	if s.manifest != nil {
		errs = append(errs, s.manifest.close())
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// Horizon returns an acq H such that the rows with acq < H never change again. It follows the
// wall clock when nothing is written; once the log has failed it stands still, above every row
// that was acknowledged.
//
// Cost: at most once a second one small synced write to the log.
func (s *Store) Horizon(ctx context.Context) (int64, error) {
	if s.closed.Load() {
		return 0, ErrClosed
	}
	h, stale := s.clock.horizon()
	if !stale {
		return h, nil
	}
	var failed error
	wanted := s.clock.present()
	if err := s.onCommitter(ctx, func() {
		if !s.clock.proves(wanted) { // else one who asked at the same time had it logged
			failed = s.logPromise()
		}
	}); err != nil {
		return 0, err
	}
	if failed == nil {
		h, _ = s.clock.horizon()
	}
	return h, nil // puts say what is wrong with the log; queries need no promise
}

// onCommitter runs f as the committer, between commits. It does so on the caller's goroutine: to
// wake another one and wait for it takes as long as applying some dozen rows.
func (s *Store) onCommitter(ctx context.Context, f func()) error {
	select {
	case s.turn <- struct{}{}:
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
		<-s.turn
	}()
	if s.closed.Load() {
		whole = true
		return ErrClosed
	}
	f()
	whole = true
	return nil
}
