// Package guest is the Go half of a plugin: an author writes a type with a few methods over
// columns of records, registers it, and builds a WebAssembly module with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags="-s -w" -o my.wasm .
//
// The main package has nothing but the registration and an empty main, which never runs:
//
//	var _ = guest.RegisterAggregate[state](&sum{})
//
//	func main() {}
//
// States that have no greatest size are those of a [Growing] aggregate, registered with
// RegisterGrowing. Either kind may be a [PredecessorLinker], and any plugin a [Fronting] one. What
// a plugin prints is shown with the error that a query ends in.
//
// The package owns the exports of ABI.md, the memory that they take addresses in and the order of
// their calls. It knows nothing of hosts. Its main types are [Aggregate], [Filter] and [Batch]. It
// starts no goroutines, and a module has one thread. Off WebAssembly everything but the exports
// compiles, so that plugins are vetted and tested like any other code.
//
// Caveats: a module holds one aggregate, one filter, or one of each. What methods are given is
// valid during the call only. Go's garbage collector runs inside of calls and is paid in fuel, so
// methods that see records should not allocate; a Growing aggregate, which has to, asks for small
// batches, whose rows have more fuel. Loops of Go cost 2 to 12 times as much as those of
// C; sdk/plugin/c is for what must be fast.
package guest

import "github.com/pentad-db/pentad/sdk/plugin"

// Description is what a plugin says of itself when it is uploaded.
type Description struct {
	Doc      plugin.Doc
	Need     uint32 // columns: bits plugin.NeedCID to plugin.NeedRuns
	Flags    uint32 // plugin.FlagMergeOrdered, plugin.FlagDependsOnBatches; others are added
	MaxBatch uint32 // most rows of one batch that are welcome; 0 leaves it to the host
}

// Aggregate folds records into states of type S and turns these into results.
//
// S is plain data of fixed size: numbers, arrays and structs of them, no padding, at most 64 KiB.
// Its bytes travel between instances, so they mean the same everywhere.
type Aggregate[S any] interface {
	Describe() Description
	// Init takes the parameters, once, before the other methods but Describe.
	Init(Params) error
	// Reset makes a state that has seen no records.
	Reset(*S)
	// Add folds row i of the batch into the state of its group. It should not allocate.
	Add(b *Batch, states []S) error
	// Merge folds src into dst.
	Merge(dst, src *S) error
	// Finish appends the result of a state to dst: 8 bytes for each result field of the document,
	// or any number of bytes if that has no fields or a repeated one.
	Finish(s *S, dst []byte) ([]byte, error)
}

// PredecessorLinker is what an aggregate of either kind implements in addition, whose states need
// their predecessors. ABI.md says which states these are; plugin.FlagLinksPredecessors is added.
type PredecessorLinker[S any] interface {
	// LinkPredecessor takes from the predecessor of s what s needs. The predecessor stays as it is.
	LinkPredecessor(s, predecessor *S) error
}

// Fronting is what a plugin of any kind has beside, that reads payloads at their front only. A node
// need not decode what lies behind.
type Fronting interface {
	// Front returns how many bytes at the front of payloads are read at most, with the parameters
	// that Init took; 0 for all.
	Front() int
}

// Filter decides which records are kept.
type Filter interface {
	Describe() Description
	// Init takes the parameters, once, before Filter.
	Init(Params) error
	// Filter sets the bits of keep for the rows that are kept; all are clear before. It should not
	// allocate.
	Filter(b *Batch, keep Bitmap) error
}

// RegisterAggregate makes a the module's aggregate. Call it once, from a package-level variable of
// the main package: exports are called as soon as these are set.
func RegisterAggregate[S any](a Aggregate[S]) struct{} {
	registered.setAggregate(newStates(a), a)
	return struct{}{}
}

// RegisterFilter makes f the module's filter. Call it as [RegisterAggregate]. A module that has
// both is described by its aggregate, and both get the same parameters and columns.
func RegisterFilter(f Filter) struct{} {
	registered.setFilter(f)
	return struct{}{}
}
