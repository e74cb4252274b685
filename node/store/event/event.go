// Package event is the vocabulary of what changes many rows as one entry: erases, purges, steps of
// retentions and splits, and how the manifest and commands encode them.
//
// It does not know who stores events, nor which rows are there. Its main type is [Event]. It starts
// no goroutine.
package event

import (
	"fmt"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/sdk/record"
)

// Kind says what an event does to the rows that it concerns. Numbers are for ever.
type Kind uint8

// Kinds of events.
const (
	Erase     Kind = 1 // hides them from the views that resolve versions
	Purge     Kind = 2 // hides them from every view and removes them from disk
	Retention Kind = 3 // as a purge, by a policy; its place is taken by the next step
	// Split is as a purge of the devices that a replica does not hold after a split. No reader is
	// told of it: they are in another group.
	Split Kind = 4
)

// Purges reports whether its rows are to leave the disk until it is done.
func (k Kind) Purges() bool { return k == Purge || k == Split }

// String returns the name that the kind has in JSON and on the command line.
func (k Kind) String() string {
	switch k {
	case Erase:
		return "erase"
	case Purge:
		return "purge"
	case Retention:
		return "retention"
	}
	return fmt.Sprintf("event-%d", uint8(k))
}

// Event concerns the rows of a box with an acq below its own.
type Event struct {
	AcqNs   int64
	Kind    Kind
	Box     record.Box
	Done    bool   // of a purge: no file holds such a row any more
	Removed uint64 // of a purge: rows that were removed from segments and heads

	// Removal is of a retention, when the reader asked for it.
	Removal *RemovalForecast

	// FromSlot and ToSlot are set where stores of a cluster are merged: the event is only of
	// devices with these slots. Both 0: of all.
	FromSlot, ToSlot uint32

	KeptSlots slots.Range // of Split: the group keeps devices in these slots, the others are hidden
}

// RemovalForecast says what becomes of the rows that a retention hides.
type RemovalForecast struct {
	Rows, Bytes uint64 // about how many are stored, and what they take in the files
	// NextNs is when the first of them may be removed, about: until then an undo shows them again.
	// It is in the past when that has come, and moves on while nodes do not run. 0: the policy is
	// held.
	NextNs int64
	// DoneNs is when the bytes of all are gone from the files of this store, at the latest;
	// snapshots and backups keep theirs. 0: the policy is held.
	DoneNs int64
}
