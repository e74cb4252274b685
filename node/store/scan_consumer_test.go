package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/partials"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// rowSum adds up hashes of rows, by all that there is of them, in whatever order they come.
type rowSum struct {
	rows int
	sum  uint64
}

var rowSeed = maphash.MakeSeed()

func (s *rowSum) add(b *record.Batch, i int, buf []byte) []byte {
	k := b.Key(i)
	buf = buf[:0]
	for d := range record.Dim(record.NumDims) {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(k.Part(d)))
	}
	buf = append(buf, b.Payload(i)...)
	s.rows++
	s.sum += maphash.Bytes(rowSeed, buf)
	return buf
}

// takesPartials takes partials and has two buffers, in which it looks for the payloads that it
// gets.
type takesPartials struct {
	rng      *rand.Rand
	buffers  [2][]byte   // the second is for rows beside others
	found    *rowSum     // what it got
	mu       *sync.Mutex // guards found and lent
	lent     *[2]int     // batches that lay in them
	open     bool
	partials int
}

func (p *takesPartials) Wants(*partials.SegmentTables, int) bool { return p.rng.IntN(2) == 0 }
func (p *takesPartials) LookUp(_ context.Context, all []BlockPartial) error {
	p.partials += len(all)
	return nil
}
func (p *takesPartials) Begin() bool { p.open = true; return true }
func (p *takesPartials) End()        { p.open = false }

func (p *takesPartials) BeginMorsel(int)  {}
func (p *takesPartials) EndMorsel() error { return nil }

func (p *takesPartials) ask(inUse bool) []byte {
	if p.rng.IntN(8) == 0 {
		return nil
	}
	buffer := p.buffers[0]
	if inUse {
		buffer = p.buffers[1]
	}
	for i := range buffer {
		buffer[i] = 0xcc // whatever of the rows before is still needed is gone
	}
	return buffer
}

func (p *takesPartials) take(b *record.Batch) error {
	if err := b.CheckShape(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, buffer := range p.buffers {
		if len(buffer) > 0 && len(b.Data) > 0 && &b.Data[0] == &buffer[0] {
			p.lent[i]++
		}
	}
	var buf []byte
	for i := range b.Len() {
		buf = p.found.add(b, i, buf)
	}
	return nil
}

// openMixedSizes opens a store with rows of one size and of many, sealed and not, some erased.
func openMixedSizes(t *testing.T, rng *rand.Rand, opt Options) *Store {
	t.Helper()
	s := openTest(t, opt)
	put := func(rows, sizes, more int) {
		var b record.Batch
		for range rows {
			b.Append(record.Key{CID: rng.Int32N(2), MID: rng.Int64N(500), MOID: rng.Int32N(2),
				CapNs: rng.Int64N(1000)},
				bytes.Repeat([]byte{byte(rng.IntN(9))}, sizes+rng.IntN(more)))
		}
		mustPut(t, s, &b, WriterSeq{})
	}
	for _, more := range []int{1, 9} {
		put(rounds.Of(40_000, 40_000, 12_000), 8, more)
		if err := s.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put(1_000, 8, 1)
	if _, err := s.Erase(t.Context(), record.Box{record.MID: {{From: 40, To: 45}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPayloadBuffers: rows whose payloads lie in the buffers of consumers are those of a plain
// scan, whatever the size of a buffer, beside rows that are handed over apart; and no scan touches
// the buffer of another.
func TestPayloadBuffers(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 9))
	s := openMixedSizes(t, rng, Options{Index: index.Options{BlockRows: 1024}})
	var mu sync.Mutex
	var lent [2]int
	partials := 0
	scan := func(q *record.Query, bufferBytes int, apart bool) (rowSum, []*takesPartials) {
		var found rowSum
		var takers []*takesPartials
		_, err := s.ScanInto(t.Context(), q, 1, func(int) (Consumer, error) {
			p := &takesPartials{rng: rand.New(rand.NewPCG(rng.Uint64(), 1)), found: &found, mu: &mu,
				lent:    &lent,
				buffers: [2][]byte{make([]byte, bufferBytes), make([]byte, bufferBytes)}}
			takers = append(takers, p)
			to := Consumer{Rows: p.take, Columns: segment.AllColumns, PayloadBuffer: p.ask}
			if apart {
				to.Partials = p
			}
			return to, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return found, takers
	}
	// Which workers get rows of which morsels is chance, so scans go on until each kind came.
	for n := 0; n < rounds.Of(80, 80, 15) || lent[0] == 0 || lent[1] == 0 || partials == 0; n++ {
		if n == 2000 {
			t.Fatalf("%v batches lay in buffers, %d partials came", lent, partials)
		}
		q := &record.Query{}
		for _, d := range []record.Dim{record.MID, record.Cap} {
			if rng.IntN(3) == 0 {
				from := rng.Int64N(300)
				q.Box[d] = record.RangeSet{{From: from, To: from + 1 + rng.Int64N(500)}}
			}
		}
		size := []int{0, 1, 100, 20_000, 64 << 10, 1 << 20}[rng.IntN(6)]
		got, takers := scan(q, size, rng.IntN(2) == 0)
		for _, p := range takers {
			clear(p.buffers[0])
			clear(p.buffers[1])
			partials += p.partials
		}
		want, _ := scan(q, 0, false)
		if got != want {
			t.Fatalf("%+v, buffers of %d bytes: %+v, want %+v", q.Box, size, got, want)
		}
		for _, p := range takers {
			if !bytes.Equal(slices.Concat(p.buffers[0], p.buffers[1]), make([]byte, 2*size)) {
				t.Fatal("a scan wrote into a buffer that it was not lent")
			}
		}
	}
}

// takesMorsels notes what comes in which morsel: the hash of each batch, and where parts begin.
type takesMorsels struct {
	mu      *sync.Mutex
	morsels map[int][]uint64 // guarded by mu, of all workers
	of      map[int]bool     // workers that did one
	rows    *atomic.Uint64
	me      int
	morsel  int
	now     []uint64
}

func (w *takesMorsels) Wants(*partials.SegmentTables, int) bool      { return true }
func (w *takesMorsels) LookUp(context.Context, []BlockPartial) error { return nil }
func (w *takesMorsels) Begin() bool {
	w.now = append(w.now, 1)
	return true
}
func (w *takesMorsels) End()                   { w.now = append(w.now, 2) }
func (w *takesMorsels) BeginMorsel(morsel int) { w.morsel, w.now = morsel, nil }

func (w *takesMorsels) EndMorsel() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, again := w.morsels[w.morsel]; again {
		return fmt.Errorf("morsel %d is done twice", w.morsel)
	}
	w.morsels[w.morsel] = w.now
	w.of[w.me] = true
	return nil
}

func (w *takesMorsels) take(b *record.Batch) error {
	w.rows.Add(uint64(b.Len()))
	var h maphash.Hash
	h.SetSeed(rowSeed)
	for i := range b.Len() {
		k := b.Key(i)
		for d := range record.Dim(record.NumDims) {
			maphash.WriteComparable(&h, k.Part(d))
		}
		h.Write(b.Payload(i)) // never fails
	}
	w.now = append(w.now, h.Sum64())
	return nil
}

// TestMorselsAreAlike: a morsel has the same rows in the same batches, however many workers there
// are, and together morsels have all rows. Small blocks make morsels of several tasks, but no
// parts.
func TestMorselsAreAlike(t *testing.T) {
	rng := randomSource(t)
	for _, blockRows := range []int{4096, 256}[rounds.Of(0, 0, 1):] {
		s := openMixedSizes(t, rng, Options{Workers: 4, parallelRows: 1,
			Index: index.Options{BlockRows: blockRows}})
		several, many := 0, 0
		for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
			// Which workers come in time is chance, so scans go on until several did.
			for n := 0; n < rounds.Of(10, 4, 2) || several == 0 || many < 4; n++ {
				if n == 2000 {
					t.Fatalf("%d workers more than one did a morsel, of %d", several, many)
				}
				q := &record.Query{View: view, Aggregate: record.PluginCall{Name: "sum"}}
				from := rng.Int64N(300)
				q.Box[record.MID] = record.RangeSet{{From: from, To: from + 1 + rng.Int64N(500)}}
				workers, most := wantMorselsAlike(t, s, q)
				several, many = several+workers-4, max(many, most)
			}
		}
	}
}

// wantMorselsAlike returns how many workers did a morsel in four scans together, and how many
// morsels one had.
func wantMorselsAlike(t *testing.T, s *Store, q *record.Query) (workers, many int) {
	t.Helper()
	plain, err := s.Scan(t.Context(), q, func(int) (Sink, error) {
		return func(*record.Batch) error { return nil }, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var want map[int][]uint64
	for _, beside := range []int{4, 1, 1, 2} {
		var mu sync.Mutex
		var rows atomic.Uint64
		got, of := map[int][]uint64{}, map[int]bool{}
		_, err := s.ScanInto(t.Context(), q, beside,
			func(worker int) (Consumer, error) {
				w := &takesMorsels{mu: &mu, morsels: got, of: of, rows: &rows, me: worker}
				return Consumer{Rows: w.take, Columns: segment.AllColumns, Partials: w}, nil
			})
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if !maps.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("%+v, %d beside: %v, want %v", q.Box, beside, got, want)
		}
		if rows.Load() != plain.Rows {
			t.Fatalf("%+v, %d beside: %d rows, want %d", q.Box, beside, rows.Load(), plain.Rows)
		}
		workers += len(of)
	}
	return workers, len(want)
}

// TestPanicOfOneWorker: when the worker that is the caller panics, the others have ended before
// anybody can recover it.
func TestPanicOfOneWorker(t *testing.T) {
	s := openMixedSizes(t, randomSource(t), Options{Workers: 4, parallelRows: 1,
		Index: index.Options{BlockRows: 1024}})
	var began, ended atomic.Int64
	var once sync.Once
	inside := make(chan struct{})
	scan := func() (recovered any) {
		defer func() { recovered = recover() }()
		_, err := s.Scan(t.Context(), &record.Query{Aggregate: record.PluginCall{Name: "sum"}},
			func(worker int) (Sink, error) {
				return func(*record.Batch) error {
					if worker > 0 {
						began.Add(1)
						once.Do(func() { close(inside) })
						for range 10_000 {
							runtime.Gosched()
						}
						ended.Add(1)
						return nil
					}
					<-inside
					panic("a sink fails")
				}, nil
			})
		return err
	}
	if got := scan(); got != "a sink fails" {
		t.Fatalf("recovered %v", got)
	}
	if b, e := began.Load(), ended.Load(); b == 0 || b != e {
		t.Errorf("%d calls of sinks began and %d ended", b, e)
	}
}

// TestConsumersThatFail: what the consumer of one worker fails with ends the scan, and others are
// not made.
func TestConsumersThatFail(t *testing.T) {
	s := openMixedSizes(t, randomSource(t), Options{Workers: 8, parallelRows: 1,
		Index: index.Options{BlockRows: 1024}})
	failed := errors.New("there is no taker")
	for range 50 {
		calls := 0
		stats, err := s.ScanInto(t.Context(), &record.Query{}, 1, func(int) (Consumer, error) {
			calls++
			for range 1000 { // so that others ask for theirs
				runtime.Gosched()
			}
			return Consumer{}, failed
		})
		if !errors.Is(err, failed) || calls != 1 || stats.Workers < 2 {
			t.Fatalf("%d takers of %d workers were asked for: %v", calls, stats.Workers, err)
		}
	}
}
