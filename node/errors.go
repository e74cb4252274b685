package node

import (
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/sdk/wire"
)

// retryAfterMs is the retry advice of temporary errors.
const retryAfterMs = nodeerror.RetryAfterMs

var (
	errClosing = nodeerror.Sentinel{Kind: wire.KindUnavailable, Text: "node is closing"}
	errTooBusy = nodeerror.Sentinel{Kind: wire.KindOverloaded,
		Text: "too many requests at once"}
	errTooLarge = nodeerror.Sentinel{Kind: wire.KindTooLarge,
		Text: "the answer does not fit into the memory for it; narrow the box"}
	errNoView = nodeerror.Sentinel{Kind: wire.KindUnavailable,
		Text: "this node has not heard from its cluster yet; try again"}
	errNoSnapshot = nodeerror.Sentinel{Kind: wire.KindNotFound,
		Text: "there is no such snapshot; pentad snapshot ls lists them"}
)

// Kind returns the protocol's kind of an error of a method of Node.
func (n *Node) Kind(err error) wire.Kind { return toWire(err).Kind }

// toWire converts an error for the protocol.
func toWire(err error) *wire.Error { return nodeerror.ToWire(err) }
