package wasmhost

import (
	"encoding/binary"
	"slices"

	"github.com/pentad-db/pentad/sdk/plugin"
)

// A plugin in the test assembler that is both kinds: as a filter it keeps records whose payload,
// an int64, is greater than the parameter; as an aggregate it counts and sums payloads.

const (
	descAt  = 1024
	nameAt  = 1100
	errorAt = 1200
	heapAt  = 4096

	globalHeap      = 0
	globalThreshold = 1
)

// descriptor builds the 64 bytes; tests change what they are about.
func descriptor(change func(field func(offset int, v uint32))) []byte {
	b := make([]byte, plugin.DescriptorSize)
	put := func(offset int, v uint32) { binary.LittleEndian.PutUint32(b[offset:], v) }
	put(0, plugin.DescriptorMagic)
	put(4, 1)
	put(8, plugin.KindFilter|plugin.KindAggregate)
	put(12, plugin.NeedGID|plugin.NeedRuns|plugin.NeedData|plugin.NeedOffsets)
	put(16, 16)
	put(20, 8)
	put(24, 16)
	put(28, 8)
	put(40, nameAt)
	put(44, 3)
	if change != nil {
		change(put)
	}
	return b
}

// good returns the plugin; change may replace anything before it is built.
func good(change func(*asm)) []byte {
	a := &asm{
		memoryMin: 1,
		data: map[uint32][]byte{
			descAt: descriptor(nil), nameAt: []byte("sum"), errorAt: []byte("bad params"),
		},
		globals: []code{
			cat(ops(typeI32, 1), i32c(heapAt), ops(opEnd)),
			cat(ops(typeI64, 1), i64c(0), ops(opEnd)),
		},
		funcs: []asmFunc{
			{export: exportABI},
			{export: exportDescribe, results: i32, code: i32c(descAt)},
			{export: exportAlloc, params: i32, results: i32, locals: i32, code: allocCode()},
			{export: exportInit, params: i32 + i32, results: i32, code: initCode()},
			{export: exportFilter, params: i32 + i32, results: i32, locals: i32 + i32 + i32,
				code: filterCode()},
			{export: exportStateInit, params: i32 + i32, code: cat(get(0), i32c(0),
				mul(get(1), i32c(16)), ops(opPrefixMisc, miscMemoryFill, 0))},
			{export: exportAdd, params: i32 + i32, results: i32,
				locals: i32 + i32 + i32 + i32 + i32, code: addCode()},
			{export: exportMerge, params: i32 + i32 + i32, results: i32, code: mergeCode()},
			{export: exportFinish, params: i32 + i32 + i32 + i32, results: i32, code: finishCode()},
			{export: exportError, results: i64, code: i64c(errorAt<<32 | 10)},
		},
	}
	if change != nil {
		change(a)
	}
	return a.bytes()
}

// replace swaps the code of an exported function.
func (a *asm) replace(export string, locals string, c code) {
	i := slices.IndexFunc(a.funcs, func(f asmFunc) bool { return f.export == export })
	a.funcs[i].locals, a.funcs[i].code = locals, c
}

func (a *asm) remove(export string) {
	i := slices.IndexFunc(a.funcs, func(f asmFunc) bool { return f.export == export })
	a.funcs[i].export = ""
}

func allocCode() code {
	const size, p = 0, 1
	end := gget(globalHeap)
	have := cat(ops(opMemorySize, 0), i32c(16), ops(i32Shl))
	return cat(
		gget(globalHeap), set(p),
		cat(add(add(get(p), get(size)), i32c(63)), i32c(-64), ops(i32And), gset(globalHeap)),
		block(
			have, end, ops(i32GeU), brIf(0),
			cat(add(sub(end, have), i32c(65535)), i32c(16), ops(i32ShrU, opMemoryGrow, 0)),
			i32c(-1), ops(i32Ne), brIf(0),
			i32c(0), set(p),
		),
		get(p),
	)
}

func initCode() code {
	const params, length = 0, 1
	return cat(
		when0(get(length), i32c(0)),
		get(length), i32c(8), ops(i32Ne), when(i32c(-1), ops(opReturn)),
		get(params), load8(0), gset(globalThreshold),
		i32c(0),
	)
}

// when0 returns value when x is 0.
func when0(x, value code) code { return cat(x, ops(i32Eqz), when(value, ops(opReturn))) }

func filterCode() code {
	const batch, bitmap, i, n, data = 0, 1, 2, 3, 4
	word := add(get(bitmap), cat(get(i), i32c(6), ops(i32ShrU), i32c(3), ops(i32Shl)))
	return cat(
		get(batch), load(52), i32c(8), ops(i32Ne), when(i32c(-2), ops(opReturn)),
		get(batch), load(4), set(n),
		get(batch), load(44), set(data),
		loop(
			store8(0, word, cat(word, load8(0),
				get(data), load8(0), gget(globalThreshold), ops(i64GtS, opI64ExtendU),
				get(i), ops(opI64ExtendU), ops(i64Shl), ops(i64Or))),
			inc(data, 8), inc(i, 1),
			get(i), get(n), ops(0x49 /* i32.lt_u */), brIf(0),
		),
		i32c(0),
	)
}

// addCode walks either gids or runs.
func addCode() code {
	const batch, states, i, n, data, p, end = 0, 1, 2, 3, 4, 5, 6
	state := func(group code) code { return add(get(states), mul(group, i32c(16))) }
	// fold adds the record at data to the state at address p.
	fold := cat(
		store8(0, get(p), cat(get(p), load8(0), i64c(1), ops(i64Add))),
		store8(8, get(p), cat(get(p), load8(8), get(data), load8(0), ops(i64Add))),
		inc(data, 8), inc(i, 1),
	)
	gid := add(cat(get(batch), load(36)), cat(get(i), i32c(2), ops(i32Shl)))
	run := add(cat(get(batch), load(64)), cat(get(n), i32c(3), ops(i32Shl)))
	return cat(
		get(batch), load(52), i32c(8), ops(i32Ne), when(i32c(-2), ops(opReturn)),
		get(batch), load(44), set(data),
		get(batch), load(60), when(
			loop(
				state(cat(run, load(0))), set(p), run, load(4), set(end),
				loop(fold, get(i), get(end), ops(0x49), brIf(0)),
				inc(n, 1), get(n), get(batch), load(60), ops(0x49), brIf(0),
			),
			i32c(0), ops(opReturn),
		),
		get(batch), load(4), set(n),
		loop(state(cat(gid, load(0))), set(p), fold, get(i), get(n), ops(0x49), brIf(0)),
		i32c(0),
	)
}

func mergeCode() code {
	const dst, src, n = 0, 1, 2
	sum := func(o uint32) code {
		return store8(o, get(dst), cat(get(dst), load8(o), get(src), load8(o), ops(i64Add)))
	}
	return cat(
		loop(sum(0), sum(8), inc(dst, 16), inc(src, 16), inc(n, -1), get(n), brIf(0)),
		i32c(0),
	)
}

func finishCode() code {
	const states, n, out, room = 0, 1, 2, 3
	size := mul(get(n), i32c(16))
	return cat(
		size, get(room), ops(i32GtU), when(i32c(-3), ops(opReturn)),
		get(out), get(states), size, ops(opPrefixMisc, miscMemoryCopy, 0, 0),
		size,
	)
}
