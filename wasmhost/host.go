// Package wasmhost runs WebAssembly plugins that filter and aggregate batches of records: it
// checks and rewrites an uploaded module so that it cannot run away, compiles it once, and calls
// it with columns of records under limits of fuel, call depth, memory and output.
//
// It knows nothing of queries, storage, networks or what plugins are called in a node. Its main
// types are [Host], [Module], [Filter] and [Aggregate]. A host runs one goroutine, the compile
// worker, which ends in [Host.Close]. wazero appears in no exported type.
// Caveats: compiled code cannot be interrupted and delays the garbage collector while it runs. So a
// call returns to the host after each slice of its fuel, 30 µs of a tight loop and 10 ms of the
// slowest instructions; there other calls run and the context is checked.
package wasmhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// Options configures a [Host]. The zero value works.
type Options struct {
	// CacheDir keeps compiled code between runs, created with mode 0700. Its files are executed
	// as native code: it must belong to the node alone. Empty means memory only.
	CacheDir string
	// MemoryPages bounds the memory of one instance in 64 KiB pages. Default 256, 16 MiB: states
	// up to 8 MiB and space for a batch; at most 16384.
	MemoryPages uint32
	// GoMemoryPages is MemoryPages for modules of the Go profile. Default 1024, 64 MiB: the Go
	// runtime alone takes 8 MiB; at most 16384.
	GoMemoryPages uint32
	// TotalBytes bounds the memory of all instances together, so that many queries with many
	// filters do not take what the store needs. Default 1 GiB: 64 instances at their limit, or
	// thousands of usual ones. Pooled instances may use a 16th of it in addition.
	TotalBytes int64
	// GoProfile accepts modules built by the Go compiler for wasip1. Default off: their budgets
	// are 64 times as large, so that one call may take a second of processor time, in slices.
	GoProfile bool
	// StateBytes bounds the states of one aggregate. Default 8 MiB, half of an instance's memory.
	StateBytes int
	// ResultBytes bounds the results of one aggregate together. Default 64 MiB.
	ResultBytes int
	// MaxCalls bounds guest calls that run at the same time. Default GOMAXPROCS: a running guest
	// holds its processor, more would starve the rest of the node. Owners share them: Owner.
	MaxCalls int
	// CompileTimeout bounds the wait for one module in [Host.Load]. Default 2 min: the worst
	// modules that the limits let through take 2 s of a processor, those of Go 8 times as much.
	CompileTimeout time.Duration
	// NativeWork is the work of the process without guests, for which slow owners leave one
	// permit free. Default none.
	NativeWork *NativeWork
	// ShareWith is a host whose permits for guest calls and whose memory this one uses, too: so
	// owners share those of the machine, not of each host. MaxCalls, TotalBytes and NativeWork
	// are then ignored. Default none.
	ShareWith *Host
}

func (o Options) withDefaults() (Options, error) {
	o.MemoryPages = cmp.Or(o.MemoryPages, 256)
	o.GoMemoryPages = cmp.Or(o.GoMemoryPages, 1024)
	o.TotalBytes = cmp.Or(o.TotalBytes, 1<<30)
	o.StateBytes = cmp.Or(o.StateBytes, 8<<20)
	o.ResultBytes = cmp.Or(o.ResultBytes, 64<<20)
	o.MaxCalls = cmp.Or(o.MaxCalls, runtime.GOMAXPROCS(0))
	o.CompileTimeout = cmp.Or(o.CompileTimeout, 2*time.Minute)
	if o.NativeWork == nil {
		o.NativeWork = NewNativeWork()
	}
	switch {
	case o.MemoryPages > maxMemoryPagesEver:
		return o, fmt.Errorf("option MemoryPages: %d, at most %d", o.MemoryPages,
			maxMemoryPagesEver)
	case o.GoMemoryPages > maxMemoryPagesEver:
		return o, fmt.Errorf("option GoMemoryPages: %d, at most %d", o.GoMemoryPages,
			maxMemoryPagesEver)
	case o.StateBytes < 0 || o.StateBytes > 1<<30:
		return o, fmt.Errorf("option StateBytes: %d, want 1 to %d", o.StateBytes, 1<<30)
	case o.ResultBytes < 0:
		return o, fmt.Errorf("option ResultBytes: %d is negative", o.ResultBytes)
	case o.TotalBytes < 0:
		return o, fmt.Errorf("option TotalBytes: %d is negative", o.TotalBytes)
	case o.MaxCalls < 0:
		return o, fmt.Errorf("option MaxCalls: %d is negative", o.MaxCalls)
	case o.CompileTimeout < 0:
		return o, fmt.Errorf("option CompileTimeout: %v is negative", o.CompileTimeout)
	}
	return o, nil
}

// Host compiles modules and limits the calls of their instances. It is safe for concurrent use.
type Host struct {
	opt       Options
	plain     wazero.Runtime
	golang    wazero.Runtime // with the wasi stubs; nil unless Options.GoProfile
	cache     *codeCache
	config    wazero.ModuleConfig // of all instances
	pool      *memoryPool
	hugePool  *memoryPool // of programs built by Go
	instances instancePool
	budget    *budget       // of the memories of instances
	permits   *callPermits  // one per guest call that runs
	jobs      chan *job     // to the compile worker
	quit      chan struct{} // closed by Close, once
	worker    sync.WaitGroup
	counter   counters

	closed bool // guarded by permits.life

	mu      sync.Mutex
	entries map[[32]byte]*entry // guarded by mu, as are the fields of entries and jobs
	stopped bool                // guarded by mu: quit is closed
}

// New returns a host. It refuses platforms without wazero's compiler, because the interpreter is
// about 100 times slower.
func New(ctx context.Context, opt Options) (*Host, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := Supported(ctx); err != nil {
		return nil, fmt.Errorf("start the plugin host: %w", err)
	}
	cache, err := openCodeCache(opt.CacheDir)
	if err != nil {
		return nil, err
	}
	h := &Host{
		opt:   opt,
		cache: cache,
		config: wazero.NewModuleConfig().WithName("").WithStartFunctions().
			WithRandSource(noRandomness{}),
		pool:     newMemoryPool(false),
		hugePool: newMemoryPool(true),
		permits:  newCallPermits(opt.MaxCalls, opt.NativeWork),
		budget:   &budget{limit: opt.TotalBytes},
		jobs:     make(chan *job),
		quit:     make(chan struct{}),
		entries:  map[[32]byte]*entry{},
	}
	if opt.ShareWith != nil {
		h.permits, h.budget = opt.ShareWith.permits, opt.ShareWith.budget
	}
	h.plain = h.newRuntime(ctx, opt.MemoryPages)
	if opt.GoProfile {
		h.golang = h.newRuntime(ctx, opt.GoMemoryPages)
		if err := provideWASI(ctx, h.golang); err != nil {
			return nil, errors.Join(err, h.closeRuntimes(ctx))
		}
	}
	h.worker.Go(h.compileJobs)
	return h, nil
}

// Supported returns an error where plugins cannot run: wazero has only its interpreter there.
func Supported(ctx context.Context) (err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("plugins need a compiler of WebAssembly, and there is none for %s/%s",
				runtime.GOOS, runtime.GOARCH)
		}
	}()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
	return r.Close(ctx)
}

func (h *Host) newRuntime(ctx context.Context, pages uint32) wazero.Runtime {
	return wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithMemoryLimitPages(pages+1). // one that no guest gets: see memorySection
		WithCloseOnContextDone(false). // fuel does this; wazero's way makes loops 10 times slower
		WithDebugInfoEnabled(false).
		WithCompilationCache(h.cache.code))
}

func (h *Host) closeRuntimes(ctx context.Context) error {
	err := h.plain.Close(ctx)
	if h.golang != nil {
		err = errors.Join(err, h.golang.Close(ctx))
	}
	return errors.Join(err, h.cache.code.Close(ctx))
}

// Close stops the compile worker, waits for running calls and frees all modules and instances.
// Filters and aggregates that are still open return [ErrClosed] from then on.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	if !h.stopped {
		h.stopped = true
		close(h.quit)
	}
	h.mu.Unlock()
	h.worker.Wait()

	h.permits.dropCached()
	h.permits.life.Lock()
	defer h.permits.life.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	h.instances.drop(func(*pooledInstance) bool { return true })
	err := h.closeRuntimes(ctx)
	h.pool.close()
	h.hugePool.close()
	if err != nil {
		return fmt.Errorf("close the plugin host: %w", err)
	}
	return nil
}

// Forget says that an owner has closed its filters and aggregates and will not come back, so that
// the others get its share at once.
func (h *Host) Forget(owner uint64) { h.permits.forget(owner) }
