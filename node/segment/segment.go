// Package segment owns the bytes of pentad's append-only files: the log, which makes puts durable,
// and sealed segments, immutable files of clustered blocks. FORMAT.md describes both.
//
// It knows nothing of shards, versions or queries: log entries carry opaque data, and a sealed
// segment is told the order of its rows and the index sections that it keeps. Its main types are
// [Log], [Sealed] and [Block]. It starts no goroutines.
package segment

import (
	"errors"
	"fmt"
)

// ErrLogFailed wraps every error of a log after a write or sync of it failed, but for a write that
// the disk had no space for: what is on disk is then unknown, and nothing more is written until the
// log is opened again.
var ErrLogFailed = errors.New("log failed")

// CorruptError reports bytes that are not what was written, and where.
type CorruptError struct {
	File   string
	Offset int64 // where the damaged unit starts, in bytes from the start of the file; WholeFile
	Reason string
	Err    error // cause, may be nil
}

// WholeFile is the offset of damage of which nothing says where in the file it is.
const WholeFile = -1

// Error implements error.
func (e *CorruptError) Error() string {
	text := e.File + ": damaged"
	if e.Offset != WholeFile {
		text += fmt.Sprintf(" at offset %d", e.Offset)
	}
	if text += ": " + e.Reason; e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }
