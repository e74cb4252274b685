package wal

import (
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/durable"
)

// ErrFailed wraps every error of a log after a write or sync of it failed, but for a write that the
// disk had no space for: what is on disk is then unknown, and nothing more is written until the log
// is opened again.
var ErrFailed = errors.New("log failed")

// fail makes the log fail for good; of several errors the first one stays.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = fmt.Errorf("%w: write %s: %w", ErrFailed, l.Path(l.number), err)
	}
	return l.failed
}

// Failure returns the error that every call returns for ever, an ErrFailed; nil for none.
func (l *Log) Failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// NoteNoSpace remembers a lack of space until an append finds space: for an append of some bytes,
// or for what must be written elsewhere before it. It returns the error; others are not noted.
func (l *Log) NoteNoSpace(err error, size int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if durable.IsNoSpace(err) && l.failed == nil {
		l.noSpace, l.noSpaceBytes = err, size
		select {
		case l.noSpaceSignal <- struct{}{}:
		default:
		}
	}
	return err
}

// NoSpace returns the ErrNoSpace that the last append met and how many bytes it had; nil when there
// was space for it.
func (l *Log) NoSpace() (appendBytes int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.noSpaceBytes, l.noSpace
}

// NoSpaceSignal delivers when an append has met a lack of space since it was last received from.
func (l *Log) NoSpaceSignal() <-chan struct{} { return l.noSpaceSignal }
