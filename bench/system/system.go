// Package system says what a database must do to be measured: take batches durably, settle, and
// answer the queries of a workload with rows.
//
// It knows no database. Its main type is [System].
package system

import (
	"context"

	"github.com/pentad-db/pentad/sdk/record"
)

// System is a database under measurement. One goroutine uses it.
type System interface {
	// Put stores a stamped batch; on return it is on disk.
	Put(ctx context.Context, b *record.Batch) error
	// Settle brings everything into the form in which it is queried: flushed, compacted, analysed.
	Settle(ctx context.Context) error
	// Ask answers a normalised query. Rows go to take, some thousands at a time, keys and payloads;
	// with count only their number is wanted and take is not called. It returns the number of rows.
	Ask(ctx context.Context, q *record.Query, count bool, take func(b *record.Batch)) (uint64,
		error)
	// Close ends the system; its files stay for weighing.
	Close() error
}

// Kind is a system that can be opened.
type Kind struct {
	Name       string // "pebble-3"
	About      string // schema and settings, for the report
	Durability string // what Put waits for
	Open       func(ctx context.Context, dir string) (System, error)
}

// MissingError says what a system needs that this machine has not; the run goes on without it.
type MissingError string

// Error implements error.
func (e MissingError) Error() string { return string(e) }

// TakeRows is about how many rows take gets at once.
const TakeRows = 2048
