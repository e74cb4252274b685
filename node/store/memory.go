package store

import (
	"context"

	"github.com/pentad-db/pentad/index"
)

const (
	mostReady  = 128 << 20
	readyShare = 64 // of the memory that the process may have
)

// KeepMemoryReady keeps memory ready for the first records of a burst, until the context ends: a
// 64th of what the process may have, at most 128 MiB, for all its stores together. It is for nodes
// that have a machine to themselves, see [index.KeepReady].
func KeepMemoryReady(ctx context.Context) {
	index.KeepReady(ctx, int64(min(memoryBytes()/readyShare, mostReady)))
}
