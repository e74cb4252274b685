package wasmhost

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/plugins"

	"github.com/pentad-db/pentad/sdk/plugin"
)

// rewrite takes a module through what Load does up to compiling.
func rewrite(ctx context.Context, wasm []byte, lim *limits) (*instrumentation, error) {
	if err := lim.checkSize(wasm); err != nil {
		return nil, err
	}
	m, err := parseModule(wasm, lim)
	if err != nil {
		return nil, err
	}
	functions, err := m.scanAll(lim)
	if err != nil {
		return nil, err
	}
	if err := validate(ctx, wasm, lim); err != nil {
		return nil, err
	}
	return m.instrument(functions, 1<<40, maxDepth), nil
}

// twin is one module in one runtime: plain, rewritten, and rewritten with fuel in slices that are
// used up all the time.
type twin struct {
	plain, metered, sliced api.Module
	granted                *int64 // fuel of the last one, beside what it began with
}

// testSlice is less than what one turn of most loops takes.
const testSlice = 3

func newTwin(t testing.TB, r wazero.Runtime, wasm []byte) *twin {
	t.Helper()
	lim := pluginLimits(16)
	out, err := rewrite(t.Context(), wasm, &lim)
	if err != nil {
		t.Fatal(err)
	}
	start := func(wasm []byte) api.Module {
		config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
		m, err := r.InstantiateWithConfig(t.Context(), wasm, config)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	w := &twin{plain: start(wasm), metered: start(out.wasm), granted: new(int64)}
	pool := newMemoryPool(false)
	t.Cleanup(pool.close)
	l := &lease{pool: pool, budget: &budget{limit: 1 << 30}, limit: out.most,
		most: out.most}
	w.sliced, err = r.InstantiateWithConfig(experimental.WithMemoryAllocator(t.Context(), l),
		out.wasm, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatal(err)
	}
	fuel := w.sliced.ExportedGlobal(exportFuel).(api.MutableGlobal)
	fuel.Set(testSlice)
	l.refuels = func() (uint64, bool) {
		left := int64(fuel.Get())
		if left >= 0 {
			return 0, false
		}
		*w.granted += testSlice - left
		fuel.Set(testSlice)
		return uint64(w.sliced.Memory().Size()), true
	}
	return w
}

func (w *twin) close(ctx context.Context) {
	_ = w.plain.Close(ctx)   // reports exit codes only
	_ = w.metered.Close(ctx) // as well
	_ = w.sliced.Close(ctx)
}

// slicedFuel is what the one with fuel in slices has used.
func (w *twin) slicedFuel() int64 {
	return *w.granted - int64(w.sliced.ExportedGlobal(exportFuel).Get())
}

// write writes into the memory of all.
func (w *twin) write(at uint32, b []byte) {
	for _, m := range []api.Module{w.plain, w.metered, w.sliced} {
		m.Memory().Write(at, b)
	}
}

// call calls an export of all and fails where results, traps or memories differ. A call of the
// rewritten ones costs fuel, as much in slices as at once, and gives all of its depth back.
func (w *twin) call(t testing.TB, name string, args ...uint64) ([]uint64, error) {
	t.Helper()
	fuel := w.metered.ExportedGlobal(exportFuel)
	depth := w.metered.ExportedGlobal(exportDepth)
	fuelBefore, depthBefore := fuel.Get(), depth.Get()
	slicedBefore := w.slicedFuel()
	want, wantErr := w.plain.ExportedFunction(name).Call(t.Context(), args...)
	got, gotErr := w.metered.ExportedFunction(name).Call(t.Context(), args...)
	if fmt.Sprint(got) != fmt.Sprint(want) || (gotErr == nil) != (wantErr == nil) ||
		wantErr != nil && firstLine(gotErr) != firstLine(wantErr) {
		t.Fatalf("%s%x: %x, %v; rewritten %x, %v", name, args, want, wantErr, got, gotErr)
	}
	again, againErr := w.sliced.ExportedFunction(name).Call(t.Context(), args...)
	if fmt.Sprint(got) != fmt.Sprint(again) || (gotErr == nil) != (againErr == nil) ||
		gotErr != nil && firstLine(gotErr) != firstLine(againErr) {
		t.Fatalf("%s%x: %x, %v; with fuel in slices %x, %v", name, args, got, gotErr, again,
			againErr)
	}
	a, _ := w.plain.Memory().Read(0, w.plain.Memory().Size())
	for _, m := range []api.Module{w.metered, w.sliced} {
		if b, _ := m.Memory().Read(0, m.Memory().Size()); !bytes.Equal(a, b) {
			t.Fatalf("%s%x: memories differ", name, args)
		}
	}
	used, sliced := int64(fuelBefore-fuel.Get()), w.slicedFuel()-slicedBefore
	if used != sliced {
		t.Fatalf("%s%x: %d of fuel at once, %d in slices", name, args, used, sliced)
	}
	if fuel.Get() >= fuelBefore {
		t.Fatalf("%s%x: fuel %d became %d", name, args, fuelBefore, fuel.Get())
	}
	if wantErr == nil && depth.Get() != depthBefore {
		t.Fatalf("%s%x: depth %d became %d", name, args, depthBefore, depth.Get())
	}
	return want, wantErr
}

func newRuntime(t testing.TB) wazero.Runtime {
	t.Helper()
	// One page more than modules have, see memorySection.
	r := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigCompiler().
		WithCoreFeatures(api.CoreFeaturesV2).WithMemoryLimitPages(17))
	t.Cleanup(func() { r.Close(t.Context()) })
	return r
}

// Random modules compute what they compute without fuel, down to the last byte of memory.
func TestRewrittenComputesTheSame(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	counted, trapped, loops := 0, 0, 0
	for i := range uint64(400) {
		g := newGenerator(seed + i)
		wasm := g.module()
		lim := pluginLimits(16)
		out, err := rewrite(t.Context(), wasm, &lim)
		if err != nil {
			t.Fatalf("module %d: %v", seed+i, err)
		}
		counted += min(out.counted, 1)
		loops += g.loops
		r := newRuntime(t)
		w := newTwin(t, r, wasm)
		for f := range g.funcs {
			for range 3 {
				args := make([]uint64, len(g.funcs[f].params))
				for k, kind := range []byte(g.funcs[f].params) {
					if args[k] = g.r.Uint64() >> g.r.IntN(64); kind == typeI32 {
						args[k] &= 1<<32 - 1
					}
				}
				if _, err := w.call(t, g.funcs[f].export, args...); err != nil {
					trapped++
				}
			}
		}
		w.close(t.Context())
	}
	if counted < 40 || loops < 400 || trapped == 0 {
		t.Errorf("only %d modules recurse, %d loops, %d traps", counted, loops, trapped)
	}
}

// The standard plugins do, too, on batches that the host did not check.
func TestRewrittenPlugins(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := random(seed)
	for _, p := range plugins.Standard() {
		w := newTwin(t, newRuntime(t), p.Wasm)
		alloc := func(b []byte) uint64 {
			at, err := w.call(t, exportAlloc, uint64(len(b)+64))
			if err != nil {
				t.Fatal(err)
			}
			w.write(uint32(at[0]), b)
			return at[0]
		}
		var params []byte // of those that do not take none at all
		for _, v := range map[string][]uint64{
			"between":      {0, 0, 0, 0x4059 << 48, 1},
			"gaps":         {5, 0, 100, 0},
			"histogram":    {0, 0, 0, 0x4059 << 48, 10},
			"readable":     {0, 0, 0},
			"threshold":    {0, 0, 0, 0},
			"sealed-stats": textWords("7:000000 40 0 8"),
			"sealed-group": textWords("7:000000 40 0 8", 32),
			"sealed-equal": textWords("7:000000 40 0 32 8"),
			"sealed-range": textWords("7:000000 40 0 32 8"),
		}[p.Name] {
			params = binary.LittleEndian.AppendUint64(params, v)
		}
		size := uint64(len(params))
		if status, _ := w.call(t, exportInit, alloc(params), size); int32(status[0]) < 0 {
			t.Fatalf("%s: status %d", p.Name, status[0])
		}
		data := make([]byte, 4096)
		for i := range data {
			data[i] = byte(rnd.Uint32())
		}
		column, room := alloc(data), alloc(make([]byte, 64<<10))
		for range 30 {
			header := make([]byte, plugin.BatchHeaderSize)
			for _, field := range []int{36, 40, 44, 64} {
				put := column + 8*uint64(rnd.IntN(10))
				binary.LittleEndian.PutUint32(header[field:], uint32(put))
			}
			for field, most := range map[int]int{4: 100, 52: 20, 56: 3, 60: 3} {
				binary.LittleEndian.PutUint32(header[field:], uint32(rnd.IntN(most)))
			}
			name := exportAdd
			if w.plain.ExportedFunction(exportFilter) != nil {
				name = exportFilter
			}
			w.call(t, name, alloc(header), room)
		}
		if name := exportMerge; w.plain.ExportedFunction(name) != nil {
			w.call(t, name, room, room+16384, 4)
			w.call(t, exportFinish, room, 4, column, 4096)
		}
		w.close(t.Context())
	}
}

// FuzzModule takes any bytes for a module: nothing panics, and what is valid before it is rewritten
// is valid after.
func FuzzModule(f *testing.F) {
	for _, p := range plugins.Standard() {
		f.Add(p.Wasm)
	}
	f.Add(good(nil))
	f.Add(good(func(a *asm) { a.start = 1 }))
	for seed := range uint64(20) {
		f.Add(newGenerator(seed).module())
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		_, _ = importsWASIChecked(wasm)
		for _, lim := range []limits{pluginLimits(16), goLimits(16)} {
			out, err := rewrite(t.Context(), wasm, &lim)
			if err != nil {
				continue
			}
			lim.sizeBytes, lim.bodyBytes, lim.memoryPages = 1<<30, 1<<30, 17
			err = validate(t.Context(), out.wasm, &lim)
			if err != nil && !strings.Contains(err.Error(), exportFuel) {
				t.Fatalf("the rewritten module is not valid: %v", err)
			}
		}
	})
}

// importsWASIChecked is importsWASI as compile calls it, after checkSize.
func importsWASIChecked(wasm []byte) (bool, error) {
	lim := goLimits(16)
	if err := lim.checkSize(wasm); err != nil {
		return false, err
	}
	return importsWASI(wasm)
}

// FuzzRewritten is [TestRewrittenComputesTheSame] with seeds that are kept.
func FuzzRewritten(f *testing.F) {
	f.Add(uint64(1), uint64(0))
	f.Fuzz(func(t *testing.T, seed, arg uint64) {
		g := newGenerator(seed)
		w := newTwin(t, newRuntime(t), g.module())
		defer w.close(t.Context())
		for i := range g.funcs {
			args := make([]uint64, len(g.funcs[i].params))
			for k := range args {
				args[k] = arg & (1<<32 - 1)
			}
			w.call(t, g.funcs[i].export, args...)
		}
	})
}

// Segments of data are joined where that changes nothing, in whatever order they come.
func TestJoinedData(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine")
	const seed = 21
	r := random(seed)
	lim := pluginLimits(16)
	runtime := wazero.NewRuntime(t.Context())
	defer runtime.Close(t.Context())
	joined := 0
	for i := range 300 {
		var segments []code
		at := uint32(0)
		for range r.IntN(40) {
			content := make([]byte, r.IntN(100))
			for j := range content {
				content[j] = byte(r.Uint32())
			}
			if at += uint32(r.IntN(2 * maxJoinedZeros)); i%3 == 0 && r.IntN(20) == 0 {
				at -= min(at, 100) // over another one
			}
			segments = append(segments, cat(code{0}, i32c(int32(at)), ops(opEnd),
				named(string(content))))
			at += uint32(len(content))
		}
		if i%2 == 0 {
			r.Shuffle(len(segments), func(a, b int) {
				segments[a], segments[b] = segments[b], segments[a]
			})
		}
		wasm := good(func(a *asm) {
			a.raw = map[byte][]byte{secData: vector(segments)}
			if n := len(segments); n > 0 && i%5 == 0 { // one is named by its number
				a.raw[secDataCount] = appendU32(nil, uint32(n))
				a.funcs = append(a.funcs, asmFunc{code: cat(i32c(0), i32c(0), i32c(0),
					appendU32(ops(opPrefixMisc, miscMemoryInit), uint32(n-1)), ops(0))})
			}
		})
		m, err := parseModule(wasm, &lim)
		if err != nil {
			t.Fatal(err)
		}
		section := reader{src: m.joinedData()}
		if section.u32() < uint32(len(segments)) {
			joined++
		}
		w := newTwin(t, runtime, wasm)
		w.call(t, exportABI) // compares the memories
		w.close(t.Context())
		if t.Failed() {
			t.Fatalf("module %d, seed %d", i, seed)
		}
	}
	if joined < 100 {
		t.Errorf("of few modules, %d, segments were joined", joined)
	}
}

// textWords are the parameters of a plugin of which the first is a text.
func textWords(text string, others ...uint64) []uint64 {
	size := uint64(len(text))
	words := append([]uint64{size<<32 | 8*uint64(1+len(others))}, others...)
	for padded := text + strings.Repeat("\x00", -len(text)&7); padded != ""; padded = padded[8:] {
		words = append(words, binary.LittleEndian.Uint64([]byte(padded)))
	}
	return words
}
