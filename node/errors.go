package node

import (
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/writes"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Errors that programs tell apart with errors.Is, besides those of packages store, record and
// wasmhost; [Node.Kind] tells of every error whether it is worth another try.
var (
	ErrClosing       error = nodeerror.ErrClosing // the node is being closed
	ErrNoSpace             = durable.ErrNoSpace   // the disk is full: nothing of a put was stored
	ErrUnknownCursor       = cursors.ErrUnknown
	ErrCursorBehind        = cursors.ErrBehind
)

// DamageError is the error of bytes on disk that are not what was written.
type DamageError = durable.CorruptError

// SourceError is the failure of one of the sources of an answer.
type SourceError = nodeerror.SourceError

// PutError is the error of a put that some groups stored and others did not, or may not have. If it
// is retried with the same writer and sequence, each row is stored once.
type PutError = writes.PutError

// Kind returns the protocol's kind of an error of a method of Node.
func (n *Node) Kind(err error) wire.Kind { return toWire(err).Kind }

// toWire converts an error for the protocol.
func toWire(err error) *wire.Error { return nodeerror.ToWire(err) }
