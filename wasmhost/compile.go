package wasmhost

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"syscall"
	"time"
	"weak"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// entry is one compiled module, shared by all Modules and instances with its digest. All fields
// but refs and image are set before the entry is published.
type entry struct {
	host       *Host
	digest     [32]byte
	runtime    wazero.Runtime
	pool       *memoryPool
	code       wazero.CompiledModule
	lim        limits
	hasStart   bool
	trampoline string              // what stack traces call the trampoline
	has        map[string]bool     // functions exported
	globals    []string            // exports of the module's own mutable globals
	resets     bool                // an image has all that calls can change
	most       uint64              // bytes of an instance's memory
	image      weak.Pointer[image] // guarded by instances.mu; used and pooled instances have it
	kinds      byte                // needFilter, needAggregate: what its exports allow
	desc       Descriptor
	refs       int // guarded by Host.mu: modules and instances; at 0 the code is freed
}

// job is one request to the compile worker.
type job struct {
	wasm   []byte // owned by the job
	digest [32]byte
	done   chan struct{} // closed by the worker after result and err are set

	result    *entry // holds one reference; guarded by Host.mu
	err       error  // set before done is closed
	abandoned bool   // guarded by Host.mu: no caller waits any more
}

// Load checks, rewrites and compiles a module, or finds it already compiled, and asks it for its
// description. The wasm bytes are not kept.
//
// Errors: *Error of kind Refused with the reason, or of another kind when pentad_describe fails.
func (h *Host) Load(ctx context.Context, wasm []byte) (*Module, error) {
	digest := sha256.Sum256(wasm)
	if e, err := h.pin(digest); e != nil || err != nil {
		return newModule(e), err
	}
	lim := goLimits(h.opt.GoMemoryPages)
	if err := lim.checkSize(wasm); err != nil {
		return nil, h.refuse(digest, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.opt.CompileTimeout, errCompileTimeout)
	defer cancel()
	j := &job{wasm: append([]byte(nil), wasm...), digest: digest, done: make(chan struct{})}
	select {
	case h.jobs <- j:
	case <-h.quit:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, h.loadInterrupted(ctx, digest)
	}
	select {
	case <-j.done:
		if j.err != nil {
			return nil, j.err
		}
		return newModule(j.result), nil
	case <-ctx.Done():
		h.abandon(j)
		return nil, h.loadInterrupted(ctx, digest)
	}
}

var errCompileTimeout = errors.New("compiling takes too long; make the module's functions smaller")

func (h *Host) loadInterrupted(ctx context.Context, digest [32]byte) error {
	err := context.Cause(ctx)
	if errors.Is(err, errCompileTimeout) {
		return h.refuse(digest, err)
	}
	return fmt.Errorf("load plugin (sha256 %x…): %w", digest[:4], err)
}

func (h *Host) refuse(digest [32]byte, err error) error {
	h.counter.refused.Add(1)
	return &Error{Digest: digest, Kind: Refused, Reason: err.Error()}
}

// pin takes a reference to a compiled module, nil when there is none.
func (h *Host) pin(digest [32]byte) (*entry, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return nil, ErrClosed
	}
	e := h.entries[digest]
	if e != nil {
		e.refs++
	}
	return e, nil
}

// abandon gives up a job; the last of worker and waiter unpins its result.
func (h *Host) abandon(j *job) {
	h.mu.Lock()
	j.abandoned = true
	result := j.result
	h.mu.Unlock()
	if result != nil {
		h.unpin(result)
	}
}

// unpin drops one reference.
func (h *Host) unpin(e *entry) {
	h.mu.Lock()
	e.refs--
	last := e.refs == 0
	if last {
		delete(h.entries, e.digest)
	}
	h.mu.Unlock()
	if last {
		h.instances.drop(func(s *pooledInstance) bool { return s.entry == e })
		// The machine code itself lives until the last instance is collected.
		_ = e.code.Close(context.Background())
	}
}

// compileJobs is the compile worker: one module at a time, so that uploads cannot take more than
// one processor from queries.
func (h *Host) compileJobs() {
	for {
		select {
		case <-h.quit:
			return
		case j := <-h.jobs:
			h.runJob(j)
		}
	}
}

func (h *Host) runJob(j *job) {
	e, err := h.pin(j.digest)
	if e == nil && err == nil && !h.isAbandoned(j) {
		start := time.Now()
		e, err = h.build(context.Background(), j.digest, j.wasm)
		h.counter.compileNs.Add(int64(time.Since(start)))
	}
	h.mu.Lock()
	j.result, j.err = e, err
	abandoned := j.abandoned
	h.mu.Unlock()
	close(j.done)
	if abandoned && e != nil {
		h.unpin(e)
	}
}

func (h *Host) isAbandoned(j *job) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return j.abandoned
}

// build takes a module from bytes to a published entry with one reference.
func (h *Host) build(ctx context.Context, digest [32]byte, wasm []byte) (e *entry, err error) {
	e = &entry{host: h, digest: digest, has: map[string]bool{}, refs: 1}
	defer func() {
		if r := recover(); r != nil {
			err = h.refuse(digest, fmt.Errorf("the compiler failed: %v", r))
		}
		if err != nil {
			if e.code != nil {
				_ = e.code.Close(ctx)
			}
			e = nil
		}
	}()
	err = h.compile(ctx, e, wasm)
	switch {
	case errors.Is(err, syscall.ENOSPC): // which is not the module's fault
		return e, fmt.Errorf("keep the compiled code of plugin (sha256 %x…): %w", digest[:4], err)
	case err != nil:
		return e, h.refuse(digest, err)
	}
	held, err := h.enter(ctx, 0)
	if err != nil {
		return e, err
	}
	defer h.leave(held)
	if err = e.describe(ctx, held); err != nil {
		h.counter.refused.Add(1)
		return e, err
	}
	h.mu.Lock()
	h.entries[digest] = e
	h.mu.Unlock()
	return e, nil
}

// compile checks the module as uploaded, rewrites it and compiles the result. The original must
// be valid by itself: see instrument.
func (h *Host) compile(ctx context.Context, e *entry, wasm []byte) error {
	isGo, err := importsWASI(wasm)
	if err != nil {
		return err
	}
	e.runtime, e.lim, e.pool = h.plain, pluginLimits(h.opt.MemoryPages), h.pool
	if isGo {
		if h.golang == nil {
			return fmt.Errorf("it imports %s, as programs built by Go do, and the Go profile of "+
				"this node is switched off", wasiModule)
		}
		e.runtime, e.lim = h.golang, goLimits(h.opt.GoMemoryPages)
	}
	if err := e.lim.checkSize(wasm); err != nil {
		return err
	}
	m, err := parseModule(wasm, &e.lim)
	if err != nil {
		return err
	}
	if isGo && m.memoryPages<<16 >= hugePage/2 {
		e.pool = h.hugePool
	}
	if e.kinds, err = m.checkExports(); err != nil {
		return err
	}
	for name, x := range m.exports {
		e.has[name] = x.kind == kindFunc
	}
	functions, err := m.scanAll(&e.lim)
	if err != nil {
		return err
	}
	if !h.cache.knows(e.digest) {
		if err := validate(ctx, wasm, &e.lim); err != nil {
			return err
		}
	}
	out := m.instrument(functions, e.startFuel(), e.depthLimit())
	e.hasStart, e.trampoline = out.hasStart, out.trampoline
	e.resets, e.globals, e.most = out.resets, out.globals, out.most
	e.code, err = h.compileCached(ctx, e.runtime, e.digest, out.wasm)
	return err
}

// validate runs wazero's validator over the module as uploaded, in an interpreter runtime of its
// own because that one compiles nothing.
func validate(ctx context.Context, wasm []byte, lim *limits) error {
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithMemoryLimitPages(lim.memoryPages).
		WithDebugInfoEnabled(false))
	_, err := r.CompileModule(ctx, wasm)
	return errors.Join(err, r.Close(ctx))
}

// compileCached compiles a rewritten module or finds it in the cache directory. A failure may be
// a damaged cache file: the files are thrown away and it tries once more.
func (h *Host) compileCached(ctx context.Context, r wazero.Runtime, digest [32]byte,
	wasm []byte) (wazero.CompiledModule, error) {
	if h.cache.dir != "" && h.cache.owns(digest, wasm) {
		if code, err := r.CompileModule(ctx, wasm); err == nil {
			h.counter.compiles.Add(1)
			h.counter.cacheHits.Add(1)
			return code, nil
		}
	}
	before := h.cache.files()
	code, err := r.CompileModule(ctx, wasm)
	if err != nil && h.cache.dir != "" {
		if clearErr := h.cache.clear(); clearErr != nil {
			return nil, errors.Join(err, clearErr)
		}
		before = nil
		code, err = r.CompileModule(ctx, wasm)
	}
	if err != nil {
		return nil, err
	}
	h.counter.compiles.Add(1)
	if h.cache.dir == "" {
		return code, nil
	}
	if len(h.cache.files()) == len(before) {
		h.counter.cacheHits.Add(1)
	}
	err = h.cache.own(digest, wasm, before)
	if err != nil && !errors.Is(err, syscall.ENOSPC) { // without it the next start compiles again
		return nil, errors.Join(fmt.Errorf("note the owner of compiled code: %w", err),
			code.Close(ctx))
	}
	return code, nil
}

// Discard removes the compiled code of a module from the cache directory. What runs goes on.
func (h *Host) Discard(digest [32]byte) error {
	if err := h.cache.discard(digest); err != nil {
		return fmt.Errorf("discard compiled code: %w", err)
	}
	return nil
}

// DiscardOthers removes the compiled code of all modules but those that are kept, by their digests
// in hex, and what a crash left behind. Nothing may be loaded meanwhile.
func (h *Host) DiscardOthers(keep func(digest string) bool) error {
	if err := h.cache.sweepFiles(keep); err != nil {
		return fmt.Errorf("discard compiled code: %w", err)
	}
	return nil
}
