package store

import "github.com/pentad-db/pentad/node/store/blocks"

// What takes the rows of a scan, see package blocks.
type (
	Sink         = blocks.Sink
	Consumer     = blocks.Consumer
	PartialSink  = blocks.PartialSink
	BlockPartial = blocks.BlockPartial
)
