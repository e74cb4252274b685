package store

import (
	"context"

	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/diff"
	"github.com/pentad-db/pentad/node/store/scan"
)

// What takes rows and differences, see packages blocks and diff, and what a scan says of itself.
type (
	Sink         = blocks.Sink
	Consumer     = blocks.Consumer
	PartialSink  = blocks.PartialSink
	BlockPartial = blocks.BlockPartial
	ScanStats    = scan.Stats
	DiffSink     = diff.Sink
)

// WithConcurrentScans declares that this number of scans of the process serve one query at the same
// time. Each then uses its share of the processors instead of all.
func WithConcurrentScans(ctx context.Context, scans int) context.Context {
	return scan.WithConcurrent(ctx, scans)
}
