package store

import "errors"

// Errors that callers branch on.
var (
	// ErrClosed is returned by every call after Close began.
	ErrClosed = errors.New("store is closed")
	// ErrOverloaded means that sealing cannot keep up with writing; nothing was stored, retry
	// later.
	ErrOverloaded = errors.New("store is overloaded: rows that are not sealed yet fill their " +
		"memory; try again later")
	// ErrTooManyVersions means that the versions of the readings in a box take more memory than
	// one answer may.
	ErrTooManyVersions = errors.New("too many versions for one answer; name fewer readings")
	// ErrFailed means that the disk failed while an event was written, so that it may be in force
	// or not. Nothing is stored until the store is opened again.
	ErrFailed = errors.New("store has failed; open it again (restart the node)")
	// ErrIsCopy means that a store is a copy of another, and takes what that one has and nothing
	// else.
	ErrIsCopy = errors.New("this is a copy of another store, which takes no changes of its own; " +
		"change the other one, or promote the copy")
	// ErrNotCopied means that a range of another store does not fit this one.
	ErrNotCopied = errors.New("range cannot be copied")
	// ErrBelow means that a store has rows that were put below its horizon, which a range of acqs
	// that was copied before lacks.
	ErrBelow = errors.New("this store holds backdated records, which a copy would miss; take a " +
		"backup or a snapshot of it instead")
	// ErrOtherPayload means that a row is stored with the five parts of another and a different
	// payload.
	ErrOtherPayload = errors.New("a record with these five parts is stored with another payload; " +
		"give this one another acq")
	// ErrNoCopy means that there is nothing to promote.
	ErrNoCopy = errors.New("this store is not a copy of another one; there is nothing to promote")
)
