package wasmhost

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/hostile again")

// TestHostileFiles keeps the modules in testdata/hostile, which package node runs in a server, in
// step with the assembler. The first part of a name is the export that misbehaves.
func TestHostileFiles(t *testing.T) {
	f := func(name string, change func(*asm)) {
		t.Helper()
		path, want := filepath.Join("testdata", "hostile", name+".wasm"), good(change)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what is built here (go test -update writes it), %v", path, err)
		}
	}
	body := func(name, export string, c code) {
		t.Helper()
		f(name, func(a *asm) { a.replace(export, "", c) })
	}
	f("good", nil)
	f("growing", growing)
	f("save-too-long", func(a *asm) {
		growing(a)
		a.replace(exportSave, "", i32c(maxSavedSize+1))
	})
	body("describe-spin", exportDescribe, spin)
	body("init-spin", exportInit, spin)
	body("filter-spin", exportFilter, spin)
	body("add-spin", exportAdd, spin)
	body("merge-spin", exportMerge, spin)
	body("finish-spin", exportFinish, spin)
	body("add-grow", exportAdd, cat(loop(i32c(1), ops(opMemoryGrow, 0, dropOp), br(0)), i32c(0)))
	body("add-write-outside", exportAdd, cat(store(0, i32c(-4), i32c(1)), i32c(0)))
	body("filter-write-outside", exportFilter, cat(store(0, i32c(-4), i32c(1)), i32c(0)))
	body("alloc-outside", exportAlloc, i32c(-64))
	f("alloc-twice", func(a *asm) {
		a.memoryMin = 16
		a.replace(exportAlloc, "", i32c(4096))
	})
	body("init-branches", exportInit,
		cat(block(bytes.Repeat(cat(get(0), brIf(0)), 3000)), i32c(0)))
	f("add-recursion", func(a *asm) {
		a.funcs = append(a.funcs, asmFunc{code: call(uint32(len(a.funcs)))})
		a.replace(exportAdd, "", cat(call(uint32(len(a.funcs)-1)), i32c(0)))
	})
	f("start-spin", func(a *asm) {
		a.funcs = append(a.funcs, asmFunc{code: loop(br(0))})
		a.start = len(a.funcs)
	})
	body("finish-too-long", exportFinish, i32c(0x7fffffff))
	body("finish-too-short", exportFinish, i32c(32))
	body("add-trap", exportAdd, ops(opUnreachable))
	body("add-status", exportAdd, i32c(-123))
	f("exports-missing", func(a *asm) { a.remove(exportInit) })
	f("memory-too-large", func(a *asm) { a.memoryMin = 257 })
}
