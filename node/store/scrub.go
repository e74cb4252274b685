package store

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/journal"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/sdk/api"
)

const (
	// DefaultScrubEvery is how long a pass over all files takes: what rots is found while the other
	// replicas, or the backups of a week, still have it, and reading costs little:
	// 1.7 MB/s for 1 TB.
	DefaultScrubEvery = 7 * 24 * time.Hour
	// DefaultScrubRate is what all stores of a process read at most: a tenth of a slow disk.
	DefaultScrubRate = 16 << 20
	// scrubSave is how often the position of a pass is saved, besides at the end of each file.
	scrubSave = 5 * time.Minute
	// scrubLeast is the least pause between two passes, scrubBegin the longest before the first.
	scrubLeast = 10 * time.Millisecond
	scrubBegin = time.Minute
)

// Scrub is how fast the stores of a process read their files in search of damage. Stores that share
// one share its rate.
type Scrub struct {
	every time.Duration
	rate  int64

	mu   sync.Mutex
	next time.Time // guarded by mu: when the rate allows the next read
}

// NewScrub has a store read everything once in a time, 0 for never, but no faster than a rate.
func NewScrub(every time.Duration, bytesPerSec int64) *Scrub {
	return &Scrub{every: every, rate: bytesPerSec}
}

// pause returns how long to wait after n bytes of a store that has some in all.
func (sc *Scrub) pause(n, all int64, now time.Time) time.Duration {
	own := time.Duration(float64(sc.every) * float64(n) / float64(max(n, all, 1)))
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.next.Before(now) {
		sc.next = now
	}
	sc.next = sc.next.Add(time.Duration(float64(n) / float64(sc.rate) * float64(time.Second)))
	return max(own, sc.next.Sub(now))
}

// Every returns how long a pass takes; 0: there are none.
func (sc *Scrub) Every() time.Duration { return sc.every }

// Wait waits as long as reading n bytes of some in all should take.
//
// Errors: ctx.Err().
func (sc *Scrub) Wait(ctx context.Context, n, all int64) error {
	timer := time.NewTimer(sc.pause(n, all, time.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// scrubber is the goroutine that reads.
type scrubber struct {
	s       *Store
	limit   *Scrub
	ctx     context.Context
	pass    check.Position
	saved   time.Time
	changed bool  // since it was saved
	owed    int64 // bytes that were read without a pause
	memory  *segment.Disk
}

// scrubLoop reads every segment and the closed files of the log, pass after pass. Where there are
// no passes, it remembers all the same which segments are damaged, for the next start.
func (s *Store) scrubLoop() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.helpScrub(cancel)
	b := &scrubber{s: s, limit: s.opt.Scrub, ctx: ctx, pass: s.loadScrub(), saved: time.Now()}
	if s.opt.Scrub.every <= 0 {
		b.limit = NewScrub(0, DefaultScrubRate)
	}
	if b.pass.BeganNs == 0 {
		b.pass.BeganNs = time.Now().UnixNano()
	}
	s.scrubLastNs.Store(b.pass.LastNs)
	b.wait(rand.N(min(s.opt.Scrub.every/100, scrubBegin) + 1)) // replicas start at one time
	b.suspects()
	if s.opt.Scrub.every <= 0 {
		b.wait(math.MaxInt64)
	}
	for ctx.Err() == nil {
		seg := b.next()
		if seg == nil {
			b.finish()
			continue
		}
		b.segment(seg)
		seg.Release()
	}
	if b.changed || len(b.s.damaged.news) > 0 {
		b.save()
	}
}

// helpScrub ends the scrub with the store.
func (s *Store) helpScrub(cancel func()) {
	s.wg.Go(func() {
		<-s.stop
		cancel()
	})
}

// next returns the live segment with the least id from the position on, to be released by the
// caller.
func (b *scrubber) next() (best *shards.Segment) {
	for _, sh := range b.s.all {
		now := sh.Acquire()
		for _, seg := range now.Sealed {
			if seg.Meta.ID >= b.pass.Segment && (best == nil || seg.Meta.ID < best.Meta.ID) {
				if best != nil {
					best.Release()
				}
				best = seg
				seg.Retain()
			}
		}
		now.Release()
	}
	return best
}

// suspects reads the segments that were damaged before the process was started.
func (b *scrubber) suspects() {
	at := b.pass
	for _, id := range at.Damaged {
		if b.pass.Segment, b.pass.Block = id, 0; b.ctx.Err() != nil {
			break
		}
		seg := b.next()
		if seg == nil {
			continue
		}
		if seg.Meta.ID == id {
			b.segment(seg)
		}
		seg.Release()
	}
	b.pass.Segment, b.pass.Block = at.Segment, at.Block
}

// segment reads one segment from the position on, and goes on after damage.
func (b *scrubber) segment(seg *shards.Segment) {
	first := b.pass.Block
	if seg.Meta.ID != b.pass.Segment {
		first = 0
	}
	b.pass.Segment, b.pass.Block = seg.Meta.ID, first
	disk, err := seg.File.OpenDisk(b.memory)
	if err != nil {
		b.pass.Segment, b.pass.Block = seg.Meta.ID+1, 0 // it was merged, or no file can be opened
		b.rest(0)
		return
	}
	defer func() {
		_ = disk.Close() // only read
		b.memory = disk
	}()
	right := first == 0
	for ; b.pass.Block < seg.Index.Blocks(); b.pass.Block++ {
		info := seg.Index.Block(uint32(b.pass.Block))
		_, err := disk.Block(b.pass.Block, info.Offset)
		right = b.note(err) && right
		if b.read(int64(info.Size)); b.ctx.Err() != nil {
			return
		}
	}
	right = b.note(disk.Rest()) && right
	b.read(seg.File.IndexBytes())
	if right {
		b.s.mended(seg.File.Path())
	}
	b.pass.Segment, b.pass.Block = seg.Meta.ID+1, 0
	b.save()
}

// note takes the error of a read and reports whether there is none.
func (b *scrubber) note(err error) bool {
	if errors.As(err, new(*segment.CorruptError)) {
		b.s.counters.scrubDamages.Add(1)
		_ = b.s.noteDamage(err)
	}
	return err == nil
}

// scrubOwed is how many bytes are read at once, so that the processor sleeps in between.
const scrubOwed = 256 << 10

// read accounts for bytes that were read.
func (b *scrubber) read(bytes int64) {
	b.changed = true
	b.pass.Bytes += bytes
	b.s.scrubPassBytes.Store(b.pass.Bytes)
	b.s.counters.scrubBytes.Add(bytes)
	if b.owed += bytes; b.owed >= scrubOwed {
		b.rest(b.owed)
		b.owed = 0
	}
	if time.Since(b.saved) >= scrubSave {
		b.save()
	}
}

// rest pauses for some bytes that were read, for a new pass to be due with 0.
func (b *scrubber) rest(bytes int64) {
	all := int64(0)
	for _, sh := range b.s.all {
		for _, seg := range sh.State.Load().Sealed {
			all += seg.File.Size()
		}
	}
	b.wait(b.limit.pause(bytes, all, time.Now()))
}

// wait waits, and saves damage that is found meanwhile.
func (b *scrubber) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-b.s.damaged.news:
			b.save()
		case <-b.ctx.Done():
			return
		}
	}
}

// finish ends a pass with the log, and waits until the next one is due.
func (b *scrubber) finish() {
	b.rest(b.owed)
	b.owed = 0
	c := check.New(b.ctx, check.Options{BytesPerSec: b.limit.rate, Damage: func(d api.Damage) {
		b.s.counters.scrubDamages.Add(1)
		b.s.noteOther(d)
	}})
	c.Shards = len(b.s.shards)
	err := b.s.verifyOthers(b.ctx, c)
	if b.ctx.Err() != nil || errors.Is(err, ErrClosed) {
		return
	}
	b.s.counters.scrubPasses.Add(1)
	now := time.Now()
	due := time.Unix(0, b.pass.BeganNs).Add(b.limit.every)
	b.pass = check.Position{LastNs: now.UnixNano()} // and what is saved as damaged
	b.s.scrubLastNs.Store(b.pass.LastNs)
	b.save()
	b.wait(max(min(due.Sub(now), b.limit.every), scrubLeast))
	b.pass.BeganNs = time.Now().UnixNano()
}

// save notes the position.
func (b *scrubber) save() {
	b.saved, b.changed = time.Now(), false
	b.pass.Damaged = b.s.damagedSegments()
	// Without it the pass begins again after the next start.
	name := filepath.Join(b.s.opt.Dir, layout.ScrubFile)
	_ = durable.ReplaceFile(name, journal.AppendLine(nil, &b.pass))
}

// loadScrub returns the position that was saved, the beginning when there is none that can be read.
func (s *Store) loadScrub() check.Position {
	text, err := os.ReadFile(filepath.Join(s.opt.Dir, layout.ScrubFile))
	if err != nil {
		return check.Position{}
	}
	p, err := check.ParsePosition(text)
	if err != nil {
		return check.Position{}
	}
	return p
}
