package wasmhost

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

// The functions of wasi that the Go runtime imports, all deterministic: the clock stands still
// but for sleeps, which take no time; random numbers start from one seed; there are no
// arguments, no environment and no files; what the program prints goes into error messages.

const (
	wasiModule = "wasi_snapshot_preview1"

	wasiOK      = 0
	wasiBadFile = 8
	wasiFault   = 21
	wasiInvalid = 28

	wasiStartNs       = 946_684_800_000_000_000 // 2000-01-01; 0 would make the Go runtime give up
	maxLogBytes       = 2 << 10                 // a Go panic says what it is in its first lines
	maxWriteVectors   = 64
	maxSubscriptions  = 64
	subscriptionBytes = 48
	eventBytes        = 32
)

var errHostFuel = errors.New("out of fuel in a host function")

// wasiState is what the stubs keep for one instance.
type wasiState struct {
	meter   *meter
	clockNs uint64
	random  uint64
	log     []byte
}

type wasiKey struct{}

func newWASIState(m *meter) *wasiState {
	return &wasiState{meter: m, clockNs: wasiStartNs, random: 0x9e3779b97f4a7c15}
}

// restore makes all but the fuel what another state is.
func (w *wasiState) restore(from *wasiState) {
	w.clockNs, w.random = from.clockNs, from.random
	w.log = append(w.log[:0], from.log...)
}

// trimLog leaves space for what the next call prints, as that explains a failure: of what was
// printed before, the end stays.
func (w *wasiState) trimLog() {
	if long := len(w.log) - maxLogBytes/2; long > 0 {
		w.log = append(w.log[:0], w.log[long:]...)
	}
}

// message is what the program printed, above all during the last call.
func (w *wasiState) message() string { return cleanText(w.log) }

// charge charges a call that handles that many bytes.
func (w *wasiState) charge(bytes uint32) {
	if !w.meter.spend(wasiCallPrice + int64(bytes>>bulkShift)) {
		panic(errHostFuel) // wazero makes it the error of the guest call
	}
}

// wasiCall is one call of a stub; arguments that are addresses are checked by memory.
type wasiCall struct {
	state  *wasiState
	memory api.Memory
	args   []uint64
}

func (c *wasiCall) arg(i int) uint32 { return uint32(c.args[i]) }

type wasiFunction struct {
	params []api.ValueType
	call   func(*wasiCall) uint32
}

const (
	wasi32 = api.ValueTypeI32
	wasi64 = api.ValueTypeI64
)

var wasiFunctions = map[string]*wasiFunction{
	"args_get":            {[]api.ValueType{wasi32, wasi32}, wasiNothing},
	"args_sizes_get":      {[]api.ValueType{wasi32, wasi32}, wasiNoStrings},
	"environ_get":         {[]api.ValueType{wasi32, wasi32}, wasiNothing},
	"environ_sizes_get":   {[]api.ValueType{wasi32, wasi32}, wasiNoStrings},
	"clock_time_get":      {[]api.ValueType{wasi32, wasi64, wasi32}, wasiClock},
	"fd_close":            {[]api.ValueType{wasi32}, wasiNoFile},
	"fd_fdstat_get":       {[]api.ValueType{wasi32, wasi32}, wasiNoFile},
	"fd_fdstat_set_flags": {[]api.ValueType{wasi32, wasi32}, wasiNoFile},
	"fd_prestat_get":      {[]api.ValueType{wasi32, wasi32}, wasiNoFile},
	"fd_prestat_dir_name": {[]api.ValueType{wasi32, wasi32, wasi32}, wasiNoFile},
	"fd_write":            {[]api.ValueType{wasi32, wasi32, wasi32, wasi32}, wasiWrite},
	"poll_oneoff":         {[]api.ValueType{wasi32, wasi32, wasi32, wasi32}, wasiPoll},
	"random_get":          {[]api.ValueType{wasi32, wasi32}, wasiRandom},
	"sched_yield":         {nil, wasiNothing},
	"proc_exit":           {[]api.ValueType{wasi32}, nil}, // returns nothing: see provideWASI
}

// provideWASI instantiates the stubs in a runtime.
func provideWASI(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder(wasiModule)
	for name, f := range wasiFunctions {
		results := []api.ValueType{wasi32}
		run := func(ctx context.Context, module api.Module, stack []uint64) {
			state := ctx.Value(wasiKey{}).(*wasiState)
			state.charge(0)
			call := wasiCall{state: state, memory: module.Memory(), args: stack}
			stack[0] = uint64(f.call(&call))
		}
		if f.call == nil {
			results, run = nil, wasiExit
		}
		b = b.NewFunctionBuilder().
			WithGoModuleFunction(api.GoModuleFunc(run), f.params, results).Export(name)
	}
	_, err := b.Instantiate(ctx)
	return err
}

func wasiExit(_ context.Context, _ api.Module, stack []uint64) {
	panic(sys.NewExitError(uint32(stack[0])))
}

func wasiNothing(*wasiCall) uint32 { return wasiOK }

func wasiNoFile(*wasiCall) uint32 { return wasiBadFile }

func wasiNoStrings(c *wasiCall) uint32 {
	if !c.memory.WriteUint32Le(c.arg(0), 0) || !c.memory.WriteUint32Le(c.arg(1), 0) {
		return wasiFault
	}
	return wasiOK
}

func wasiClock(c *wasiCall) uint32 {
	if !c.memory.WriteUint64Le(c.arg(2), c.state.clockNs) {
		return wasiFault
	}
	return wasiOK
}

func wasiRandom(c *wasiCall) uint32 {
	size := c.arg(1)
	c.state.charge(size)
	dst, ok := c.memory.Read(c.arg(0), size)
	if !ok {
		return wasiFault
	}
	for len(dst) >= 8 {
		binary.LittleEndian.PutUint64(dst, c.state.nextRandom())
		dst = dst[8:]
	}
	for i := range dst {
		dst[i] = byte(c.state.nextRandom())
	}
	return wasiOK
}

// nextRandom is SplitMix64.
func (w *wasiState) nextRandom() uint64 {
	w.random += 0x9e3779b97f4a7c15
	z := w.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// wasiWrite takes all bytes and keeps the first ones.
func wasiWrite(c *wasiCall) uint32 {
	file, vectors, count := c.arg(0), c.arg(1), c.arg(2)
	if file != 1 && file != 2 {
		return wasiBadFile
	}
	if count > maxWriteVectors {
		return wasiInvalid
	}
	written := uint32(0)
	for i := range count {
		v, ok := c.memory.Read(vectors+8*i, 8)
		if !ok {
			return wasiFault
		}
		text, ok := c.memory.Read(binary.LittleEndian.Uint32(v), binary.LittleEndian.Uint32(v[4:]))
		if !ok {
			return wasiFault
		}
		space := max(0, maxLogBytes-len(c.state.log))
		c.state.log = append(c.state.log, text[:min(space, len(text))]...)
		written += uint32(len(text))
	}
	if !c.memory.WriteUint32Le(c.arg(3), written) {
		return wasiFault
	}
	return wasiOK
}

// wasiPoll reports every event as having happened. Sleeping moves the clock and takes no time.
func wasiPoll(c *wasiCall) uint32 {
	in, out, count := c.arg(0), c.arg(1), c.arg(2)
	if count == 0 || count > maxSubscriptions {
		return wasiInvalid
	}
	for i := range count {
		s, ok := c.memory.Read(in+i*subscriptionBytes, subscriptionBytes)
		if !ok {
			return wasiFault
		}
		kind, absolute := s[8], s[40]&1 != 0
		if timeout := binary.LittleEndian.Uint64(s[24:]); kind == 0 && !absolute {
			c.state.clockNs += timeout
		} else if kind == 0 {
			c.state.clockNs = max(c.state.clockNs, timeout)
		}
		var event [eventBytes]byte
		copy(event[:8], s[:8])
		event[10] = kind
		if !c.memory.Write(out+i*eventBytes, event[:]) {
			return wasiFault
		}
	}
	if !c.memory.WriteUint32Le(c.arg(3), count) {
		return wasiFault
	}
	return wasiOK
}
