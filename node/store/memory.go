package store

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

// KeepMemoryReady keeps memory ready for the first records of a burst, until the context ends: a
// 64th of what the process may have, at most 128 MiB, for all its stores together. It is for nodes
// that have a machine to themselves, see [index.KeepReady].
//
// Besides, it lets a 256th, at most 32 MiB, of garbage lie that would else be collected: rows are
// not in Go's heap, which is small, so it doubles after each few batches.
func KeepMemoryReady(ctx context.Context, may memory.Total) {
	// Counted as heap, and never touched, so no memory is behind it.
	unused := make([]byte, may.Part(garbageShare, mostGarbage))
	index.KeepReady(ctx, may.Part(readyShare, mostReady))
	runtime.KeepAlive(unused)
}
