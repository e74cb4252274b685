package wasmhost

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Budgets of one guest call in fuel. A unit takes 0.2 to 0.4 ns in a loop that spins and up to
// 11 ns in one that misses every cache.
const (
	fuelBase      = 100_000   // any call
	fuelPerRecord = 512       // add, filter: binary numbers use 9 to 76
	fuelDearRow   = 6144      // add, filter: more for each of dearRows; joining bins uses 5,000
	dearRows      = 256       // so that 1,024 rows have 2,146 units each: decimal text uses 1,100
	fuelPerByte   = 32        // add, filter: of payload; decimal text in Rust uses 80 a character
	fuelPerState  = 64        // state_init, merge, finish: per byte of state; HyperLogLog uses 22
	fuelStart     = 4_000_000 // start function, _initialize, describe, alloc, init: once each
	goFuelScale   = 16        // code of the Go compiler is one loop per function, overcharged
	goFuelRoom    = 4         // and text takes it 37,000 units a row; any call may collect garbage
	goStartScale  = 32        // and its runtime has to be set up
	wasiCallPrice = 1000      // a call of a host function, and one unit per 16 bytes
)

// guest is one instance and its use by a query. It is used by one goroutine at a time, and only
// between Host.enter and Host.leave.
type guest struct {
	*instance
	entry     *entry
	image     *image // what it becomes in the end, nil if it ends
	poolOwner uint64 // whose it is then
	scale     int64  // how many units of fuel count as one
	room      int64  // how many of those budgets have for each
	allocF    exportFunc
	args      [1 + trampolineArgs]uint64
	used      uint64   // fuel used by the last call
	usage     Usage    // without its memory
	params    []byte   // that pentad_init got
	front     uint32   // bytes of payloads that it said are read, 0 for all
	regions   []region // that pentad_alloc returned, a handful
	replays   *guest   // whose call it repeats, in its permit; the failures are those of that one
	closed    bool
	broken    error // what it failed with in a call that nobody was told of
	again     bool  // a call for which there is too little room is made again with more

	// ctx is what calls get, and what ends none of them: fuel does that. The runtime looks for
	// values in it at each call, and that of a query has many layers.
	ctx context.Context
	// asked is that of the operation, looked at between slices of fuel.
	asked context.Context

	startPermit *startPermit // the permit that it is started in
	permit      heldPermit
	since       time.Time // when the operation began, or the permit was taken last, if it is timed
	timed       bool      // the operation is
	spent       uint64    // fuel in it
	brief       bool      // the last operation was, going by its fuel
	// untimed operations since the last one that was timed. They are taken to have been as long as
	// the next one that is, if that is brief.
	untimed    int
	permitLost bool // the permit was given to others and not taken again, as the context ended
	done       done
}

// done is what an instance did that its host does not know of yet: what all instances count
// together is told now and then.
type done struct {
	calls, fuel, records int64
	ns                   time.Duration
}

const (
	// briefFuel is up to what fuel an operation is not timed, if its permit was kept: it is shorter
	// than a turn even if it misses every cache.
	briefFuel  = 20_000
	maxUntimed = 7 // in a row
	unitsPerNs = 3 // of fuel in a loop that spins, about
)

// tellCalls is how many calls an instance makes before its host knows of them.
const tellCalls = 64

// tell tells the host what was done.
func (g *guest) tell() {
	c, d := &g.entry.host.counter, &g.done
	c.calls.Add(d.calls)
	c.fuelUsed.Add(d.fuel)
	c.records.Add(d.records)
	c.callNs.Add(int64(d.ns))
	*d = done{}
}

func (e *entry) startFuel() int64 {
	if e.lim.goProfile {
		return fuelStart * goStartScale
	}
	return fuelStart
}

func (e *entry) depthLimit() int32 {
	if e.lim.goProfile {
		return maxDepth * goDepthScale
	}
	return maxDepth
}

// scaled is a budget in the units of the module's profile.
func (g *guest) scaled(units int64) int64 { return g.scale * g.room * units }

// drop frees the instance. It may be called twice.
func (g *guest) drop() {
	if g.closed {
		return
	}
	g.closed = true
	g.entry.host.permits.releaseHeld(&g.permit)
	g.tell()
	g.end()
	g.entry.host.counter.instances.Add(-1)
	g.entry.host.release(g.entry)
}

// close ends the use of an instance, for callers outside of enter and leave.
func (g *guest) close() error {
	h := g.entry.host
	h.permits.life.RLock()
	defer h.permits.life.RUnlock()
	if !h.closed {
		g.retire()
	}
	return nil
}

// enter begins an operation of a filter or aggregate.
func (g *guest) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("plugin %q: %w", g.entry.desc.Name, context.Cause(ctx))
	}
	if g.closed {
		return cmp.Or(g.broken, ErrClosed)
	}
	h := g.entry.host
	kept, err := h.permits.enter(ctx, &g.permit)
	if err != nil {
		return err
	}
	if h.closed {
		h.permits.releaseUsed(&g.permit, time.Now(), 0)
		return ErrClosed
	}
	g.permitLost, g.spent, g.asked = false, 0, ctx
	if g.timed = !kept || !g.brief || g.untimed >= maxUntimed; g.timed {
		g.since = time.Now()
	}
	return nil
}

// leave ends an operation; after a failed one the instance may be in any state and is dropped.
func (g *guest) leave(err error) error {
	permits := g.entry.host.permits
	if g.done.calls >= tellCalls {
		g.tell()
	}
	g.brief = g.spent <= briefFuel*uint64(g.scale)
	if err == nil && g.brief && !g.timed && !permits.wanted() {
		g.untimed++
		permits.hold(&g.permit)
		return nil
	}
	if err != nil {
		g.drop()
	}
	if g.permitLost {
		permits.life.RUnlock()
		return err
	}
	now := time.Now()
	held, took := g.held(now)
	if err != nil {
		if e := (*Error)(nil); errors.As(err, &e) && e.Kind == Fuel {
			permits.penalize(g.permit.owner, held, now)
		}
	}
	g.done.ns += took
	if g.closed {
		g.tell() // of this time; drop told of the calls
		g.permit.unreported += took
		permits.releaseUsed(&g.permit, now, held)
		return err
	}
	permits.leave(&g.permit, held, took, now)
	return err
}

// held returns how long the operation that ends now held the permit, and with that how long it took
// together with those before it that were not timed. If it was not either, its fuel tells.
func (g *guest) held(now time.Time) (held, took time.Duration) {
	switch {
	case !g.timed && g.brief:
		g.untimed++
		return 0, 0
	case !g.timed:
		held = time.Duration(g.spent / uint64(unitsPerNs*g.scale))
	default:
		held = now.Sub(g.since)
	}
	took = held
	if g.brief {
		took *= time.Duration(1 + g.untimed)
	}
	g.untimed = 0
	return held, took
}

// pause looks, between two calls or slices of one, at the context and at who waits for the permit.
func (g *guest) pause(ctx context.Context) error {
	if g.replays != nil {
		return g.replays.pause(ctx)
	}
	permits := g.entry.host.permits
	if g.startPermit != nil {
		if err := g.startPermit.pause(ctx, g.entry.host); err != nil {
			return fmt.Errorf("plugin %q: %w", g.entry.desc.Name, err)
		}
	} else if permits.contended() {
		now := time.Now()
		if !g.timed {
			g.since, g.timed = now, true
		}
		if held := now.Sub(g.since); held >= timeSlice {
			g.done.ns += held
			permits.release(g.permit.owner, held, now)
			if err := permits.acquire(ctx, g.permit.owner, now); err != nil {
				g.permitLost = true
				permits.discard(&g.permit)
				return fmt.Errorf("plugin %q: %w", g.entry.desc.Name, err)
			}
			g.since = time.Now()
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("plugin %q: stopped between two calls, or in one: %w", g.entry.desc.Name,
			context.Cause(ctx))
	}
	return nil
}

// start runs what has to run before any other export.
func (g *guest) start() error {
	for _, name := range [...]string{exportStart, exportInitialize} {
		f := g.export(name)
		if !f.there {
			continue
		}
		if _, err := g.call(&f, g.entry.startFuel()); err != nil {
			return err
		}
	}
	return nil
}

// initialise makes an instance that has started ready for batches.
func (g *guest) initialise(params []byte) error {
	g.params = bytes.Clone(params)
	ptr := uint32(0)
	if len(params) > 0 {
		var err error
		if ptr, err = g.alloc(uint32(len(params))); err != nil {
			return err
		}
		dst, err := g.view(exportAlloc, ptr, uint32(len(params)))
		if err != nil {
			return err
		}
		copy(dst, params)
	}
	f := g.export(exportInit)
	budget := g.entry.startFuel() + g.scaled(fuelPerState*int64(len(params)))
	front, err := g.check(&f, budget, uint64(ptr), uint64(len(params)))
	g.front = uint32(max(0, front))
	return err
}

// alloc returns size bytes of guest memory with 64 readable bytes behind them.
func (g *guest) alloc(size uint32) (uint32, error) {
	const tail = 64
	size = (size + tail + 63) &^ 63
	budget := g.entry.startFuel() + g.scaled(int64(size))
	result, err := g.call(&g.allocF, budget, uint64(size))
	if err != nil {
		return 0, err
	}
	ptr := uint32(result)
	switch {
	case ptr == 0:
		return 0, g.fail(Memory, exportAlloc, fmt.Sprintf("no memory for %s bytes; an instance "+
			"has at most %d MiB: where one group needs more, ask for smaller groups, as by "+
			"group=mid, or for less time", grouped(uint64(size)), g.entry.lim.memoryPages>>4))
	case ptr%64 != 0:
		return 0, g.fail(Output, exportAlloc, fmt.Sprintf("returned %d, which is no multiple of 64",
			ptr))
	}
	if _, err = g.view(exportAlloc, ptr, size); err != nil {
		return 0, err
	}
	for _, r := range g.regions {
		if ptr < r.at+r.size && r.at < ptr+size {
			return 0, g.fail(Output, exportAlloc, fmt.Sprintf("returned %d for %d bytes, which "+
				"overlap the %d at %d that it returned before", ptr, size, r.size, r.at))
		}
	}
	g.regions = append(g.regions, region{ptr, size})
	return ptr, nil
}

// region is memory that the guest handed out. It ends within the memory, which is below 4 GiB.
type region struct{ at, size uint32 }

// view returns guest memory; it is valid until the next call. The export is the one to blame.
func (g *guest) view(export string, ptr, size uint32) ([]byte, error) {
	b, ok := g.memory.Read(ptr, size)
	if !ok {
		return nil, g.fail(Output, export, fmt.Sprintf("returned %d: %s bytes from there lie "+
			"outside of the memory of %s bytes", ptr, grouped(uint64(size)),
			grouped(uint64(g.memory.Size()))))
	}
	return b, nil
}
