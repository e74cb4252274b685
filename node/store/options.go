package store

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/store/background"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/scan"
	"github.com/pentad-db/pentad/node/store/shards"
)

// MaxHeadShards is what Options.HeadShards may be at most.
const MaxHeadShards = shards.MaxHeadShards

const (
	defaultShards   = 1       // a node that starts alone
	defaultSealRows = 1 << 21 // below this, blocks per segment are too few to prune well
	// A seal takes as many rows per second as so many head shards, and several times the memory of
	// its rows: a quarter of the heads at maxSeals.
	headShardsPerSeal = 8
	maxSeals          = 4
	// defaultHeadBytes bounds all heads together: some six full ones with rows of 100 bytes.
	defaultHeadBytes = 1 << 31
	// maxOneHeadBytes is how large one head gets before it is sealed: with one log append more
	// its payloads still have 32-bit offsets.
	maxOneHeadBytes = 1 << 30
	// defaultLogFiles bounds the unsealed log (64 MiB files), and with it the time to open.
	defaultLogFiles = 16
	// defaultMaxReadings bounds what a scan keeps to resolve versions to some 20 MiB.
	defaultMaxReadings = 1 << 18
	// maxDescriptionBytes has space for 3 million devices of a tenant; one with more gets no index,
	// and a query that selects devices scans the descriptions.
	maxDescriptionBytes = 512 << 20
	// maxTrackBytes has space for 5 million locations of a query of devices that move.
	maxTrackBytes = 256 << 20
	// tenantsOfDescriptions is how many tenants may have such an index: those of all together take
	// as many times the bytes, at most.
	tenantsOfDescriptions = 2
)

// Options of a store. The zero value of each field but Dir works.
type Options struct {
	Dir    string // the directory; made when missing
	Shards int    // shards of a new directory, a power of two; default 1
	// HeadShards is how many head shards each head has, which commits fill at the same time: at
	// most 64; default 1. A program that stores much gives one for each processor. Nothing on disk
	// and no answer depends on it, so it may change at each start.
	HeadShards int
	SealRows   int // rows after which a head is sealed; default 2^21
	// HeadBytes is the memory of all heads at which puts wait; heads are sealed from half of it on.
	// Default 2 GiB. A node sets it to a quarter of its memory, at most 2 GiB (mostHeadBytes in
	// node/node.go), and in a cluster divides that among its replicas.
	HeadBytes int64
	LogFiles  int           // log files after which the shard that keeps the oldest is sealed; 16
	Workers   int           // goroutines of one scan at most; default GOMAXPROCS
	PutWait   time.Duration // how long a put waits for space in the heads; default 10 s
	Index     index.Options // how rows are clustered into blocks

	// WallClock is what rows are stamped by; stores of one node share it. Nil: one of its own.
	WallClock *clock.Clock
	// Now takes the place of WallClock in a program that replays or simulates: ns since 1970,
	// always believed. Stamps rise also when it does not.
	Now func() int64

	// Group makes the store a replica: it takes commands of the log of a group, see [Store.Apply],
	// and nothing else. 32 hex digits, the identity of the group, which is that of the store on all
	// replicas; empty: a stand-alone store. A replica has one shard.
	Group string

	// Scrub is how fast the files are read in search of damage; stores of one process share one.
	// Nil: its own, everything once a week and 16 MiB/s at most.
	Scrub *background.Scrub

	// Background bound what stores that share them do at once in the background; nil: its own, for
	// one merge, and a seal for each eight head shards, at least one and at most four.
	Background *background.Limit

	// TileBytes is about how many bytes of rows a merge takes at once, four times of which are in
	// memory; default 32 MiB.
	TileBytes uint64

	// Replaying is told, for each entry of the log that Open reads, how many bytes of all are done;
	// nil: nothing is. It runs on the goroutine of Open.
	Replaying func(doneBytes, allBytes int64)

	keepSnapshot bool // a snapshot stays one: it is not made a stand-alone store, nor merged

	blockNow func() time.Time // drives Store.readahead; time.Now

	maxReadings int // readings that a scan keeps at once to resolve versions; 2^18

	descriptionBytes int64 // of the index of the descriptions of a tenant, at most
	trackBytes       int64 // of what a query keeps of where devices were, at most

	parallelRows int // rows read that make a second worker pay; tests are small
	// sideBySideRows are rows of a write group that make a second goroutine pay, which fills head
	// shards; tests are small.
	sideBySideRows int

	retainEvery  time.Duration // how often retentions may take a step; tests do it themselves
	monotonic    func() int64  // ns of a clock that is never set; tests have their own
	mergeRetry   time.Duration // how long a merge that failed is left alone; tests are impatient
	idleAfter    time.Duration // how long a store must be without puts before it runs idle merges
	idleSealRows int           // of heads that are sealed then
}

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("store: Options.Dir is empty; name a directory")
	}
	o.Shards = cmp.Or(o.Shards, defaultShards)
	o.HeadShards = cmp.Or(o.HeadShards, 1)
	o.SealRows = cmp.Or(o.SealRows, defaultSealRows)
	o.HeadBytes = cmp.Or(o.HeadBytes, defaultHeadBytes)
	o.LogFiles = cmp.Or(o.LogFiles, defaultLogFiles)
	o.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	o.TileBytes = cmp.Or(o.TileBytes, defaultTileBytes)
	o.retainEvery = cmp.Or(o.retainEvery, retention.MinStep)
	o.mergeRetry = cmp.Or(o.mergeRetry, mergepolicy.RetryAfter)
	o.idleAfter = cmp.Or(o.idleAfter, idleAfter)
	o.idleSealRows = cmp.Or(o.idleSealRows, max(1, o.SealRows/idleSealShare))
	if o.Background == nil {
		seals := min(max(1, o.HeadShards/headShardsPerSeal), maxSeals)
		o.Background = background.NewLimit(seals, 1)
	}
	o.Scrub = cmp.Or(o.Scrub,
		background.NewScrub(background.DefaultScrubEvery, background.DefaultScrubRate))
	o.PutWait = cmp.Or(o.PutWait, 10*time.Second)
	if o.blockNow == nil {
		o.blockNow = time.Now
	}
	o.maxReadings = cmp.Or(o.maxReadings, defaultMaxReadings)
	o.descriptionBytes = cmp.Or(o.descriptionBytes, maxDescriptionBytes)
	o.trackBytes = cmp.Or(o.trackBytes, maxTrackBytes)
	o.parallelRows = cmp.Or(o.parallelRows, scan.ParallelRows)
	o.sideBySideRows = cmp.Or(o.sideBySideRows, sideBySideRows)
	if o.Shards < 1 || o.Shards > layout.MaxShards || o.Shards&(o.Shards-1) != 0 {
		return o, fmt.Errorf("store: Options.Shards is %d; take a power of two up to %d",
			o.Shards, layout.MaxShards)
	}
	if o.HeadShards < 1 || o.HeadShards > shards.MaxHeadShards {
		return o, fmt.Errorf("store: Options.HeadShards is %d; take 1 to %d", o.HeadShards,
			shards.MaxHeadShards)
	}
	return o, o.checkGroup()
}
