package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/input"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

func (a *app) deleteCommand() *cobra.Command {
	var p putFlags
	c := &cobra.Command{
		Use:   "delete",
		Short: "Delete one reading, or many from stdin",
		Long: `Delete the reading of a key given by flags, or those of many keys from stdin.

A deleted reading gets a new version, a tombstone. The latest view and later as-of views no longer
show the reading; the view of all versions shows its earlier versions and the tombstone; a later put
brings it back. Lines of NDJSON and CSV are those that get writes and put reads; only the parts of
the key are read. Use erase to hide many readings at once, and purge to remove them.`,
		Args: cli.NoCommand,
		Example: `  pentad delete --cid 1 --mid 7 --moid 1 --cap 2026-11-21T09:45:00Z
  pentad get --cid 1 --mid 7 --cap 2026-11-21 -o ndjson | pentad delete`,
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
	flags.StringVar(&p.cid, "cid", "", "tenant, an integer or a name")
	flags.StringVar(&p.mid, "mid", "", "device, an integer or a name")
	flags.StringVar(&p.moid, "moid", "", "quantity, an integer or a name")
	flags.StringVar(&p.cap, "cap", "", "capture time, e.g. 2026-11-21T09:45:00Z")
	flags.StringVar(&p.format, "format", "ndjson", "format of stdin: ndjson or csv")
	cli.Complete(c, "format", "ndjson", "csv")
	return c
}

func (a *app) deleteOne(ctx context.Context, p *putFlags) error {
	if p.cap == "" {
		return cli.Usagef("--cap: missing")
	}
	key, _, err := p.key(a)
	if err != nil {
		return cli.Usage(err)
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := p.replaceNames(ctx, db, &key); err != nil {
		return err
	}
	reply, err := db.Delete(ctx, key)
	if err != nil {
		return err
	}
	return a.One([]output.Column{cli.Right("deleted"), cli.Right("rejected"), cli.Left("acq")},
		output.Count(reply.Records), output.Count(0), output.Time(reply.FirstAcqNs))
}

// deleteMany deletes the readings whose keys stdin holds.
func (a *app) deleteMany(ctx context.Context, format string) error {
	if format != "ndjson" && format != "csv" {
		return cli.Usagef("--format %q is unknown; use ndjson or csv", format)
	}
	if a.StdinTerminal {
		return cli.Usagef("nothing to delete: no key given; use --cid --mid --moid --cap, or " +
			"pipe keys to stdin")
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	in := a.StdinUntil(ctx)
	defer in.Close()
	w := db.NewWriter(client.WriterOptions{})
	var rejects input.Rejected
	read := keysFromLines
	if format == "csv" {
		read = keysFromCSV
	}
	deleted, lines, err := read(ctx, in, &queryflags.Resolver{DB: db}, &rejects,
		func(k record.Key) error { return w.Delete(ctx, k) })
	if closeErr := w.Close(ctx); err == nil {
		err = closeErr
	}
	if err != nil {
		left := "nothing was deleted"
		if n := w.Stats().Records; n > 0 || lines > 0 {
			left = "at least " + output.Thousands(n) + " readings deleted; another run deletes all"
		}
		if ctx.Err() != nil {
			return cli.Stopped(ctx, err, left)
		}
		a.Note("%s", left)
		return err
	}
	if err := a.One([]output.Column{cli.Right("deleted"), cli.Right("rejected")},
		output.Count(deleted), output.Count(rejects.Count)); err != nil {
		return err
	}
	return rejects.Err(lines)
}

func keysFromLines(
	ctx context.Context, in io.Reader, names input.Names, rejects *input.Rejected,
	take func(record.Key) error,
) (taken, lines int64, err error) {
	return input.EachLine("stdin", in, rejects, func(line []byte) error {
		key, err := input.ParseKeyLine(ctx, line, names)
		if err != nil {
			return err
		}
		if err := take(key); err != nil {
			return csvimport.Sending(err)
		}
		return nil
	})
}

// keyColumns are the columns of a CSV file that make a key; others are left aside.
type keyColumns [4]int

func findKeyColumns(header []string) (c keyColumns, err error) {
	for d := range c {
		name := record.Dim(d).String()
		if d != int(record.Cap) {
			name, err = csvimport.OwnColumn(record.Dim(d), func(column string) bool {
				return slices.Contains(header, column)
			})
			if err != nil {
				return c, fmt.Errorf("header: %w", err)
			}
		}
		if c[d] = slices.Index(header, name); c[d] < 0 {
			return c, fmt.Errorf("header: column %s is missing", name)
		}
	}
	return c, nil
}

func keysFromCSV(
	ctx context.Context, in io.Reader, names input.Names, rejects *input.Rejected,
	take func(record.Key) error,
) (taken, lines int64, err error) {
	file := csv.NewReader(input.SkipByteOrderMark(in))
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
			rejects.Add(fmt.Sprintf("line %d: %v", malformed.Line, malformed.Err))
			continue
		}
		if err != nil {
			return taken, lines, fmt.Errorf("read stdin: %w", err)
		}
		key, err := columns.key(ctx, row, names)
		if sending := (csvimport.SendError{}); errors.As(err, &sending) {
			return taken, lines, sending.Unwrap()
		}
		if err != nil {
			number, _ := file.FieldPos(0)
			rejects.Add(fmt.Sprintf("line %d: %v", number, err))
			continue
		}
		if err := take(key); err != nil {
			return taken, lines, err
		}
		taken++
	}
}

// key reads the key of a row by the rules of a line of ndjson.
func (c keyColumns) key(
	ctx context.Context, row []string, names input.Names,
) (record.Key, error) {
	found, err := names.Key(ctx, row[c[record.CID]], row[c[record.MID]], row[c[record.MOID]])
	if err != nil {
		return found, err
	}
	cid, moid := int64(found.CID), int64(found.MOID)
	in := input.Line{CID: &cid, MID: &found.MID, MOID: &moid}
	in.Cap = []byte(row[c[record.Cap]])
	key, err := in.Key()
	if err != nil {
		return key, err
	}
	var b record.Batch
	b.AppendTomb(key)
	return key, b.Validate()
}
