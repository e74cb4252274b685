// Package input reads records in the forms that get writes, ndjson and CSV.
//
// It does not know where the records go. It starts no goroutine.
package input

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/record"
)

// Rejected counts lines that were not stored, and keeps the first.
type Rejected struct {
	Count int64
	first string
}

// Add counts a rejected line.
func (r *Rejected) Add(first string) {
	if r.Count++; r.first == "" {
		r.first = first
	}
}

// Err returns an error if any of a number of lines was rejected.
func (r *Rejected) Err(lines int64) error {
	if r.Count == 0 {
		return nil
	}
	return cli.Coded(cli.ExitPartial, fmt.Errorf("%s of %s lines rejected (first: %s)",
		output.Thousands(r.Count), output.Thousands(lines), r.first))
}

// AddRecord takes one record; the payload is reused after it returns.
type AddRecord func(ctx context.Context, r record.Record) error

// FromCSV reads the columns of what get writes, by the rules of an import; where values are as
// declared, also columns of the fields of structs in place of that of values. Names may be nil.
func FromCSV(ctx context.Context, name string, in io.Reader, add AddRecord,
	types quantity.Types, names Names, rejects *Rejected) (written, lines int64, err error) {
	kind, same := types.(quantity.Type)
	if !same {
		kind = quantity.F64 // whose column is that of all that are declared
	}
	opt := csvimport.Options{Types: types}
	if !same {
		in = withFields(in)
	}
	if names != nil {
		opt.Find = func(d record.Dim, cid int32, text string) (int64, error) {
			return names.Find(ctx, d, cid, text)
		}
	}
	m := &csvimport.Mapping{
		CID: &csvimport.Part{Column: "cid"}, MID: &csvimport.Part{Column: "mid"},
		MOID:   &csvimport.Part{Column: "moid"},
		Cap:    &csvimport.Cap{Columns: []string{"cap"}},
		Values: []csvimport.Value{{Column: output.PayloadColumn(kind).Name, ByMOID: true}},
		Type:   kind.String(), Skip: []string{}, Deleted: "deleted", Own: true,
	}
	return FromMapping(ctx, name, in, add, m, opt, rejects)
}

// FromMapping reads a CSV file as a mapping says.
func FromMapping(ctx context.Context, name string, in io.Reader, add AddRecord,
	m *csvimport.Mapping, opt csvimport.Options, rejects *Rejected) (written, lines int64,
	err error) {
	opt.Send = SendTo(add)
	im, err := csvimport.New(m, opt)
	if err != nil {
		return 0, 0, cli.Usage(err)
	}
	err = im.File(ctx, name, in)
	s := im.Summary()
	if rejects.Count = s.Rejected; s.First != nil {
		rejects.first = s.First.Error()
	}
	return s.Records, s.Lines, err
}

// SendTo hands the records of an import on.
func SendTo(add AddRecord) func(context.Context, *record.Batch) error {
	return func(ctx context.Context, b *record.Batch) error {
		for i := range b.Len() {
			if ctx.Err() != nil { // a writer with room for more does not look
				return context.Cause(ctx)
			}
			if err := add(ctx, b.Record(i)); err != nil {
				return err
			}
		}
		return nil
	}
}

// maxJSONLineBytes bounds a line: the largest payload in base64, and its key.
const maxJSONLineBytes = record.MaxPayloadBytes/3*4 + 4096

// FromLines reads ndjson. Names may be nil.
func FromLines(ctx context.Context, name string, source io.Reader, add AddRecord,
	types quantity.Types, names Names, rejects *Rejected) (written, lines int64, err error) {
	return EachLine(name, source, rejects, func(line []byte) error {
		r, err := parseLine(ctx, line, types, names)
		if err != nil {
			return err
		}
		if err := add(ctx, r); err != nil {
			return csvimport.Sending(err)
		}
		return nil
	})
}

// EachLine hands the lines that are not empty to take; an error of take rejects the line.
func EachLine(name string, source io.Reader, rejects *Rejected,
	take func(line []byte) error) (written, lines int64, err error) {
	in := bufio.NewScanner(source)
	in.Buffer(make([]byte, 1<<16), maxJSONLineBytes)
	number := 1
	for ; in.Scan(); number++ {
		line := bytes.TrimSpace(in.Bytes())
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")) // a byte order mark
		}
		if len(line) == 0 {
			continue
		}
		lines++
		err := take(line)
		if sending := (csvimport.SendError{}); errors.As(err, &sending) {
			return written, lines, sending.Unwrap()
		}
		if err != nil {
			rejects.Add(fmt.Sprintf("line %d: %v", number, err))
			continue
		}
		written++
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return written, lines,
			fmt.Errorf("line %d is longer than %d bytes; this line and later lines were not read",
				number, maxJSONLineBytes)
	}
	if err := in.Err(); err != nil && !errors.Is(err, io.EOF) {
		return written, lines, fmt.Errorf("read %s: %w", name, err)
	}
	return written, lines, nil
}

// SkipByteOrderMark leaves out the mark that some programs start a file with.
func SkipByteOrderMark(in io.Reader) io.Reader {
	const mark = "\xef\xbb\xbf"
	buffered := bufio.NewReader(in)
	// An error comes again with the next read.
	if start, _ := buffered.Peek(len(mark)); bytes.Equal(start, []byte(mark)) {
		_, _ = buffered.Discard(len(mark)) // which are buffered
	}
	return buffered
}
