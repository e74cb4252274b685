package kernels

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/wasmhost"
)

// fuel is more than a call here uses.
const fuel = 1 << 40

// Resident is an instance with a batch in its memory. One goroutine uses it.
type Resident struct {
	runtime wazero.Runtime
	module  api.Module
	run     api.Function
	nothing api.Function
	fuel    api.MutableGlobal // nil without metering
	batch   uint32
	out     uint32 // the state, or the bitmap
	result  int
	stack   [2]uint64
}

// NewResident instantiates a kernel, with the counters of fuel and depth that a host adds or as it
// was built, and places the payloads of a batch of one group.
func NewResident(ctx context.Context, k *Kernel, data []byte, metered bool) (*Resident, error) {
	wasm := Wasm(k.Name)
	if metered {
		var err error
		if wasm, err = wasmhost.Instrument(ctx, wasm); err != nil {
			return nil, err
		}
	}
	r := &Resident{runtime: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler()),
		result: k.Result}
	err := r.start(ctx, k, wasm, data)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("kernel %s: %w", k.Name, err), r.Close(ctx))
	}
	return r, nil
}

func (r *Resident) start(ctx context.Context, k *Kernel, wasm, data []byte) (err error) {
	if r.module, err = r.runtime.Instantiate(ctx, wasm); err != nil {
		return err
	}
	if g := r.module.ExportedGlobal(wasmhost.FuelGlobal); g != nil {
		r.fuel = g.(api.MutableGlobal)
		r.fuel.Set(fuel)
	}
	r.nothing = r.module.ExportedFunction("pentad_abi_1")
	params, err := r.place(ctx, k.Params)
	if err != nil {
		return err
	}
	status, err := r.module.ExportedFunction("pentad_init").Call(ctx, uint64(params),
		uint64(len(k.Params)))
	if err != nil || int32(status[0]) < 0 {
		return fmt.Errorf("pentad_init: %v, %w", status, err)
	}
	if err := r.placeBatch(ctx, data); err != nil {
		return err
	}
	if r.out, err = r.place(ctx, make([]byte, k.Result)); err != nil {
		return err
	}
	r.run = r.module.ExportedFunction("pentad_filter")
	if k.Filter {
		return nil
	}
	r.run = r.module.ExportedFunction("pentad_add")
	_, err = r.module.ExportedFunction("pentad_state_init").Call(ctx, uint64(r.out), 1)
	return err
}

// place puts bytes into memory of their own.
func (r *Resident) place(ctx context.Context, bytes []byte) (uint32, error) {
	at, err := r.module.ExportedFunction("pentad_alloc").Call(ctx, uint64(len(bytes)))
	if err != nil {
		return 0, err
	}
	if at[0] == 0 || !r.module.Memory().Write(uint32(at[0]), bytes) {
		return 0, fmt.Errorf("no memory for %d bytes", len(bytes))
	}
	return uint32(at[0]), nil
}

// placeBatch puts the header, one run and the payloads into memory.
func (r *Resident) placeBatch(ctx context.Context, data []byte) error {
	n := uint32(len(data) / 8)
	at, err := r.place(ctx, data)
	if err != nil {
		return err
	}
	run := binary.LittleEndian.AppendUint32(make([]byte, 4), n) // of group 0, up to n
	runs, err := r.place(ctx, run)
	if err != nil {
		return err
	}
	header := make([]byte, plugin.BatchHeaderSize)
	for field, v := range map[int]uint32{0: plugin.BatchMagic, 4: n,
		12: plugin.NeedData | plugin.NeedRuns, 44: at, 48: uint32(len(data)), 52: 8, 56: 1, 60: 1,
		64: runs} {
		binary.LittleEndian.PutUint32(header[field:], v)
	}
	r.batch, err = r.place(ctx, header)
	return err
}

// Run calls the plugin once, as a host does: with a context of its own, which ends nothing.
func (r *Resident) Run() error {
	r.stack = [2]uint64{uint64(r.batch), uint64(r.out)}
	if r.fuel != nil {
		r.fuel.Set(fuel)
	}
	if err := r.run.CallWithStack(context.Background(), r.stack[:]); err != nil {
		return err
	}
	if r.stack[0] != 0 {
		return fmt.Errorf("status %d", int32(r.stack[0]))
	}
	return nil
}

// Nothing calls a function of the plugin that does nothing.
func (r *Resident) Nothing() error {
	if r.fuel != nil {
		r.fuel.Set(fuel)
	}
	return r.nothing.CallWithStack(context.Background(), r.stack[:])
}

// Result returns the state or the bitmap; it is valid until the next call.
func (r *Resident) Result() ([]byte, error) {
	out, ok := r.module.Memory().Read(r.out, uint32(r.result))
	if !ok {
		return nil, errors.New("the result lies outside of the memory")
	}
	return out, nil
}

// Close frees the instance and its code.
func (r *Resident) Close(ctx context.Context) error { return r.runtime.Close(ctx) }
