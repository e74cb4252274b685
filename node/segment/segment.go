// Package segment owns the bytes of pentad's append-only files: the log, which makes puts durable,
// and sealed segments, immutable files of clustered blocks. FORMAT.md describes both.
//
// It knows nothing of shards, versions or queries: log entries carry opaque data, and a sealed
// segment is told the order of its rows and the index sections that it keeps. Its main types are
// [Log], [Sealed] and [Block]. It starts no goroutines.
package segment

import "errors"

// ErrLogFailed wraps every error of a log after a write or sync of it failed, but for a write that
// the disk had no space for: what is on disk is then unknown, and nothing more is written until the
// log is opened again.
var ErrLogFailed = errors.New("log failed")
