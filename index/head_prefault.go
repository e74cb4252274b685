package index

import (
	"context"
	"time"
)

const (
	// restTime is how long no one has begun a slab when it is time to make some ready: longer than
	// the gaps of a load, which would lose processor time to it.
	restTime = 5 * time.Second
	// pageBytes is what a system hands out at once where it has no large pages.
	pageBytes = 4 << 10
)

// KeepPrefaulted keeps a number of bytes of memory ready for the heads of this process, until the
// context ends: it touches as much at once, and again when none was needed for five to ten
// seconds, and what heads give back is kept up to that size. Records come in bursts, and on virtual
// machines whose host hands memory out late the first touch costs as much as all else that is done
// for a row.
//
// Cost: the memory, and 0.2 to 4 ms for each 2 MiB of it.
func KeepPrefaulted(ctx context.Context, bytes int64) {
	slabs.keepReady(ctx, int(bytes/slabBytes), restTime)
}

func (p *slabPool) keepReady(ctx context.Context, count int, rest time.Duration) {
	if count == 0 {
		return
	}
	begun := p.rest(count)
	defer p.rest(0)
	tick := time.NewTicker(rest)
	defer tick.Stop()
	for {
		for ctx.Err() == nil && p.isShort(begun) {
			s := p.whole.Get().(*slab)
			for at := 0; at < len(s.bytes); at += pageBytes {
				s.bytes[at] = 0
			}
			p.mu.Lock()
			p.end(s)
			p.mu.Unlock()
		}
		p.mu.Lock()
		begun = p.begun
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// rest says how many slabs are to be ready at rest, lets go of those beyond, and returns how many
// were begun so far.
func (p *slabPool) rest(count int) (begun uint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resting = count
	for last := len(p.ready) - 1; last >= count; last-- {
		p.whole.Put(p.ready[last])
		p.ready[last] = nil
		p.ready = p.ready[:last]
	}
	return p.begun
}

// isShort reports whether more slabs are to be ready, and none was begun since that many were.
func (p *slabPool) isShort(begun uint) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ready) < p.resting && p.begun == begun
}

// begin returns a slab of which nothing is taken. The caller holds mu.
func (p *slabPool) begin() (s *slab) {
	p.begun++
	last := len(p.ready) - 1
	if last < 0 {
		return p.whole.Get().(*slab)
	}
	s = p.ready[last]
	p.ready[last] = nil
	p.ready = p.ready[:last]
	return s
}

// end takes a slab of which nothing is taken any more. The caller holds mu.
func (p *slabPool) end(s *slab) {
	if len(p.ready) < p.resting {
		p.ready = append(p.ready, s)
		return
	}
	p.whole.Put(s)
}
