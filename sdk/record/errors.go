package record

import "fmt"

// Reason says what is wrong with a value. Reasons are stable; clients may branch on them.
type Reason string

// Reasons of an [InvalidError].
const (
	ReservedMaximum Reason = "reserved maximum"
	OutOfRange      Reason = "out of range"
	EmptyRange      Reason = "empty range"
	ReversedRange   Reason = "reversed range"
	TooLarge        Reason = "too large"
	TooMany         Reason = "too many"
	Inconsistent    Reason = "inconsistent"
	Syntax          Reason = "syntax"
)

// InvalidError reports a key, batch or query that pentad refuses: which part, why, and what to do.
type InvalidError struct {
	Part   string // "cid", "payload", "limit" ...
	Reason Reason
	Row    int // row of the batch, -1 where there is none
	Detail string
}

// Error implements error: "row 3: cid: reserved maximum: 2147483647 cannot be stored".
func (e *InvalidError) Error() string {
	if e.Row >= 0 {
		return fmt.Sprintf("row %d: %s: %s: %s", e.Row, e.Part, e.Reason, e.Detail)
	}
	return fmt.Sprintf("%s: %s: %s", e.Part, e.Reason, e.Detail)
}

func invalid(part string, reason Reason, format string, args ...any) *InvalidError {
	return &InvalidError{Part: part, Reason: reason, Row: -1, Detail: fmt.Sprintf(format, args...)}
}
