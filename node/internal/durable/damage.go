package durable

import "fmt"

// CorruptError reports bytes that are not what was written, and where.
type CorruptError struct {
	File   string
	Offset int64 // where the damaged unit starts, in bytes from the start of the file; WholeFile
	Reason string
	Err    error // cause, may be nil
}

// WholeFile is the offset of damage of which nothing says where in the file it is.
const WholeFile = -1

// Error implements error.
func (e *CorruptError) Error() string {
	text := e.File + ": damaged"
	if e.Offset != WholeFile {
		text += fmt.Sprintf(" at offset %d", e.Offset)
	}
	if text += ": " + e.Reason; e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }
