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
	"hash/crc32"
)

// ErrLogFailed wraps every error of a log after a write or sync of it failed, but for a write that
// the disk had no room for: what is on disk is then unknown, and nothing more is written until the
// log is opened anew.
var ErrLogFailed = errors.New("log failed")

// CorruptError reports bytes that are not what was written, and where.
type CorruptError struct {
	File   string
	Offset int64 // where the damaged unit starts, in bytes from the start of the file
	Reason string
	Err    error // cause, may be nil
}

// Error implements error.
func (e *CorruptError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: damaged at offset %d: %s: %v", e.File, e.Offset, e.Reason, e.Err)
	}
	return fmt.Sprintf("%s: damaged at offset %d: %s", e.File, e.Offset, e.Reason)
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// update is the checksum of what sum is of, and b behind it.
func update(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

// checksum2 is the checksum of a and b one after the other.
func checksum2(a, b []byte) uint32 {
	return crc32.Update(crc32.Checksum(a, castagnoli), castagnoli, b)
}
