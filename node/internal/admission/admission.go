// Package admission limits concurrent work and shares its permits fairly among tenants: a caller
// gets a permit, waits for one in a short queue, or is rejected at once.
//
// It knows nothing of the work done under a permit, and starts no goroutines. Its main type is
// [Controller].
package admission

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Errors of Acquire. Both mean overload: the caller may retry later.
var (
	ErrFull    = errors.New("too many requests at once: the queue is full")
	ErrTimeout = errors.New("too many requests at once: none ended in time")
)

// ErrDrained means that the controller grants no more permits.
var ErrDrained = errors.New("shutting down: no more requests are admitted")

// Options of a Controller.
type Options struct {
	Permits  int           // granted at the same time
	MaxQueue int           // waiters at most
	MaxWait  time.Duration // of a waiter, at most
}

// congestedDivisor divides MaxWait for waiters that arrive when the queue has not been empty for
// MaxWait: demand exceeds capacity then, and longer waits would only delay every answer.
const congestedDivisor = 8

// Controller grants permits. All methods may be called from many goroutines.
//
// A tenant holds at most twice as many permits as are free, so that a tenant with hundreds of
// requests leaves a third to the tenants that follow, and these leave a third of that to the next.
// The same rule applies to the queue. Among waiters, the tenant that holds the fewest permits is
// served first, and its requests oldest first.
type Controller struct {
	opt Options

	mu          sync.Mutex // guards everything below, and the state of permits
	free        int
	waiting     int                // in Acquire
	queuedSince time.Time          // when the queue was empty last
	tenants     map[uint64]*tenant // idle ones are forgotten when they are many
	paused      []*Permit          // oldest first
	drained     chan struct{}
	arrivals    uint64
	refused     uint64
}

// tenant holds permits or waits for them.
type tenant struct {
	held   int
	queue  []*Permit
	queued int // entries of the queue that it occupies
}

// Permit is held from Acquire to Release.
type Permit struct {
	controller *Controller
	tenant     uint64
	arrival    uint64
	unbounded  bool // waits without a limit
	// maxWait is the limit of another.
	maxWait time.Duration
	granted chan struct{} // closed when it is granted; nil unless it waits
	hangUp  func()        // set while paused
}

// New returns a controller with all permits free.
func New(opt Options) *Controller {
	return &Controller{opt: opt, free: opt.Permits, tenants: map[uint64]*tenant{}}
}

// Acquire makes permit, which is the zero value, a permit of a tenant, and waits for one if needed.
//
// Errors: ErrFull; ErrTimeout; ErrDrained; the cause of ctx.
func (c *Controller) Acquire(ctx context.Context, of uint64, permit *Permit) error {
	permit.controller, permit.tenant = c, of
	if err := c.join(permit); err != nil || permit.granted == nil {
		return err
	}
	timeout := time.NewTimer(permit.maxWait)
	defer timeout.Stop()
	return c.wait(ctx, permit, timeout.C)
}

// AcquireUnbounded is Acquire of a new permit, without a limit on the wait; it occupies no entry of
// the queue.
//
// Errors: the cause of ctx.
func (c *Controller) AcquireUnbounded(ctx context.Context, of uint64) (*Permit, error) {
	permit := &Permit{controller: c, tenant: of, unbounded: true}
	if err := c.join(permit); err != nil || permit.granted == nil {
		return permit, err
	}
	return permit, c.wait(ctx, permit, nil)
}

// join grants a permit or queues it.
func (c *Controller) join(permit *Permit) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drained != nil {
		return ErrDrained
	}
	t := c.remember(permit.tenant)
	if len(t.queue) == 0 && c.mayAcquire(t) {
		t.held++
		c.free--
		return nil
	}
	if left := c.opt.MaxQueue - c.waiting; !permit.unbounded && t.queued >= 2*left {
		c.refused++
		c.forget(permit.tenant)
		return ErrFull
	}
	c.enqueue(t, permit)
	return nil
}

// enqueue is called with mu held.
func (c *Controller) enqueue(t *tenant, permit *Permit) {
	c.arrivals++
	permit.arrival, permit.granted = c.arrivals, make(chan struct{})
	t.queue = append(t.queue, permit)
	if permit.unbounded {
		return
	}
	t.queued++
	now := time.Now()
	if c.waiting++; c.waiting == 1 {
		c.queuedSince = now
	}
	permit.maxWait = c.opt.MaxWait
	if now.Sub(c.queuedSince) >= c.opt.MaxWait {
		permit.maxWait /= congestedDivisor
	}
}

// mayAcquire reports whether a tenant may have one more permit. It is called with mu held.
func (c *Controller) mayAcquire(t *tenant) bool { return c.free > 0 && t.held < 2*c.free }

// remember returns a tenant, a new one unless it is there. It is called with mu held.
func (c *Controller) remember(of uint64) *tenant {
	t := c.tenants[of]
	if t == nil {
		t = new(tenant)
		c.tenants[of] = t
	}
	return t
}

// fewTenants are kept when they neither hold nor wait: they come again.
const fewTenants = 16

// forget removes a tenant that neither holds nor waits, unless there are few. It is called with mu
// held.
func (c *Controller) forget(of uint64) {
	if len(c.tenants) <= fewTenants {
		return
	}
	if t := c.tenants[of]; t != nil && t.held == 0 && len(t.queue) == 0 {
		delete(c.tenants, of)
	}
}

// wait waits until a permit is granted.
func (c *Controller) wait(
	ctx context.Context, permit *Permit, timeout <-chan time.Time,
) (err error) {
	select {
	case <-permit.granted:
		return nil
	case <-timeout:
		err = ErrTimeout
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-permit.granted: // in the same moment
		c.freeLocked(permit)
	default:
		t := c.tenants[permit.tenant]
		t.queue = slices.DeleteFunc(t.queue, func(o *Permit) bool { return o == permit })
		c.leaveQueue(t, permit)
		c.forget(permit.tenant)
		if errors.Is(err, ErrTimeout) {
			c.refused++
		}
	}
	return err
}

// leaveQueue frees the queue entry of a permit that waits no longer. It is called with mu held.
func (c *Controller) leaveQueue(t *tenant, permit *Permit) {
	if !permit.unbounded {
		t.queued--
		c.waiting--
	}
}

// Release returns a permit. It is called once for each.
func (permit *Permit) Release() {
	p := permit.controller
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := slices.Index(p.paused, permit); at >= 0 {
		p.paused = slices.Delete(p.paused, at, at+1)
		p.endDrain()
		return
	}
	p.freeLocked(permit)
}

// freeLocked is called with mu held.
func (c *Controller) freeLocked(permit *Permit) {
	c.tenants[permit.tenant].held--
	c.free++
	c.grant()
	c.forget(permit.tenant)
	c.endDrain()
}

// grant grants free permits to waiters. It is called with mu held.
func (c *Controller) grant() {
	for c.free > 0 {
		var next *tenant
		for _, t := range c.tenants {
			if len(t.queue) == 0 || !c.mayAcquire(t) {
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
		permit := next.queue[0]
		next.queue = slices.Delete(next.queue, 0, 1)
		c.leaveQueue(next, permit)
		next.held++
		c.free--
		close(permit.granted)
	}
}

// Pause lends a permit to others while its holder waits for a client that does not read. When more
// are paused than there are permits, the one paused longest is hung up on.
func (permit *Permit) Pause(hangUp func()) {
	p := permit.controller
	p.mu.Lock()
	defer p.mu.Unlock()
	permit.hangUp = hangUp
	p.paused = append(p.paused, permit)
	if len(p.paused) > p.opt.Permits {
		if oldest := p.paused[0]; oldest.hangUp != nil {
			oldest.hangUp() // it ends, and gives its permit back
			oldest.hangUp = nil
		}
	}
	p.freeLocked(permit)
}

// Resume takes a paused permit back. It waits without a limit, ahead of other waiters of its
// tenant. After an error it is still paused.
//
// Errors: the cause of ctx.
func (permit *Permit) Resume(ctx context.Context) error {
	p := permit.controller
	p.mu.Lock()
	t := p.remember(permit.tenant)
	permit.unbounded = true
	p.enqueue(t, permit)
	permit.arrival = 0 // it has waited before
	copy(t.queue[1:], t.queue)
	t.queue[0] = permit
	p.grant()
	p.mu.Unlock()
	err := p.wait(ctx, permit, nil)
	if err == nil {
		p.mu.Lock()
		p.paused = slices.DeleteFunc(p.paused, func(o *Permit) bool { return o == permit })
		p.mu.Unlock()
	}
	return err
}

// Drain grants no more permits and waits until all are released.
//
// Errors: the cause of ctx.
func (c *Controller) Drain(ctx context.Context) error {
	c.mu.Lock()
	if c.drained == nil {
		c.drained = make(chan struct{})
		c.endDrain()
	}
	c.mu.Unlock()
	select {
	case <-c.drained:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// endDrain is called with mu held.
func (c *Controller) endDrain() {
	if c.drained == nil || c.free < c.opt.Permits || len(c.paused) > 0 {
		return
	}
	for _, t := range c.tenants {
		if len(t.queue) > 0 {
			return
		}
	}
	select {
	case <-c.drained:
	default:
		close(c.drained)
	}
}

// Stats say how permits are used.
type Stats struct {
	Held, Waiting, Paused int
	Refused               uint64 // ErrFull and ErrTimeout, since the start
}

// Stats returns the current figures.
func (c *Controller) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{c.opt.Permits - c.free, c.waiting, len(c.paused), c.refused}
}
