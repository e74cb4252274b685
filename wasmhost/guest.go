package wasmhost

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Budgets of one guest call in fuel. A unit takes 0.2 to 0.4 ns in a tight loop and up to 11 ns in
// one that misses every cache.
const (
	fuelBase      = 100_000   // any call
	fuelPerRecord = 512       // add, filter: binary numbers use 9 to 76
	fuelCostlyRow = 6144      // add, filter: more for each of costlyRows; joining bins uses 5,000
	costlyRows    = 256       // so that 1,024 rows have 2,146 units each: decimal text uses 1,100
	fuelPerByte   = 32        // add, filter: of payload; decimal text in Rust: 80 a character
	fuelPerState  = 64        // state_init, merge, finish: per byte; HyperLogLog uses 22
	fuelStart     = 4_000_000 // start function, _initialize, describe, alloc, init: once each
	goFuelScale   = 16        // code of the Go compiler is one loop per function, overcharged
	goFuelFactor  = 4         // text takes 37,000 units a row; any call may collect garbage
	goStartScale  = 32        // and its runtime is initialized
	wasiCallPrice = 1000      // a call of a host function, and one unit per 16 bytes
)

// guest is an instance while a query uses it. It is used by one goroutine at a time, and only
// between enter and leave.
type guest struct {
	*instance
	entry         *entry
	image         *image // that it is reset to at the end, nil if it is not pooled
	poolOwner     uint64 // owner in the pool
	scale         int64  // units of fuel that count as one
	fuelFactor    int64  // factor of budgets
	allocF        exportFunc
	args          [1 + trampolineArgs]uint64
	used          uint64   // fuel used by the last call
	usage         Usage    // without its memory
	params        []byte   // passed to pentad_init
	payloadPrefix uint32   // leading bytes of payloads that it reads, 0 for all
	regions       []region // that pentad_alloc returned; few
	replays       *guest   // guest whose call it repeats, under that one's permit
	closed        bool
	broken        error // failure of a call that has returned none, for the next call
	retries       bool  // a call that fails for lack of space is retried with more

	// ctx is passed to calls, and cancels none of them: fuel does that. The runtime looks up values
	// in it at each call, and the context of a query has many layers.
	ctx context.Context
	// operationCtx is the context of the operation, checked between slices of fuel.
	operationCtx context.Context

	startPermit *startPermit // under which it is started
	permit      cachedPermit
	since       time.Time // when the operation began, or acquired the permit last, if it is timed
	timed       bool      // the operation is timed
	spent       uint64    // fuel of the operation
	wasBrief    bool      // the last operation used at most briefFuel
	// untimed is the number of operations since the last timed one. Each is assumed to have taken
	// as long as the next timed one, if that is brief.
	untimed    int
	permitLost bool // pause released the permit, and the context ended before it was acquired again
	unreported unreported
}

// unreported has counters of an instance that are not added to those of the host yet.
type unreported struct {
	calls, fuel, records int64
	ns                   time.Duration
}

const (
	// briefFuel is the fuel up to which an operation is not timed if its permit was held: it takes
	// less than a time slice even if it misses every cache.
	briefFuel  = 20_000
	maxUntimed = 7 // in a row
	unitsPerNs = 3 // roughly, of fuel in a tight loop
)

// reportEvery is the number of calls after which an instance reports its counters.
const reportEvery = 64

// report adds the counters of the instance to those of the host.
func (g *guest) report() {
	c, d := &g.entry.host.counter, &g.unreported
	c.calls.Add(d.calls)
	c.fuelUsed.Add(d.fuel)
	c.records.Add(d.records)
	c.callNs.Add(int64(d.ns))
	*d = unreported{}
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

// scaled returns a budget in the units of the module's profile.
func (g *guest) scaled(units int64) int64 { return g.scale * g.fuelFactor * units }

// drop frees the instance. It may be called twice.
func (g *guest) drop() {
	if g.closed {
		return
	}
	g.closed = true
	g.entry.host.permits.releaseCached(&g.permit)
	g.report()
	g.end()
	g.entry.host.counter.instances.Add(-1)
	g.entry.host.unpin(g.entry)
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
	g.permitLost, g.spent, g.operationCtx = false, 0, ctx
	if g.timed = !kept || !g.wasBrief || g.untimed >= maxUntimed; g.timed {
		g.since = time.Now()
	}
	return nil
}

// leave ends an operation; after a failed one the instance may be in any state and is dropped.
func (g *guest) leave(err error) error {
	permits := g.entry.host.permits
	if g.unreported.calls >= reportEvery {
		g.report()
	}
	g.wasBrief = g.spent <= briefFuel*uint64(g.scale)
	if err == nil && g.wasBrief && !g.timed && !permits.wanted() {
		g.untimed++
		permits.cache(&g.permit)
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
	held, took := g.permitTime(now)
	if err != nil {
		if e := (*Error)(nil); errors.As(err, &e) && e.Kind == Fuel {
			permits.penalize(g.permit.owner, held, now)
		}
	}
	g.unreported.ns += took
	if g.closed {
		g.report() // the time; drop has reported the calls
		g.permit.unreported += took
		permits.releaseUsed(&g.permit, now, held)
		return err
	}
	permits.leave(&g.permit, held, took, now)
	return err
}

// permitTime returns how long the operation that ends now has used the permit, and how long it took
// together with the untimed operations before it. If it was not timed, its fuel is the estimate.
func (g *guest) permitTime(now time.Time) (held, took time.Duration) {
	switch {
	case !g.timed && g.wasBrief:
		g.untimed++
		return 0, 0
	case !g.timed:
		held = time.Duration(g.spent / uint64(unitsPerNs*g.scale))
	default:
		held = now.Sub(g.since)
	}
	took = held
	if g.wasBrief {
		took *= time.Duration(1 + g.untimed)
	}
	g.untimed = 0
	return held, took
}

// pause checks, between two calls or slices of one, the context, and releases the permit if others
// wait for it.
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
			g.unreported.ns += held
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

// start runs the functions that must run before any other export.
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

// initialise passes parameters to an instance that has started.
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
	prefix, err := g.check(&f, budget, uint64(ptr), uint64(len(params)))
	g.payloadPrefix = uint32(max(0, prefix))
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

// region is memory that the guest allocated. It ends within the memory, which is below 4 GiB.
type region struct{ at, size uint32 }

// view returns guest memory; it is valid until the next call. Errors name the export.
func (g *guest) view(export string, ptr, size uint32) ([]byte, error) {
	b, ok := g.memory.Read(ptr, size)
	if !ok {
		return nil, g.fail(Output, export, fmt.Sprintf("returned %d: %s bytes from there lie "+
			"outside of the memory of %s bytes", ptr, grouped(uint64(size)),
			grouped(uint64(g.memory.Size()))))
	}
	return b, nil
}
