package guest

// The exports by name. They take and return what ABI.md says; a pointer is an u32 here, so that
// only memory turns it into a slice.

//go:wasmexport pentad_abi_1
func exportABI() {}

//go:wasmexport pentad_describe
func exportDescribe() uint32 { return registered.descriptor() }

//go:wasmexport pentad_alloc
func exportAlloc(size uint32) uint32 { return registered.memory.alloc(size) }

//go:wasmexport pentad_init
func exportInit(params, size uint32) int32 { return registered.init(params, size) }

//go:wasmexport pentad_filter
func exportFilter(batch, bitmap uint32) int32 { return registered.keep(batch, bitmap) }

//go:wasmexport pentad_state_init
func exportStateInit(array, n uint32) { registered.states.reset(registered.array(array, n)) }

//go:wasmexport pentad_add
func exportAdd(batch, array uint32) int32 { return registered.add(batch, array) }

//go:wasmexport pentad_merge
func exportMerge(dst, src, n uint32) int32 { return registered.merge(dst, src, n) }

//go:wasmexport pentad_finish
func exportFinish(array, n, out, size uint32) int32 {
	return registered.finish(array, n, out, size)
}

//go:wasmexport pentad_save
func exportSave(state, out, size uint32) int32 { return registered.save(state, out, size) }

//go:wasmexport pentad_load
func exportLoad(state, in, size uint32) int32 { return registered.load(state, in, size) }

//go:wasmexport pentad_error
func exportError() uint64 { return registered.lastError() }
