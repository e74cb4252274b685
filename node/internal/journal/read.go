package journal

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/formats"
)

// noFirstLine is the damage of a file without a whole line. It is made with its first one.
func noFirstLine() error { return &Damage{Err: errors.New("the first line is missing")} }

// Damage is something that is wrong with a journal.
type Damage struct {
	Line   int   // from 1 on; 0: it is not of a line that is there
	Offset int64 // in the file
	Err    error
}

// Error implements error.
func (d *Damage) Error() string {
	if d.Line == 0 {
		return d.Err.Error()
	}
	return fmt.Sprintf("line %d: %v", d.Line, d.Err)
}

// Unwrap returns what is wrong.
func (d *Damage) Unwrap() error { return d.Err }

// Texts names the file of damage.
func Texts(name string, all []*Damage) []string {
	texts := make([]string, len(all))
	for i, d := range all {
		texts[i] = name + " " + d.Error()
		if d.Line == 0 {
			texts[i] = name + ": " + d.Error()
		}
	}
	return texts
}

// Content says what a journal holds.
type Content struct {
	Lines  int       // whole ones, damaged ones included
	Size   int64     // bytes of them
	Torn   int       // bytes that follow: of a line that was being appended when the power went
	Damage []*Damage // by line

	unended bool  // the newline of the last line is another byte
	first   int64 // bytes of the first line
	count   Count // that the first line says
}

// Read goes through the lines of a journal; apply is given each with its number, from 1 on, and
// without the newline. What is no trace of a crash is damage: the package comment has the rules.
// Lines that follow a damaged one are applied all the same.
//
// Errors: the *formats.Error of a file of another version; a *Damage of a file that is no journal.
func Read(
	data []byte, format int, apply func(number int, line []byte) error,
) (*Content, error) {
	c := new(Content)
	for c.Size < int64(len(data)) {
		rest := data[c.Size:]
		line, _, whole := bytes.Cut(rest, []byte("\n"))
		if c.Lines == 0 && !whole {
			return nil, noFirstLine()
		}
		if c.Lines == 0 {
			if err := c.readFirst(line, format); err != nil {
				return nil, err
			}
		}
		if !whole {
			if torn(data, int(c.Size)) {
				break
			}
			line, c.unended = rest[:len(rest)-1], true
		}
		err := apply(c.Lines+1, line)
		if err != nil && c.Lines > 0 && torn(data, int(c.Size)) {
			break
		}
		if err == nil && c.unended {
			err = errors.New("it does not end")
		}
		if c.Lines++; err != nil {
			c.Damage = append(c.Damage, &Damage{Line: c.Lines, Offset: c.Size, Err: err})
		}
		c.Size += int64(len(line)) + 1
	}
	if c.Lines == 0 {
		return nil, noFirstLine()
	}
	c.Torn = len(data) - int(c.Size)
	if err := c.count.lost(c.Lines); err != nil {
		c.Damage = append(c.Damage, &Damage{Offset: c.Size, Err: err})
	}
	return c, nil
}

// Header is what the first line of each journal has; journals may add members.
type Header struct {
	Format uint64 `json:"format"`
	// Lines were durable, this one included, when the journal was rewritten.
	Lines Count `json:"lines,omitempty"`
}

// readFirst reads of the first line what each journal has in it. One that is damaged tells nothing,
// and apply says so.
func (c *Content) readFirst(line []byte, format int) error {
	var first Header
	c.first = int64(len(line)) + 1
	if ParseLine(line, &first) != nil {
		return nil
	}
	if e := formats.Of("", "", first.Format, uint64(format)); e != nil {
		return e
	}
	if first.Format != uint64(format) {
		return &Damage{Err: fmt.Errorf("format %d; this version reads format %d", first.Format,
			format)}
	}
	c.count = first.Lines
	return nil
}
