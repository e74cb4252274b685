package wasmhost

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// ErrClosed is what every call returns once the host, module, filter or aggregate is closed, and
// what a filter or aggregate returns after a call of its guest has failed once.
var ErrClosed = errors.New("plugin host: closed")

// ErrorKind says what a plugin did wrong. Callers may branch on it.
type ErrorKind uint8

// Kinds of an [Error].
const (
	Refused ErrorKind = 1 // the module was not accepted; nothing of it runs
	Trap    ErrorKind = 2 // the guest trapped: division by zero, access out of bounds, unreachable
	Fuel    ErrorKind = 3 // the guest used up its budget of instructions or of call depth
	Memory  ErrorKind = 4 // the guest, or the host for it, needs more memory than the limit
	Status  ErrorKind = 5 // the guest returned a negative status
	Output  ErrorKind = 6 // the guest returned a pointer, length or result that cannot be right
	Limit   ErrorKind = 7 // the caller asks for more than the host or the module allows
	Busy    ErrorKind = 8 // other instances have the memory that all have together: ask again
)

var errorKindNames = [...]string{
	Refused: "refused", Trap: "trap", Fuel: "fuel", Memory: "memory",
	Status: "status", Output: "output", Limit: "limit", Busy: "busy",
}

// String returns the name of the kind, as used in metrics.
func (k ErrorKind) String() string {
	if int(k) < len(errorKindNames) && k > 0 {
		return errorKindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// Error reports that a module was refused or that a guest call failed.
type Error struct {
	Plugin   string   // name from the descriptor; empty while it is not known
	Digest   [32]byte // SHA-256 of the module as uploaded
	Export   string   // export that was called; empty when none was
	Kind     ErrorKind
	Status   int32  // negative status of the guest, with Kind Status
	Reason   string // what went wrong and, where one exists, the way out
	FuelUsed uint64 // fuel that the failed call used; 0 when none was called
	// MemoryBytes is what the instance had; 0 when there was none.
	MemoryBytes uint64
	Message     string // the guest's own words: pentad_error, and for Go guests its error output

	// Rows is how many records the failed call got, from First to Last; 0 when it got none. With
	// Exact, First and Last are the one record that the plugin fails at.
	Rows        int
	First, Last record.Key
	Exact       bool
}

// Error implements error:
//
//	plugin "stats" (sha256 1a2b3c4d…): pentad_add: integer divide by zero
//
// The error of parameters that the plugin refused is in the plugin's own words: the caller made the
// mistake.
//
//	top-k: k must be 1 to 1000
func (e *Error) Error() string {
	if e.Kind == Status && e.Status == plugin.StatusParams && e.Message != "" && e.Plugin != "" {
		return e.Plugin + ": " + e.Message
	}
	var b strings.Builder
	b.WriteString("plugin ")
	if e.Plugin != "" {
		b.WriteString(strconv.Quote(e.Plugin) + " ")
	}
	b.WriteString("(sha256 " + hex.EncodeToString(e.Digest[:4]) + "…): ")
	if e.Export != "" {
		b.WriteString(e.Export + ": ")
	}
	if e.Kind == Refused {
		b.WriteString("refused: ")
	}
	b.WriteString(e.Reason)
	if e.Message != "" {
		b.WriteString(": the plugin says " + strconv.Quote(e.Message))
	}
	switch {
	case e.Exact:
		b.WriteString("; at the record " + keyText(e.First))
	case e.Rows > 0:
		b.WriteString("; in " + grouped(uint64(e.Rows)) + " records from " + keyText(e.First) +
			" to " + keyText(e.Last))
	}
	return b.String()
}

func keyText(k record.Key) string {
	return fmt.Sprintf("cid %d, mid %d, moid %d, cap %s", k.CID, k.MID, k.MOID,
		record.FormatNs(k.CapNs))
}
