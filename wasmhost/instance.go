package wasmhost

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"unsafe"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// instance is what the runtime makes of a module.
type instance struct {
	module     api.Module
	memory     api.Memory
	lease      *lease // of that memory
	meter      meter
	depth      api.MutableGlobal
	globals    []api.MutableGlobal // the module's own
	trampoline api.Function
	stack      *[]byte    // that the trampoline runs on, nil where it is not known
	wasi       *wasiState // nil in the plain profile
}

// noRandomness is the random source for guests, which cannot request any. Without it the runtime
// seeds a generator for each instance, which took a fifth of the time of a start.
type noRandomness struct{}

func (noRandomness) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// instantiate returns a fresh instance in which nothing has run, for a caller that holds a permit,
// or to repeat calls of another instance.
func (e *entry) instantiate(ctx context.Context, held *startPermit) (g *guest, err error) {
	l := &lease{pool: e.pool, budget: e.host.budget, limit: uint64(e.lim.memoryPages) << 16,
		most: e.most}
	defer func() {
		if r := recover(); r != nil {
			err = e.noMemory(r)
		}
		if err != nil {
			l.Free()
		}
	}()
	module, err := e.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, l), e.code,
		e.host.config)
	if err != nil {
		return nil, e.fail(Trap, "", "start an instance: "+firstLine(err))
	}
	i := &instance{module: module, memory: module.Memory(), lease: l}
	i.makeTrampoline()
	global := func(name string) api.MutableGlobal {
		return module.ExportedGlobal(name).(api.MutableGlobal)
	}
	i.meter.fuel, i.depth = global(exportFuel), global(exportDepth)
	for _, name := range e.globals {
		i.globals = append(i.globals, global(name))
	}
	if e.lim.goProfile {
		i.wasi = newWASIState(&i.meter)
	}
	l.refuels = i.refuels
	e.host.counter.instancesTotal.Add(1)
	return e.use(ctx, i, held), nil
}

// noMemory is the error of what has no memory for an instance.
func (e *entry) noMemory(cause any) *Error {
	return e.fail(Busy, "", fmt.Sprintf("there is no memory for an instance: %v; or %s", cause,
		e.host.budget.full()))
}

// use begins the use of an instance.
func (e *entry) use(ctx context.Context, i *instance, held *startPermit) *guest {
	g := &guest{instance: i, entry: e, scale: 1, fuelFactor: 1, ctx: context.Background(),
		operationCtx: ctx,
		startPermit:  held}
	i.meter.between = func() error { return g.pause(g.operationCtx) }
	g.allocF = g.export(exportAlloc)
	if e.lim.goProfile {
		g.scale, g.fuelFactor = goFuelScale, goFuelFactor
		g.ctx = context.WithValue(g.ctx, wasiKey{}, i.wasi)
	}
	e.host.mu.Lock()
	e.refs++
	e.host.mu.Unlock()
	e.host.counter.instances.Add(1)
	return g
}

// obtain returns an instance that has started: one that the owner had before, or a new one.
func (e *entry) obtain(ctx context.Context, by Owner, held *startPermit) (*guest, error) {
	if it, ok := e.host.instances.take(e, by.Pool); ok {
		if !it.lease.charge(it.image.size) {
			it.end()
			return nil, e.noMemory("others have it")
		}
		if it.trampoline == nil {
			it.makeTrampoline()
		}
		e.host.counter.instancesReset.Add(1)
		g := e.use(ctx, it.instance, held)
		g.image, g.usage = it.image, it.image.usage
		return g, nil
	}
	g, err := e.instantiate(ctx, held)
	if err != nil {
		return nil, err
	}
	if err := g.start(); err != nil {
		g.drop()
		return nil, err
	}
	g.image = g.imageOf()
	return g, nil
}

// end frees the instance.
func (i *instance) end() {
	_ = i.module.Close(context.Background()) // frees memory, reports exit codes only
}

// makeTrampoline makes the function that all calls go through, with a stack as small as can be.
func (i *instance) makeTrampoline() {
	i.trampoline = i.module.ExportedFunction(exportTrampoline)
	i.stack = stackOf(i.trampoline)
}

// stackOf returns the stack of a function, nil if it is not where it is expected. wazero does not
// export it, so it is read from an unexported field.
func stackOf(f api.Function) *[]byte {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	s := v.Elem().FieldByName("stack")
	if !s.IsValid() || s.Type() != reflect.TypeFor[[]byte]() {
		return nil
	}
	return (*[]byte)(unsafe.Pointer(s.UnsafeAddr()))
}

// stackGrew reports whether the stack is larger than a pooled instance may keep, or may be.
func (i *instance) stackGrew() bool { return i.stack == nil || cap(*i.stack) > maxPooledStack }
