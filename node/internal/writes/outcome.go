package writes

import (
	"context"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/puts"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// rowOutcome is what is known of a row of a failed put.
type rowOutcome uint8

const (
	rowStored rowOutcome = iota
	rowNotStored
	rowUnknown
)

// PutError is the error of a put that some groups stored and others did not, or may not have. If it
// is retried with the same writer and sequence, each row is stored once.
type PutError struct {
	outcomes []rowOutcome // by row
	writer   store.WriterSeq
	Err      error // of the first group that failed
}

func (e *PutError) Error() string {
	count := [3]int{}
	for _, f := range e.outcomes {
		count[f]++
	}
	return fmt.Sprintf("%d of %d records are stored, %d are not, and of %d it is unknown: %v",
		count[rowStored], len(e.outcomes), count[rowNotStored], count[rowUnknown], e.Err)
}

// Writer returns the writer and sequence to retry the put with.
func (e *PutError) Writer() store.WriterSeq { return e.writer }

// Unwrap returns the cause.
func (e *PutError) Unwrap() error { return e.Err }

// ToWire returns the error for the protocol; rows are numbered from 1 on.
func (e *PutError) ToWire() *wire.Error {
	return e.WireOf(func(row int) int { return row + 1 })
}

// WireOf returns the error with the kind of its cause and the outcome of its rows; number returns
// the number that the client knows a row by.
func (e *PutError) WireOf(number func(row int) int) *wire.Error {
	var sets [3]record.RangeSet
	for i, f := range e.outcomes {
		n := int64(number(i))
		if last := len(sets[f]) - 1; last >= 0 && sets[f][last].To == n {
			sets[f][last].To++
		} else {
			sets[f] = append(sets[f], record.Range{From: n, To: n + 1})
		}
	}
	out := *nodeerror.ToWire(e.Err)
	out.Message = e.Error()
	return wire.NewOutcome(&out, api.Outcome{Stored: wire.FormatRanges(sets[rowStored]),
		NotStored: wire.FormatRanges(sets[rowNotStored]),
		Unknown:   wire.FormatRanges(sets[rowUnknown]), Key: puts.FormatKey(e.writer)})
}

// outcomeOf returns the outcome of the rows of a group by its error; again says that they were sent
// before without an answer.
func outcomeOf(err error, again bool) rowOutcome {
	switch {
	case err == nil:
		return rowStored
	case again, errors.Is(err, replica.ErrUnknown), errors.Is(err, wal.ErrFailed),
		errors.Is(err, store.ErrFailed), errors.Is(err, writers.ErrTooOld),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return rowUnknown
	}
	return rowNotStored
}

// set sets the outcome of some rows.
func (e *PutError) set(rows []uint32, f rowOutcome) {
	for _, i := range rows {
		e.outcomes[i] = f
	}
}

// RestOf is the error of a body under a writer, of which the rows before a put that failed are
// stored and those behind it are not. Under a key of the client, which may have sent them before
// without seeing the answer, these are unknown.
func RestOf(
	err error, w store.WriterSeq, before, failed, rows int, keyed bool,
) *PutError {
	e := &PutError{outcomes: make([]rowOutcome, rows), writer: w, Err: err}
	for i := before; i < before+failed; i++ {
		e.outcomes[i] = outcomeOf(err, false)
	}
	for i := before + failed; i < rows; i++ {
		e.outcomes[i] = rowNotStored
	}
	var some *PutError
	if errors.As(err, &some) {
		e.Err = some.Err
		copy(e.outcomes[before:], some.outcomes)
	}
	for i, f := range e.outcomes {
		if keyed && f == rowNotStored && !errors.Is(err, ErrOtherBody) {
			e.outcomes[i] = rowUnknown
		}
	}
	return e
}
