package store

import (
	"errors"
	"fmt"
)

// Errors that callers branch on.
var (
	// ErrClosed is returned by every call after Close began.
	ErrClosed = errors.New("store is closed")
	// ErrOverloaded means that sealing cannot keep up with writing; nothing was stored, retry
	// later.
	ErrOverloaded = errors.New("store is overloaded: unsealed rows fill their memory budget")
	// ErrSequenceTooOld means that a batch's sequence lies so far below the newest one of its
	// writer that the store no longer knows whether it was stored.
	ErrSequenceTooOld = errors.New("sequence is too old: its first answer is no longer known")
	// ErrTooManyWriters means that the table of writers is full.
	ErrTooManyWriters = errors.New("too many writers at once")
	// ErrTooManyVersions means that the versions of the readings in a box take more memory than
	// one answer may.
	ErrTooManyVersions = errors.New("too many versions for one answer; name fewer readings")
	// ErrFailed means that the disk failed while an event was written, so that it may be in force
	// or not. Nothing is stored until the store is opened again.
	ErrFailed = errors.New("store has failed; open it again")
	// ErrIsCopy means that a store is a copy of another, and takes what that one has and nothing
	// else.
	ErrIsCopy = errors.New("this is a copy of another store, which takes no changes of its own; " +
		"change the other one, or release the copy")
	// ErrNotCopied means that a range of another store does not fit this one.
	ErrNotCopied = errors.New("range cannot be copied")
	// ErrBelow means that a store has rows that were put below its horizon, which a range of acqs
	// that was copied before lacks.
	ErrBelow = errors.New("this store holds records that were put below its horizon, which a " +
		"copy would miss; take a backup or a snapshot of it instead")
	// ErrKnown means that a row is stored with the five parts of another and a different payload.
	ErrKnown = errors.New("another payload is stored with these five parts, which name one " +
		"record; give it an acq of its own")
	// ErrNoCopy means that there is nothing to release.
	ErrNoCopy = errors.New("this is no copy of another store but one of its own; there is " +
		"nothing to release")
)

// GapError means that a put is to follow a batch of its writer that is not the newest one that the
// store knows; nothing was stored. 0 is none: the store does not know the writer.
type GapError struct{ Previous, Newest uint64 }

// Error implements error.
func (e *GapError) Error() string {
	return fmt.Sprintf("nothing is stored: the batch is to follow sequence %d of its writer, and "+
		"the newest one here is %d", e.Previous, e.Newest)
}
