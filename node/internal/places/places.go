// Package places shares the places for what runs at the same time among tenants: who comes takes
// one, waits a while in a short queue, or is refused at once.
//
// It knows nothing of what runs in a place, and starts no goroutines. Its main type is [Places].
package places

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Errors of Take. Both mean that as much is under way as may be: the one who asks may come again.
var (
	ErrFull = errors.New("too many requests at once: the queue is full")
	ErrLate = errors.New("too many requests at once: none ended in time")
)

// ErrDrained means that no more places are given.
var ErrDrained = errors.New("no more places are given")

// Options of Places.
type Options struct {
	Places int           // what runs at once
	Queue  int           // what waits at most
	Wait   time.Duration // how long it waits at most
}

// standingPart is the part of the wait that is left to those who come when the queue has not been
// empty for as long as the whole of it: more comes than is served, and to wait longer would only
// make every answer late.
const standingPart = 8

// Places are what tenants take before they begin. All methods may be called from many goroutines.
//
// No tenant holds more than twice as many places as are left free, so that one that comes with
// hundreds of requests leaves a third to those that come after it, and these leave a third of that
// to the next. The same holds for the queue. Of those who wait, the tenant that holds least goes
// first, and of its requests the oldest.
type Places struct {
	opt Options

	mu       sync.Mutex // guards everything below, and the places' states
	free     int
	waiting  int       // of Take
	standing time.Time // since when some wait
	tenants  map[uint64]*tenant
	paused   []*Place // since when each waits for its client: oldest first
	drained  chan struct{}
	arrivals uint64
	refused  uint64
}

// tenant holds or waits.
type tenant struct {
	held  int
	queue []*Place
	room  int // of the queue, that it takes
}

// Place is held from Take to Give.
type Place struct {
	of      *Places
	tenant  uint64
	arrival uint64
	patient bool // it waits for as long as it must
	// patience is how long another waits.
	patience time.Duration
	granted  chan struct{} // closed when it is held; nil unless it waits
	hangUp   func()        // of one that is paused
}

// New returns places of which none is held.
func New(opt Options) *Places {
	return &Places{opt: opt, free: opt.Places, tenants: map[uint64]*tenant{}}
}

// Take takes a place for a tenant, or waits for one.
//
// Errors: ErrFull; ErrLate; ErrDrained; the cause of ctx.
func (p *Places) Take(ctx context.Context, of uint64) (*Place, error) {
	place := &Place{of: p, tenant: of}
	if err := p.join(place); err != nil || place.granted == nil {
		return place, err
	}
	late := time.NewTimer(place.patience)
	defer late.Stop()
	return place, p.wait(ctx, place, late.C)
}

// Await is Take for who waits as long as it must and takes no room in the queue.
//
// Errors: the cause of ctx.
func (p *Places) Await(ctx context.Context, of uint64) (*Place, error) {
	place := &Place{of: p, tenant: of, patient: true}
	if err := p.join(place); err != nil || place.granted == nil {
		return place, err
	}
	return place, p.wait(ctx, place, nil)
}

// join takes a place or a room in the queue.
func (p *Places) join(place *Place) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drained != nil {
		return ErrDrained
	}
	t := p.tenants[place.tenant]
	if t == nil {
		t = &tenant{}
		p.tenants[place.tenant] = t
	}
	if len(t.queue) == 0 && p.mayTake(t) {
		t.held++
		p.free--
		return nil
	}
	if room := p.opt.Queue - p.waiting; !place.patient && t.room >= 2*room {
		p.refused++
		p.forget(place.tenant)
		return ErrFull
	}
	p.enqueue(t, place)
	return nil
}

// enqueue is called with mu held.
func (p *Places) enqueue(t *tenant, place *Place) {
	p.arrivals++
	place.arrival, place.granted = p.arrivals, make(chan struct{})
	t.queue = append(t.queue, place)
	if place.patient {
		return
	}
	t.room++
	now := time.Now()
	if p.waiting++; p.waiting == 1 {
		p.standing = now
	}
	place.patience = p.opt.Wait
	if now.Sub(p.standing) >= p.opt.Wait {
		place.patience /= standingPart
	}
}

// mayTake reports whether a tenant may have one more. It is called with mu held.
func (p *Places) mayTake(t *tenant) bool { return p.free > 0 && t.held < 2*p.free }

// forget removes a tenant that neither holds nor waits. It is called with mu held.
func (p *Places) forget(of uint64) {
	if t := p.tenants[of]; t != nil && t.held == 0 && len(t.queue) == 0 {
		delete(p.tenants, of)
	}
}

// wait waits until a place is granted.
func (p *Places) wait(ctx context.Context, place *Place, late <-chan time.Time) (err error) {
	select {
	case <-place.granted:
		return nil
	case <-late:
		err = ErrLate
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-place.granted: // in the same moment
		p.release(place)
	default:
		t := p.tenants[place.tenant]
		t.queue = slices.DeleteFunc(t.queue, func(o *Place) bool { return o == place })
		p.left(t, place)
		p.forget(place.tenant)
		if errors.Is(err, ErrLate) {
			p.refused++
		}
	}
	return err
}

// left gives room back of one that waits no more. It is called with mu held.
func (p *Places) left(t *tenant, place *Place) {
	if !place.patient {
		t.room--
		p.waiting--
	}
}

// Give gives a place back. It is called once for each that was taken.
func (place *Place) Give() {
	p := place.of
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := slices.Index(p.paused, place); at >= 0 {
		p.paused = slices.Delete(p.paused, at, at+1)
		p.endDrain()
		return
	}
	p.release(place)
}

// release is called with mu held.
func (p *Places) release(place *Place) {
	p.tenants[place.tenant].held--
	p.free++
	p.grant()
	p.forget(place.tenant)
	p.endDrain()
}

// grant hands free places to those who wait. It is called with mu held.
func (p *Places) grant() {
	for p.free > 0 {
		var next *tenant
		for _, t := range p.tenants {
			if len(t.queue) == 0 || !p.mayTake(t) {
				continue
			}
			if next == nil || t.held < next.held ||
				t.held == next.held && t.queue[0].arrival < next.queue[0].arrival {
				next = t
			}
		}
		if next == nil {
			return
		}
		place := next.queue[0]
		next.queue = slices.Delete(next.queue, 0, 1)
		p.left(next, place)
		next.held++
		p.free--
		close(place.granted)
	}
}

// Pause gives a place to others while its holder waits for a client that does not read. When as
// many are paused as there are places, the one that waits longest is hung up on.
func (place *Place) Pause(hangUp func()) {
	p := place.of
	p.mu.Lock()
	defer p.mu.Unlock()
	place.hangUp = hangUp
	p.paused = append(p.paused, place)
	if len(p.paused) > p.opt.Places {
		if oldest := p.paused[0]; oldest.hangUp != nil {
			oldest.hangUp() // it ends, and gives its place back
			oldest.hangUp = nil
		}
	}
	p.release(place)
}

// Resume takes a place again that was paused, and waits for it as long as it must. With an error it
// is still paused.
//
// Errors: the cause of ctx.
func (place *Place) Resume(ctx context.Context) error {
	p := place.of
	p.mu.Lock()
	t := p.tenants[place.tenant]
	if t == nil {
		t = &tenant{}
		p.tenants[place.tenant] = t
	}
	place.patient = true
	p.enqueue(t, place)
	place.arrival = 0 // it has waited before
	copy(t.queue[1:], t.queue)
	t.queue[0] = place
	p.grant()
	p.mu.Unlock()
	err := p.wait(ctx, place, nil)
	if err == nil {
		p.mu.Lock()
		p.paused = slices.DeleteFunc(p.paused, func(o *Place) bool { return o == place })
		p.mu.Unlock()
	}
	return err
}

// Drain gives no more places and waits until all are given back.
//
// Errors: the cause of ctx.
func (p *Places) Drain(ctx context.Context) error {
	p.mu.Lock()
	if p.drained == nil {
		p.drained = make(chan struct{})
		p.endDrain()
	}
	p.mu.Unlock()
	select {
	case <-p.drained:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// endDrain is called with mu held.
func (p *Places) endDrain() {
	if p.drained == nil || p.free < p.opt.Places || len(p.paused) > 0 {
		return
	}
	for _, t := range p.tenants {
		if len(t.queue) > 0 {
			return
		}
	}
	select {
	case <-p.drained:
	default:
		close(p.drained)
	}
}

// Stats say how places are used.
type Stats struct {
	Held, Waiting, Paused int
	Refused               uint64 // since the beginning: ErrFull and ErrLate
}

// Stats returns the present figures.
func (p *Places) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{p.opt.Places - p.free, p.waiting, len(p.paused), p.refused}
}
