package store

import (
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/devices"
	"github.com/pentad-db/pentad/node/store/diff"
	"github.com/pentad-db/pentad/node/store/scan"
)

// What takes rows and differences, see packages blocks and diff, what a scan says of itself, and
// what devices have for a key.
type (
	Sink         = blocks.Sink
	Consumer     = blocks.Consumer
	PartialSink  = blocks.PartialSink
	BlockPartial = blocks.BlockPartial
	ScanStats    = scan.Stats
	DiffSink     = diff.Sink
	DeviceValues = devices.Values
)
