package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// putFlags are the flags of one record, and the form of many on stdin.
type putFlags struct {
	cid, mid, moid, cap, value string
	kind, format               string
}

func (a *app) putCommand() *cobra.Command {
	var p putFlags
	c := &cobra.Command{
		Use:   "put",
		Short: "Store one record given by flags, or many from stdin",
		Long: `Store one record given by flags, or many from stdin.

A line of ndjson is {"cid":1,"mid":7,"moid":1,"cap":"2026-11-21T09:45:00Z","value":21.5}; cap may
be whole ns, and "payload" (base64) may stand for "value". CSV has a header with cid, mid, moid,
cap and value (payload with --type base64, payload_hex with --type hex). What get writes, put
reads: acq is left aside, because pentad gives a new one, and "deleted":true deletes, as true in a
column deleted does. Each run stores all of its input; pentad import, of a file, goes on where a run
before it was interrupted.`,
		Args: noCommand,
		Example: `  pentad put --cid 1 --mid 7 --moid 1 --value 21.5
  pentad get --cid 1 --type f64 -o ndjson | pentad put --addr 127.0.0.1:5151
  pentad put --format csv --type i64 < readings.csv`,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, name := range []string{"cid", "mid", "moid", "cap", "value"} {
				if c.Flags().Changed(name) {
					return a.putOne(c.Context(), &p)
				}
			}
			return a.putMany(c.Context(), &p)
		},
	}
	flags := c.Flags()
	flags.StringVar(&p.cid, "cid", "", "tenant")
	flags.StringVar(&p.mid, "mid", "", "device")
	flags.StringVar(&p.moid, "moid", "", "quantity")
	flags.StringVar(&p.cap, "cap", "now", "capture time")
	flags.StringVar(&p.value, "value", "", "the payload, of --type")
	flags.StringVar(&p.kind, "type", "f64", "values are "+output.PayloadTypes)
	flags.StringVar(&p.format, "format", "ndjson", "form of stdin: ndjson or csv")
	complete(c, "type", "f64", "i64", "text", "hex", "base64")
	complete(c, "format", "ndjson", "csv")
	return c
}

// putOne stores one record and shows the acquisition time that it got.
func (a *app) putOne(ctx context.Context, p *putFlags) error {
	key, payload, err := p.record(a)
	if err != nil {
		return usageError{err}
	}
	var b record.Batch
	b.Append(key, payload)
	if err := b.Validate(); err != nil {
		return err
	}
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	reply, err := db.Put(ctx, &b, [16]byte{}, 0)
	if err != nil {
		return err
	}
	return a.one([]output.Column{right("written"), right("rejected"), left("acq")},
		output.Count(reply.Records), output.Count(0), output.Time(reply.FirstAcqNs))
}

// record reads the flags of one record.
func (p *putFlags) record(a *app) (key record.Key, payload []byte, err error) {
	if key, err = p.key(a); err != nil {
		return key, nil, err
	}
	kind, err := output.ParsePayloadType(p.kind)
	if err != nil {
		return key, nil, err
	}
	if payload, err = kind.AppendPayload(nil, p.value); err != nil {
		return key, nil, fmt.Errorf("--value: %w", err)
	}
	return key, payload, nil
}

// key reads the flags of a key.
func (p *putFlags) key(a *app) (key record.Key, err error) {
	whole := func(d record.Dim, text string) int64 {
		if err != nil {
			return 0
		}
		n, parseErr := strconv.ParseInt(text, 10, 64)
		switch {
		case text == "":
			err = fmt.Errorf("--%s is missing", d)
		case parseErr != nil:
			err = fmt.Errorf("--%s %q is no whole number", d, text)
		case n < d.Min() || n >= d.Max():
			err = fmt.Errorf("--%s %d lies outside %d to %d", d, n, d.Min(), d.Max()-1)
		}
		return n
	}
	key.CID = int32(whole(record.CID, p.cid))
	key.MID = whole(record.MID, p.mid)
	key.MOID = int32(whole(record.MOID, p.moid))
	if err != nil {
		return key, err
	}
	if key.CapNs, err = moment(a, p.cap); err != nil {
		return key, fmt.Errorf("--cap: %w", err)
	}
	return key, nil
}

// moment reads a time that must be one moment: a date would be a guess of midnight.
func moment(a *app, text string) (int64, error) {
	span, err := timeparse.Parse(text, a.now())
	if err == nil && span.ToNs != span.FromNs+1 {
		err = fmt.Errorf("%q is more than a moment; add the time of day", text)
	}
	return span.FromNs, err
}

// putMany stores what stdin holds.
func (a *app) putMany(ctx context.Context, p *putFlags) error {
	kind, err := output.ParsePayloadType(p.kind)
	if err != nil {
		return usageError{err}
	}
	if p.format != "ndjson" && p.format != "csv" {
		return usagef("--format %q is unknown; write ndjson or csv", p.format)
	}
	if a.stdinTerminal {
		return usagef("nothing to store: give --cid --mid --moid --value, or pipe records in")
	}
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	in := a.stdinUntil(ctx)
	defer in.Close()
	w := db.NewWriter(client.WriterOptions{})
	var written, lines int64
	var rejects rejected
	if p.format == "csv" {
		written, lines, err = recordsFromCSV(ctx, "stdin", in, w.AddRecord, kind, &rejects)
	} else {
		written, lines, err = recordsFromLines(ctx, "stdin", in, w.AddRecord, kind, &rejects)
	}
	if closeErr := w.Close(ctx); err == nil {
		err = closeErr
	}
	if err != nil {
		a.note("stored at least %s records before the end", output.Thousands(w.Stats().Records))
		return err
	}
	if err := a.one([]output.Column{right("written"), right("rejected")}, output.Count(written),
		output.Count(rejects.count)); err != nil {
		return err
	}
	return rejects.err(lines)
}

// rejected counts lines that were not stored, and keeps the first.
type rejected struct {
	count int64
	first string
}

func (r *rejected) add(first string) {
	if r.count++; r.first == "" {
		r.first = first
	}
}

func (r *rejected) err(lines int64) error {
	if r.count == 0 {
		return nil
	}
	return codeError{exitPartial, fmt.Errorf("%s of %s lines rejected (first: %s)",
		output.Thousands(r.count), output.Thousands(lines), r.first)}
}

// addRecord takes one record; the payload is reused after it returns.
type addRecord func(ctx context.Context, r record.Record) error

// recordsFromCSV reads the columns of what get writes, by the rules of an import.
func recordsFromCSV(ctx context.Context, name string, in io.Reader, add addRecord,
	kind output.PayloadType, rejects *rejected) (written, lines int64, err error) {
	m := &csvimport.Mapping{
		CID: &csvimport.Part{Column: "cid"}, MID: &csvimport.Part{Column: "mid"},
		MOID:   &csvimport.Part{Column: "moid"},
		Cap:    &csvimport.Cap{Columns: []string{"cap"}},
		Values: []csvimport.Value{{Column: kind.Column().Name}}, // what get writes for the type
		Type:   kind.String(), Skip: []string{}, Deleted: "deleted", Own: true,
	}
	return recordsFromMapping(ctx, name, in, add, m, csvimport.Options{}, rejects)
}

// recordsFromMapping reads a CSV file as a mapping says.
func recordsFromMapping(ctx context.Context, name string, in io.Reader, add addRecord,
	m *csvimport.Mapping, opt csvimport.Options, rejects *rejected) (written, lines int64,
	err error) {
	opt.Send = sendTo(add)
	im, err := csvimport.New(m, opt)
	if err != nil {
		return 0, 0, usageError{err}
	}
	err = im.File(ctx, name, in)
	s := im.Summary()
	if rejects.count = s.Rejected; s.First != nil {
		rejects.first = s.First.Error()
	}
	return s.Records, s.Lines, err
}

// sendTo hands the records of an import on.
func sendTo(add addRecord) func(context.Context, *record.Batch) error {
	return func(ctx context.Context, b *record.Batch) error {
		for i := range b.Len() {
			if err := add(ctx, b.Record(i)); err != nil {
				return err
			}
		}
		return nil
	}
}

// maxJSONLineBytes bounds a line: the largest payload in base64, and its key.
const maxJSONLineBytes = record.MaxPayloadBytes/3*4 + 4096

// recordsFromLines reads ndjson.
func recordsFromLines(ctx context.Context, name string, source io.Reader, add addRecord,
	kind output.PayloadType, rejects *rejected) (written, lines int64, err error) {
	return eachLine(name, source, rejects, func(line []byte) error {
		r, err := parseLine(line, kind)
		if err != nil {
			return err
		}
		if err := add(ctx, r); err != nil {
			return sendError{err}
		}
		return nil
	})
}

// sendError is an error that is not of the line, and ends the reading.
type sendError struct{ error }

// eachLine hands the lines that are not empty to take; an error of take rejects the line.
func eachLine(name string, source io.Reader, rejects *rejected,
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
		if sending := (sendError{}); errors.As(err, &sending) {
			return written, lines, sending.error
		}
		if err != nil {
			rejects.add(fmt.Sprintf("line %d: %v", number, err))
			continue
		}
		written++
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return written, lines, fmt.Errorf("line %d is longer than %d bytes; it and the "+
			"lines after it are not read", number, maxJSONLineBytes)
	}
	if err := in.Err(); err != nil && !errors.Is(err, io.EOF) {
		return written, lines, fmt.Errorf("read %s: %w", name, err)
	}
	return written, lines, nil
}
