package csvimport

import (
	"fmt"
	"strconv"
	"strings"
)

// RejectError is a line, or a record of several lines, that could not be stored.
type RejectError struct {
	File   string
	Line   int
	Last   int    // line; above Line where a quoted field goes over several
	Kind   string // fields, header, quotes, key, time, fold, value, size: for counting
	Reason string
}

// Error implements error.
func (e *RejectError) Error() string { return e.File + " " + e.lines() + ": " + e.Reason }

func (e *RejectError) lines() string {
	if e.Last > e.Line {
		return fmt.Sprintf("lines %d to %d", e.Line, e.Last)
	}
	return fmt.Sprintf("line %d", e.Line)
}

// maxGroups is how many groups of rejected lines a summary has: what fits a message.
const maxGroups = 3

// Rejects are rejected lines, in groups of lines that follow each other and have one kind.
type Rejects struct {
	groups []RejectError // the first, with the reason of its first line
	varied [maxGroups]bool
	more   int64 // groups that are left out
	last   RejectError
}

// add takes the next rejected line.
func (r *Rejects) add(e *RejectError) {
	last := &r.last
	goesOn := last.File == e.File && last.Kind == e.Kind && last.Last+1 == e.Line
	*last = *e
	switch n := len(r.groups); {
	case goesOn && r.more == 0:
		group := &r.groups[n-1]
		r.varied[n-1] = r.varied[n-1] || group.Reason != e.Reason
		group.Last = e.Last
	case goesOn:
	case n < maxGroups:
		r.groups = append(r.groups, *e)
	default:
		r.more++
	}
}

// String lists the first groups: "a.csv lines 500 to 599: 3 fields, expected 5".
func (r *Rejects) String() string {
	var texts []string
	file := ""
	for i := range r.groups {
		group := &r.groups[i]
		text := group.lines() + ": "
		if r.varied[i] {
			text += "the first: "
		}
		if text += group.Reason; group.File != file {
			text = group.File + " " + text
		}
		file = group.File
		texts = append(texts, text)
	}
	switch {
	case r.more == 1:
		texts = append(texts, "1 more place")
	case r.more > 1:
		texts = append(texts, strconv.FormatInt(r.more, 10)+" more places")
	}
	return strings.Join(texts, "; ")
}

// SendError is an error that is not of the line that is read, and ends the reading.
type SendError struct{ error }

// Unwrap returns what is wrong.
func (e SendError) Unwrap() error { return e.error }

// Sending marks an error that is not of the line that is read.
func Sending(err error) error { return SendError{err} }

// reject notes a rejected line, and ends the import if an error that is not of the line led there.
func (im *Importer) reject(e *RejectError, text []byte) error {
	if im.failed != nil {
		return im.failed
	}
	count := int64(e.Last - e.Line + 1)
	im.summary.Rejected += count
	im.summary.Reasons[e.Kind] += count
	im.summary.Rejects.add(e)
	if im.summary.First == nil {
		im.summary.First = e
	}
	if im.rejects != nil {
		reason := e.Reason
		if e.Last > e.Line {
			reason = fmt.Sprintf("%s (lines %d to %d)", reason, e.Line, e.Last)
		}
		row := []string{e.File, strconv.Itoa(e.Line), reason, string(text)}
		if err := im.rejects.Write(row); err != nil {
			return fmt.Errorf("write the rejects file: %w", err)
		}
	}
	if im.opt.Strict {
		return e
	}
	return nil
}
