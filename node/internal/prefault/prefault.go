// Package prefault keeps memory ready for bursts of rows.
//
// It does not know who uses it. Its only function is [Keep], which runs on its caller's goroutine.
package prefault

import (
	"context"
	"runtime"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/memory"
)

const (
	mostReady  = 128 << 20
	readyShare = 64 // of the memory that the process may have

	mostGarbage  = 32 << 20
	garbageShare = 256
)

// Keep keeps memory pre-faulted for bursts of records until the context ends: a
// 64th of the memory that the process may use, at most 128 MiB, shared by all its stores. It is for
// nodes on a machine of their own, see [index.KeepPrefaulted].
//
// Besides, it lets a 256th, at most 32 MiB, of garbage lie that would else be collected: rows are
// not in Go's heap, which is small, so it doubles after each few batches.
func Keep(ctx context.Context, may memory.Total) {
	// Counted as heap, and never touched, so no memory is behind it.
	unused := make([]byte, may.Part(garbageShare, mostGarbage))
	index.KeepPrefaulted(ctx, may.Part(readyShare, mostReady))
	runtime.KeepAlive(unused)
}
