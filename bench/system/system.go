// Package system says what a database must do to be measured: take batches durably, settle, and
// answer the queries of a workload with rows.
//
// It knows no database and no workload. Its main type is [System].
package system

import (
	"context"

	"github.com/pentad-db/pentad/sdk/record"
)

// System is a database under measurement. One goroutine uses it; of pentad, another may put.
type System interface {
	// Put stores a stamped batch; on return it is as durable as Kind.Durability says.
	Put(ctx context.Context, b *record.Batch) error
	// Settle brings everything into the form in which it is queried: flushed, compacted, analysed.
	// More may be put afterwards, and settled again.
	Settle(ctx context.Context) error
	// Ask answers a normalized query. Rows go to take, some thousands at a time, keys and payloads;
	// with WantCount only their number is wanted and take is not called. It returns the number of
	// rows. An [UnsupportedError] says that this system cannot answer it.
	Ask(ctx context.Context, q *Query, take func(b *record.Batch)) (uint64, error)
	// Close ends the system; its files stay for weighing, and for being opened again.
	Close() error
}

// Rester is a system that goes on by itself after Settle when nothing comes, and lets one wait for
// the end of it. Its queries are measured afterwards.
type Rester interface {
	Rest(ctx context.Context) error
}

// Describer is a system that selects devices by what is known of them. Describe comes before the
// first put.
type Describer interface {
	Describe(ctx context.Context, cid int32, devices []Device) error
}

// Versioned is a system that knows its version, because it is no Go module.
type Versioned interface{ Version() string }

// Explained is a system that knows what its last answer cost.
type Explained interface{ Cost() Cost }

// Cost is what an answer cost besides time.
type Cost struct {
	Blocks   uint64 // that were opened
	Examined uint64 // rows of these
}

// Want is what is asked for of the records in a box.
type Want uint8

// Wants. Except with WantCount an answer is rows.
const (
	WantRows   Want = iota // every record
	WantCount              // only how many there are
	WantLast               // of each series (cid, mid, moid) in a box of those the greatest cap
	WantAbove              // the records whose number is above Query.Above
	WantGroups             // one row per group: see Query.By
)

// Func is what is computed of the numbers of a group.
type Func uint8

// Functions.
const (
	FuncMax Func = iota
	FuncMean
	FuncSum
)

// Query asks for records of a box, or for what is made of them. With a selector of devices, the box
// has the same devices by their ids: what the oracle and a system without descriptions are asked.
type Query struct {
	record.Query
	Want  Want
	Above float64 // with WantAbove
	// Func is computed per group, with WantGroups. The row of a group has the parts that By groups
	// by, in CapNs the start of the bucket, zero in all others, and a float64 as payload.
	Func Func
	By   record.GroupBy
}

// Number is the first field of every payload: a float64, little-endian.
const (
	NumberBytes = 8
	// StatusBytes is the size of payloads that have a number and a status word, a uint64.
	StatusBytes = 16
)

// Shape is what is known of a workload before it is loaded: what an engineer would know who chooses
// a schema.
type Shape struct {
	PayloadBytes int // NumberBytes or StatusBytes
	Records      int64
	Series       int                          // distinct (cid, mid, moid)
	Extent       [record.NumDims]record.Range // of what is stored
	Versions     bool                         // readings are corrected: a key comes more than once
}

// Status reports whether payloads have a status word.
func (s Shape) Status() bool { return s.PayloadBytes >= StatusBytes }

// Kind is a system that can be opened.
type Kind struct {
	Name       string // "pebble-3"
	About      string // schema and settings, for the report
	Durability Durability
	Embedded   bool   // it runs in this process: its memory is this process's
	NoAcq      bool   // its rows do not say when they were acquired
	Module     string // the Go module that it comes with, if any: its version is the system's
	// Open makes a new database in an empty folder, or opens what an earlier one left there.
	Open func(ctx context.Context, dir string, shape Shape) (System, error)
}

// Durability is what Put waits for.
type Durability struct {
	Class DurabilityClass
	About string // "WAL synced per batch"
}

// DurabilityClass groups what can be compared.
type DurabilityClass string

// Classes.
const (
	// Synced survives a power failure: the disk has confirmed it.
	Synced DurabilityClass = "synced"
	// Written survives the end of the process, not a power failure: the kernel has it.
	Written DurabilityClass = "written"
	// Buffered is lost at the sudden end of the process, for some seconds.
	Buffered DurabilityClass = "buffered"
)

// MissingError says what a system needs that this machine has not; the run goes on without it.
type MissingError string

// Error implements error.
func (e MissingError) Error() string { return string(e) }

// UnsupportedError says what a system cannot do; the run goes on and says so.
type UnsupportedError string

// Error implements error.
func (e UnsupportedError) Error() string { return string(e) }

// TakeRows is about how many rows take gets at once.
const TakeRows = 2048
