package guest

import "syscall"

// The exports by name. They take and return what ABI.md says; a pointer is an u32 here, so that
// only memory turns it into a slice.

// ended is deferred by what runs an author's code. A panic ends the program, which the host takes
// for a trap, and says what was printed.
func ended() {
	if r := recover(); r != nil {
		print(panicText(r)) // before there is no fuel left
		println(panicPlace(r, 4))
		syscall.Exit(2)
	}
}

//go:wasmexport pentad_abi_1
func exportABI() {}

//go:wasmexport pentad_describe
func exportDescribe() uint32 {
	defer ended()
	return registered.descriptor()
}

//go:wasmexport pentad_alloc
func exportAlloc(size uint32) uint32 { return registered.memory.alloc(size) }

//go:wasmexport pentad_init
func exportInit(params, size uint32) int32 {
	defer ended()
	return registered.init(params, size)
}

//go:wasmexport pentad_filter
func exportFilter(batch, bitmap uint32) int32 {
	defer ended()
	return registered.keep(batch, bitmap)
}

//go:wasmexport pentad_state_init
func exportStateInit(array, n uint32) {
	defer ended()
	registered.states.reset(registered.array(array, n))
}

//go:wasmexport pentad_add
func exportAdd(batch, array uint32) int32 {
	defer ended()
	return registered.add(batch, array)
}

//go:wasmexport pentad_merge
func exportMerge(dst, src, n uint32) int32 {
	defer ended()
	return registered.merge(dst, src, n)
}

//go:wasmexport pentad_finish
func exportFinish(array, n, out, size uint32) int32 {
	defer ended()
	return registered.finish(array, n, out, size)
}

//go:wasmexport pentad_save
func exportSave(state, out, size uint32) int32 {
	defer ended()
	return registered.save(state, out, size)
}

//go:wasmexport pentad_load
func exportLoad(state, in, size uint32) int32 {
	defer ended()
	return registered.load(state, in, size)
}

//go:wasmexport pentad_link_predecessor
func exportLinkPredecessor(state, predecessor uint32) int32 {
	defer ended()
	return registered.linkPredecessor(state, predecessor)
}

//go:wasmexport pentad_error
func exportError() uint64 { return registered.lastError() }
