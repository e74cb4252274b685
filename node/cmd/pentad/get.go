package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// tableRows is how many rows a table shows when no --limit says: about a screen.
const tableRows = 40

// connect opens the connection that a command works with.
func (a *app) connect(ctx context.Context) (*client.Client, error) {
	return client.Dial(ctx, a.addr)
}

func (a *app) getCommand() *cobra.Command {
	var q queryFlags
	var form recordForm
	c := &cobra.Command{
		Use:   "get",
		Short: "Show records in a box of the five axes",
		Long: `Show records in a box of the five axes.

A deleted reading is said to be so in a table and in JSON. In CSV it would look like an empty one:
-o csv ends with an error at a tombstone, unless --deleted adds a column that is true there and
false elsewhere; put and import csv read it. The latest view has no tombstones.`,
		Args: noCommand,
		Example: `  pentad get --cid 1 --cap now-24h.. --type f64
  pentad get --mid 7,9 --moid 1..=3 --view latest -o csv
  pentad get --cid 1 --last 1 --type f64
  pentad get --cid 1 --type f64 --deleted -o csv
  pentad get --cid 1 --asof 2026-11-20 --order acq --limit 100 -o ndjson`,
		RunE: func(c *cobra.Command, _ []string) error { return a.get(c.Context(), &q, form) },
	}
	q.addBox(c)
	q.addFilter(c)
	a.addRecordFlags(c, &q, &form)
	c.Flags().BoolVar(&form.deleted, "deleted", false, "a column in CSV that says what is deleted")
	return c
}

// addRecordFlags adds what says which records are shown first, and how.
func (a *app) addRecordFlags(c *cobra.Command, q *queryFlags, form *recordForm) {
	flags := c.Flags()
	flags.StringVar(&q.order, "order", "", "key, acq or none (default: key in a table, else none)")
	flags.Uint64Var(&q.limit, "limit", 0, "at most this many records (0: all)")
	complete(c, "order", "key\tby cid, mid, moid, cap, acq", "acq\tby acquisition time", "none")
	a.addType(c, form)
}

// addType adds how payloads are shown.
func (a *app) addType(c *cobra.Command, form *recordForm) {
	c.Flags().StringVar(&form.payload, "type", orElse(a.getenv("PENTAD_TYPE"), "base64"),
		"show payloads as "+output.PayloadTypes+" (PENTAD_TYPE)")
	complete(c, "type", "f64", "i64", "text", "hex", "base64")
}

// recordForm says how records are shown.
type recordForm struct {
	payload string // a type
	deleted bool   // CSV has a column for tombstones

	kind output.PayloadType // of payload
	cut  bool               // a table is cut, with a note of how many there are
}

func (a *app) get(ctx context.Context, q *queryFlags, form recordForm) error {
	var err error
	if form.kind, err = output.ParsePayloadType(form.payload); err != nil {
		return usageError{err}
	}
	format, err := a.format()
	if err != nil {
		return err
	}
	if form.deleted && format != output.CSV {
		return usagef("--deleted adds a column to -o csv; the other forms say what is deleted " +
			"without it")
	}
	form.cut = format == output.Table && q.limit == 0
	if form.cut {
		q.limit = tableRows + 1
	}
	if format == output.Table && q.order == "" {
		q.order = "key"
	}
	query, err := q.query(a)
	if err != nil {
		return err
	}
	db, err := a.connectFor(ctx, q, query)
	if err != nil {
		return err
	}
	defer db.Close()
	shown, err := a.showRecords(ctx, db, query, &form)
	switch {
	case err != nil:
		return err
	case shown == 0 && q.failEmpty:
		return errEmpty
	case shown == 0 && format == output.Table:
		a.note("no records match")
	}
	return nil
}

// showRecords writes the answer and returns the number of records. The record beyond a table that
// is cut is not shown but leads to a note of how many there are.
func (a *app) showRecords(
	ctx context.Context, db *client.Client, q *record.Query, form *recordForm,
) (uint64, error) {
	columns := []output.Column{right("cid"), right("mid"), right("moid"), left("cap"), left("acq"),
		form.kind.Column()}
	if form.deleted {
		columns = append(columns, left("deleted"))
	}
	w, err := a.writer(false, columns...)
	if err != nil {
		return 0, err
	}
	format, _ := a.format() // which writer has checked
	csv := format == output.CSV
	row := make([]output.Value, 0, len(columns))
	end, err := db.Scan(ctx, q, func(b *record.Batch) error {
		for i := range b.Len() {
			if form.cut && w.Rows() == tableRows {
				return nil
			}
			k := b.Key(i)
			if csv && b.Tomb(i) && !form.deleted {
				return tombInCSV(k)
			}
			row = append(row[:0], output.Int(k.CID), output.Int(k.MID), output.Int(k.MOID),
				output.Time(k.CapNs), output.Time(k.AcqNs), valueOf(b, i, form.kind))
			if form.deleted {
				row = append(row, output.Bool(b.Tomb(i)))
			}
			if err := w.Row(row...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		// What has come is shown: it is true, and the exit code says that it is not all.
		return 0, errors.Join(err, w.Flush())
	}
	if err := w.Close(); err != nil {
		return 0, err
	}
	if form.cut && end.Rows > tableRows {
		q.Limit, q.Order = 0, record.OrderNone
		all, err := countRecords(ctx, db, q)
		if err != nil {
			return 0, err
		}
		a.note("shown %d of %s; -o ndjson for all", tableRows, output.Thousands(all))
	}
	return w.Rows(), checkEnd(end)
}

// tombInCSV is the error of a tombstone among rows that put would read as empty readings.
func tombInCSV(k record.Key) error {
	return codeError{exitPartial, fmt.Errorf("cid %d, mid %d, moid %d, cap %s is a tombstone, "+
		"which CSV cannot express without --deleted: give it, or use --view latest, which has none",
		k.CID, k.MID, k.MOID, record.FormatNs(k.CapNs))}
}

// valueOf is the payload of a record, or that it is a tombstone.
func valueOf(b *record.Batch, i int, kind output.PayloadType) output.Value {
	if b.Tomb(i) {
		return output.Deleted()
	}
	return kind.Value(b.Payload(i))
}

// checkEnd turns an incomplete answer into an error.
func checkEnd(end wire.End) error {
	if end.Complete {
		return nil
	}
	return codeError{exitPartial, errors.New("the answer is incomplete: " + end.Reason)}
}
