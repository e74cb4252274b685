package nodeerror

import "github.com/pentad-db/pentad/sdk/wire"

// Errors that several packages of a node return.
var (
	ErrClosing = Sentinel{Kind: wire.KindUnavailable, Text: "node is closing"}
	// ErrTooLarge is that of an answer as a whole, not of one of its sources.
	ErrTooLarge = Sentinel{Kind: wire.KindTooLarge,
		Text: "the answer does not fit into the memory for it; narrow the box"}
	ErrTooBusy = Sentinel{Kind: wire.KindOverloaded,
		Text: "too many requests at once"}
	ErrNoView = Sentinel{Kind: wire.KindUnavailable,
		Text: "this node has not heard from its cluster yet; try again"}
)

// SourceError is the failure of one of the sources of an answer.
type SourceError struct {
	Source string // a group of this node, or another node
	Err    error
}

func (e *SourceError) Error() string { return e.Source + ": " + e.Err.Error() }

// ToWire returns the error for the protocol: that of the cause, with the source in its text.
func (e *SourceError) ToWire() *wire.Error {
	out := *ToWire(e.Err)
	out.Message = e.Source + ": " + out.Message
	return &out
}

// Unwrap returns the cause.
func (e *SourceError) Unwrap() error { return e.Err }
