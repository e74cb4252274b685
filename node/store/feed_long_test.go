package store

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// feedTimeVariable says how long TestFeedLosesNothing goes on: 1h in make test-long.
const feedTimeVariable = "PENTAD_FEED_FOR"

// world is a store that is closed, killed and opened again while others use it. What they did on
// one that was killed meanwhile did not happen.
type world struct {
	opt   Options
	ahead atomic.Int64 // of the wall clock

	mu    sync.RWMutex // held for writing while the store is exchanged
	store *Store
	lives atomic.Int64 // raised as the store is killed, before anything is lost

	stop  chan struct{} // closed when writers are to end
	quiet chan struct{} // closed when they have, so that readers know what is the last
	acks  sync.Mutex
	acked map[uint64]int64 // id of a row -> acq, guarded by acks
}

// now returns the store and how many lives it had before.
func (w *world) now() (*Store, int64) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.store, w.lives.Load()
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// step moves the wall clock by up to an hour either way.
func (w *world) step(rng *rand.Rand) {
	w.ahead.Add(rng.Int64N(2*int64(time.Hour)) - int64(time.Hour))
}

// reopen closes the store, or kills it and goes on with what was on disk then.
func (w *world) reopen(t *testing.T, rng *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives.Add(1)
	w.step(rng)
	if rng.IntN(2) == 0 {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
		s, _, err := Open(context.Background(), divided(t, w.opt))
		if err != nil {
			t.Error(err)
			return
		}
		w.store = s
		return
	}
	w.ahead.Add(int64(3 * time.Second)) // else half of the kills wait for the clock
	w.store = crashAndReopen(t, w.store, &w.opt)
}

// write puts batches until the end, each again until it is acknowledged by a store that lives on.
func (w *world) write(t *testing.T, number int, rng *rand.Rand) {
	id := [16]byte{byte(number + 1)}
	var next uint64
	for seq := uint64(1); !isClosed(w.stop); seq++ {
		b := &record.Batch{}
		first := next
		for range 1 + rng.IntN(300) {
			b.Append(record.Key{CID: int32(number), MID: rng.Int64N(2000), MOID: int32(seq % 3),
				CapNs: rng.Int64N(1 << 50)}, binary.LittleEndian.AppendUint64(nil,
				uint64(number)<<48|next))
			next++
		}
		for {
			s, life := w.now()
			res, err := s.Put(context.Background(), b, WriterSeq{ID: id, Seq: seq})
			if w.lives.Load() != life {
				continue
			}
			if err != nil {
				t.Errorf("put: %v", err)
				return
			}
			w.noteAcks(uint64(number)<<48|first, b, res.FirstAcqNs, len(s.shards))
			break
		}
	}
}

// noteAcks notes the acq of each row: they are stamped shard by shard.
func (w *world) noteAcks(first uint64, b *record.Batch, acq int64, shards int) {
	w.acks.Lock()
	defer w.acks.Unlock()
	for _, p := range splitByShard(b, shards) {
		for i := range p.rows.Len() {
			w.acked[binary.LittleEndian.Uint64(p.rows.Payload(i))] = acq
			acq++
		}
	}
}

// seen is a row as a reader saw it.
type seen struct {
	acq int64
	id  uint64
}

// follow reads from an acq on until the end, killed again and again, and goes on from the last row
// or slice that it had. It returns what it saw, and below which acq that is all.
func (w *world) follow(t *testing.T, fromNs int64, rng *rand.Rand) (rows []seen, closed int64) {
	closed = fromNs
	for {
		last := isClosed(w.quiet)
		s, life := w.now()
		f, err := s.Feed(record.Box{}, false, closed)
		if err != nil {
			t.Error(err)
			return rows, closed
		}
		for range 1 + rng.IntN(50) {
			var slice Slice
			more, err := f.Read(context.Background(), &slice)
			if w.lives.Load() != life {
				break // the store died with what it said
			}
			if err != nil {
				t.Errorf("read: %v", err)
				f.Close()
				return rows, closed
			}
			take := slice.Rows.Len()
			killed := take > 0 && rng.IntN(20) == 0
			if killed {
				take = rng.IntN(take + 1)
			}
			for i := range take {
				rows = append(rows, seen{slice.Rows.AcqNs[i],
					binary.LittleEndian.Uint64(slice.Rows.Payload(i))})
				closed = slice.Rows.AcqNs[i] + 1
			}
			if killed {
				break
			}
			closed = slice.ClosedNs
			if last && !more {
				f.Close()
				return rows, closed
			}
			if !more && !last {
				_ = f.Wait(context.Background(), 50*time.Millisecond) // closed: read says so, too
			}
		}
		f.Close()
	}
}

// check holds what a reader saw against what was acknowledged.
func (w *world) check(t *testing.T, fromNs int64, rows []seen) {
	t.Helper()
	var want []seen
	for id, acq := range w.acked {
		if acq >= fromNs {
			want = append(want, seen{acq, id})
		}
	}
	slices.SortFunc(want, func(a, b seen) int { return int(min(max(a.acq-b.acq, -1), 1)) })
	for i := range max(len(rows), len(want)) {
		if i >= len(rows) || i >= len(want) || rows[i] != want[i] {
			t.Fatalf("from %d: %d rows seen, %d acknowledged; they differ at %d: %+v, %+v", fromNs,
				len(rows), len(want), i, rows[i:min(i+2, len(rows))], want[i:min(i+2, len(want))])
		}
	}
}

// TestFeedLosesNothing lets writers put at full speed on all shards while readers follow from
// random moments on and are killed, over seals, merges, restarts, crashes and steps of the clock:
// what they saw is what was acknowledged, each row once, in the order of acq.
func TestFeedLosesNothing(t *testing.T) {
	limit := 3 * time.Second / 2
	if testing.Short() {
		limit = time.Second
	}
	if text := os.Getenv(feedTimeVariable); text != "" && !testing.Short() {
		var err error
		if limit, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", feedTimeVariable, err)
		}
	}
	rng := randomSource(t)
	end := time.Now().Add(limit)
	rounds := 0
	for ; time.Now().Before(end) && !t.Failed(); rounds++ {
		testFeedLosesNothing(t, rng, min(time.Until(end), 10*time.Second))
	}
	t.Logf("%d rounds", rounds)
}

func testFeedLosesNothing(t *testing.T, rng *rand.Rand, limit time.Duration) {
	w := &world{acked: map[uint64]int64{}, stop: make(chan struct{}),
		quiet: make(chan struct{})}
	w.opt = Options{Dir: t.TempDir(), Shards: 1 << rng.IntN(4), SealRows: 1000 + rng.IntN(20_000),
		HeadBytes: 1 << 24, Index: index.Options{BlockRows: 64 << rng.IntN(5)},
		Now: func() int64 { return time.Now().UnixNano() + w.ahead.Load() }}
	var err error
	if w.store, _, err = Open(t.Context(), divided(t, w.opt)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.store.Close() }()
	source := func() *rand.Rand { return rand.New(rand.NewPCG(rng.Uint64(), 1)) }
	var writers, readers sync.WaitGroup
	for number := range 3 {
		source := source()
		writers.Go(func() { w.write(t, number, source) })
	}
	type result struct {
		from int64
		rows []seen
	}
	results := make(chan result, 100)
	end := time.Now().Add(limit)
	for started := 0; time.Now().Before(end) && !t.Failed(); started++ {
		if started < 6 {
			source, from := source(), int64(0)
			if started%2 == 1 {
				s, _ := w.now()
				horizon, err := s.ExtendHorizon(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				from = horizon - source.Int64N(int64(time.Second))
			}
			readers.Go(func() {
				rows, _ := w.follow(t, from, source)
				results <- result{from, rows}
			})
		}
		select {
		case <-time.After(limit / 8):
		case <-t.Context().Done():
		}
		w.step(rng)
		w.reopen(t, rng)
	}
	close(w.stop)
	writers.Wait()
	close(w.quiet)
	readers.Wait()
	close(results)
	for r := range results {
		w.check(t, r.from, r.rows)
	}
	t.Logf("%d rows", len(w.acked))
}
