package store

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/journal"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/background"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/sdk/api"
)

const (
	// scrubSave is how often the position of a pass is saved, besides at the end of each file.
	scrubSave = 5 * time.Minute
	// scrubLeast is the least pause between two passes, scrubBegin the longest before the first.
	scrubLeast = 10 * time.Millisecond
	scrubBegin = time.Minute
)

// scrubber is the goroutine that reads.
type scrubber struct {
	s       *Store
	limit   *background.Scrub
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
	s.stopScrubOnClose(cancel)
	b := &scrubber{s: s, limit: s.opt.Scrub, ctx: ctx, pass: s.loadScrub(), saved: time.Now()}
	if s.opt.Scrub.Every() <= 0 {
		b.limit = background.NewScrub(0, background.DefaultScrubRate)
	}
	if b.pass.BeganNs == 0 {
		b.pass.BeganNs = time.Now().UnixNano()
	}
	s.scrubLastNs.Store(b.pass.LastNs)
	b.wait(rand.N(min(s.opt.Scrub.Every()/100, scrubBegin) + 1)) // replicas start at one time
	b.readDamaged()
	if s.opt.Scrub.Every() <= 0 {
		b.wait(math.MaxInt64)
	}
	for ctx.Err() == nil {
		seg := b.next()
		if seg == nil {
			b.finish()
			continue
		}
		b.segment(seg)
		seg.Unpin()
	}
	if b.changed || len(b.s.damaged.News()) > 0 {
		b.save()
	}
}

// stopScrubOnClose ends the scrub with the store.
func (s *Store) stopScrubOnClose(cancel func()) {
	s.wg.Go(func() {
		<-s.stop
		cancel()
	})
}

// next returns the live segment with the least id from the position on, to be unpinned by the
// caller.
func (b *scrubber) next() (best *shards.Segment) {
	for _, sh := range b.s.allShards {
		state := sh.Pin()
		for _, seg := range state.Sealed {
			if seg.Meta.ID >= b.pass.Segment && (best == nil || seg.Meta.ID < best.Meta.ID) {
				if best != nil {
					best.Unpin()
				}
				best = seg
				seg.Pin()
			}
		}
		state.Unpin()
	}
	return best
}

// readDamaged reads the segments that were damaged before the process was started.
func (b *scrubber) readDamaged() {
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
		seg.Unpin()
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
		b.pause(0)
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
		b.s.damaged.SegmentRight(seg.File.Path())
	}
	b.pass.Segment, b.pass.Block = seg.Meta.ID+1, 0
	b.save()
}

// note takes the error of a read and reports whether there is none.
func (b *scrubber) note(err error) bool {
	if errors.As(err, new(*durable.CorruptError)) {
		b.s.counters.scrubDamages.Add(1)
		_ = b.s.damaged.Note(err)
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
		b.pause(b.owed)
		b.owed = 0
	}
	if time.Since(b.saved) >= scrubSave {
		b.save()
	}
}

// pause pauses for some bytes that were read, for a new pass to be due with 0.
func (b *scrubber) pause(bytes int64) {
	all := int64(0)
	for _, sh := range b.s.allShards {
		for _, seg := range sh.State.Load().Sealed {
			all += seg.File.Size()
		}
	}
	b.wait(b.limit.Pause(bytes, all, time.Now()))
}

// wait waits, and saves damage that is found meanwhile.
func (b *scrubber) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-b.s.damaged.News():
			b.save()
		case <-b.ctx.Done():
			return
		}
	}
}

// finish ends a pass with the log, and waits until the next one is due.
func (b *scrubber) finish() {
	b.pause(b.owed)
	b.owed = 0
	found := func(d api.Damage) {
		b.s.counters.scrubDamages.Add(1)
		b.s.damaged.FoundOther(d)
	}
	c := check.New(b.ctx, check.Options{BytesPerSec: b.limit.BytesPerSec(), Damage: found})
	c.Shards = len(b.s.shards)
	err := b.s.verifyOthers(b.ctx, c)
	if b.ctx.Err() != nil || errors.Is(err, ErrClosed) {
		return
	}
	b.s.counters.scrubPasses.Add(1)
	now := time.Now()
	due := time.Unix(0, b.pass.BeganNs).Add(b.limit.Every())
	b.pass = check.Position{LastNs: now.UnixNano()} // and what is saved as damaged
	b.s.scrubLastNs.Store(b.pass.LastNs)
	b.save()
	b.wait(max(min(due.Sub(now), b.limit.Every()), scrubLeast))
	b.pass.BeganNs = time.Now().UnixNano()
}

// save notes the position.
func (b *scrubber) save() {
	b.saved, b.changed = time.Now(), false
	b.pass.Damaged = b.s.damaged.Segments()
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
