package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

func (a *app) deleteCommand() *cobra.Command {
	var p putFlags
	c := &cobra.Command{
		Use:   "delete",
		Short: "Delete the reading of a key given by flags, or those of many keys from stdin",
		Long: `Delete the reading of a key given by flags, or those of many keys from stdin.

A deleted reading gets a new version, a tombstone: the latest view and views of later moments do
not show the reading any more, the view of all versions shows what it was and when it was deleted,
and a later put brings it back. Lines of ndjson and CSV are those that get writes; only cid, mid,
moid and cap are read. To hide everything in a box at once use erase, to remove it purge.`,
		Args: noCommand,
		Example: `  pentad delete --cid 1 --mid 7 --moid 1 --cap 2026-11-21T09:45:00Z
  pentad get --cid 1 --mid 7 --cap 2026-11-21 --view latest -o ndjson | pentad delete`,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, name := range []string{"cid", "mid", "moid", "cap"} {
				if c.Flags().Changed(name) {
					return a.deleteOne(c.Context(), &p)
				}
			}
			return a.deleteMany(c.Context(), p.format)
		},
	}
	flags := c.Flags()
	flags.StringVar(&p.cid, "cid", "", "tenant")
	flags.StringVar(&p.mid, "mid", "", "device")
	flags.StringVar(&p.moid, "moid", "", "quantity")
	flags.StringVar(&p.cap, "cap", "", "capture time")
	flags.StringVar(&p.format, "format", "ndjson", "form of stdin: ndjson or csv")
	complete(c, "format", "ndjson", "csv")
	return c
}

func (a *app) deleteOne(ctx context.Context, p *putFlags) error {
	if p.cap == "" {
		return usagef("--cap is missing")
	}
	key, err := p.key(a)
	if err != nil {
		return usageError{err}
	}
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	reply, err := db.Delete(ctx, key)
	if err != nil {
		return err
	}
	return a.one([]output.Column{right("deleted"), right("rejected"), left("acq")},
		output.Count(reply.Records), output.Count(0), output.Time(reply.FirstAcqNs))
}

// deleteMany deletes the readings whose keys stdin holds.
func (a *app) deleteMany(ctx context.Context, format string) error {
	if format != "ndjson" && format != "csv" {
		return usagef("--format %q is unknown; write ndjson or csv", format)
	}
	if a.stdinTerminal {
		return usagef("nothing to delete: give --cid --mid --moid --cap, or pipe keys in")
	}
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	in := a.stdinUntil(ctx)
	defer in.Close()
	w := db.NewWriter(client.WriterOptions{})
	var rejects rejected
	read := keysFromLines
	if format == "csv" {
		read = keysFromCSV
	}
	deleted, lines, err := read(in, &rejects, func(k record.Key) error { return w.Delete(ctx, k) })
	if closeErr := w.Close(ctx); err == nil {
		err = closeErr
	}
	if err != nil {
		a.note("deleted at least %s readings before the end",
			output.Thousands(w.Stats().Records))
		return err
	}
	if err := a.one([]output.Column{right("deleted"), right("rejected")}, output.Count(deleted),
		output.Count(rejects.count)); err != nil {
		return err
	}
	return rejects.err(lines)
}

func keysFromLines(
	in io.Reader, rejects *rejected, take func(record.Key) error,
) (taken, lines int64, err error) {
	return eachLine("stdin", in, rejects, func(line []byte) error {
		key, err := parseKeyLine(line)
		if err != nil {
			return err
		}
		if err := take(key); err != nil {
			return sendError{err}
		}
		return nil
	})
}

// keyColumns are the columns of a CSV file that make a key; others are left aside.
type keyColumns [4]int

func findKeyColumns(header []string) (c keyColumns, err error) {
	for d := range c {
		c[d] = -1
		for i, name := range header {
			if name == record.Dim(d).String() {
				c[d] = i
			}
		}
		if c[d] < 0 {
			return c, fmt.Errorf("the header has no column %s", record.Dim(d))
		}
	}
	return c, nil
}

func keysFromCSV(
	in io.Reader, rejects *rejected, take func(record.Key) error,
) (taken, lines int64, err error) {
	file := csv.NewReader(skipByteOrderMark(in))
	file.ReuseRecord = true
	header, err := file.Read()
	if errors.Is(err, io.EOF) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read stdin: %w", err)
	}
	columns, err := findKeyColumns(header)
	if err != nil {
		return 0, 0, fmt.Errorf("stdin: %w", err)
	}
	for {
		row, err := file.Read()
		if errors.Is(err, io.EOF) {
			return taken, lines, nil
		}
		lines++
		var malformed *csv.ParseError
		if errors.As(err, &malformed) {
			rejects.add(fmt.Sprintf("line %d: %v", malformed.Line, malformed.Err))
			continue
		}
		if err != nil {
			return taken, lines, fmt.Errorf("read stdin: %w", err)
		}
		key, err := columns.key(row)
		if err != nil {
			number, _ := file.FieldPos(0)
			rejects.add(fmt.Sprintf("line %d: %v", number, err))
			continue
		}
		if err := take(key); err != nil {
			return taken, lines, err
		}
		taken++
	}
}

// skipByteOrderMark leaves out the mark that some programs start a file with.
func skipByteOrderMark(in io.Reader) io.Reader {
	const mark = "\xef\xbb\xbf"
	buffered := bufio.NewReader(in)
	// An error comes again with the next read.
	if start, _ := buffered.Peek(len(mark)); bytes.Equal(start, []byte(mark)) {
		_, _ = buffered.Discard(len(mark)) // which are buffered
	}
	return buffered
}

// key reads the key of a row by the rules of a line of ndjson.
func (c keyColumns) key(row []string) (record.Key, error) {
	var in jsonLine
	for d, to := range []**int64{&in.CID, &in.MID, &in.MOID} {
		n, err := strconv.ParseInt(row[c[d]], 10, 64)
		if err != nil {
			return record.Key{}, fmt.Errorf("%s: %q is no whole number", record.Dim(d), row[c[d]])
		}
		*to = &n
	}
	in.Cap = []byte(row[c[record.Cap]])
	key, err := in.key()
	if err != nil {
		return key, err
	}
	var b record.Batch
	b.AppendTomb(key)
	return key, b.Validate()
}
