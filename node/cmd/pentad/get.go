package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

func (a *app) getCommand() *cobra.Command {
	var q queryflags.Flags
	var form recordForm
	c := &cobra.Command{
		Use:   "get",
		Short: "Show records",
		Long: `Show the latest version of each reading that matches all selectors. --view all shows every version
and the tombstones of deleted readings, as --acq does, which selects what arrived in a time span.

--where compares the declared fields of payloads with numbers and texts: = != < <= > >=, ^= (begins
with), in (1, 2), 2..4, joined by and, or, not and parentheses.

A table and JSON mark tombstones. In CSV a tombstone would look like an empty reading, so -o csv
stops with an error at one unless --deleted adds a column that marks it; put and import csv read
that column. --deleted implies --view all.`,
		Args: cli.NoCommand,
		Example: `  pentad get --cid 1 --cap now-24h..
  pentad get --mid 7,9 --moid 1..=3 -o csv
  pentad get --cid 1 --last 1 --type f64
  pentad get --moid 1 --where 'value > 20 and value <= 22.5'
  pentad get --cid 1 --moid 1 --select 'within(65.00,25.40,65.10,25.55)' --moving --cap now-7d..
  pentad get --cid 1 --view all --type f64
  pentad get --cid 1 --type f64 --deleted -o csv
  pentad get --cid 1 --asof 2026-11-20 --order acq --limit 100 -o ndjson`,
		RunE: func(c *cobra.Command, _ []string) error { return a.get(c.Context(), &q, &form) },
	}
	q.AddBox(c)
	q.AddFilter(c)
	a.addRecordFlags(c, &q, &form)
	c.Flags().BoolVar(&form.deleted, "deleted", false,
		"add a column to CSV that marks tombstones; implies --view all")
	noZone(c)
	return c
}

// addRecordFlags adds what says which records are shown first, and how.
func (a *app) addRecordFlags(c *cobra.Command, q *queryflags.Flags, form *recordForm) {
	flags := c.Flags()
	flags.StringVar(&q.Order, "order", "",
		"order of records: key, acq or none (default: key in a table, else none)")
	flags.Uint64Var(&q.Limit, "limit", 0, "maximum number of records, e.g. 100 (0: no limit)")
	cli.Complete(c, "order", "key\tby cid, mid, moid, cap, acq", "acq\tby acquisition time", "none")
	form.kind.Add(c, "type of payloads", "PENTAD_TYPE or base64")
	q.Type = &form.kind
	q.AddSkipUnreadable(c)
}

// undeclaredType is the type of payloads of quantities that are not declared.
func (a *app) undeclaredType() string { return cli.OrElse(a.Getenv("PENTAD_TYPE"), "base64") }

// recordForm says how records are shown.
type recordForm struct {
	kind    queryflags.TypeFlag
	deleted bool // CSV has a column for tombstones

	payloads *queryflags.Payloads
	cut      bool // a table is cut, with a note of how many there are
}

func (a *app) get(ctx context.Context, q *queryflags.Flags, form *recordForm) error {
	if err := form.kind.Check(a.undeclaredType()); err != nil {
		return err
	}
	format, err := a.Format()
	if err != nil {
		return err
	}
	if form.deleted && format != output.CSV {
		return cli.Usagef("--deleted: only for -o csv; the other formats always mark deleted " +
			"readings")
	}
	if form.deleted && q.AsOf == "" && q.View == "" {
		q.View = "all"
	}
	form.cut = format == output.Table && q.Limit == 0
	if form.cut {
		q.Limit = cli.TableRows + 1
	}
	if format == output.Table && q.Order == "" {
		q.Order = "key"
	}
	query, err := q.Query(ctx, a.App)
	if err != nil {
		return err
	}
	db, err := queryflags.ConnectForRecords(ctx, a.App, q, query)
	if err != nil {
		return err
	}
	defer db.Close()
	form.payloads, err = form.kind.Payloads(ctx, a.App, db, q, query.Box[record.MOID])
	if err != nil {
		return err
	}
	shown, err := a.showRecords(ctx, db, query, form)
	switch {
	case err != nil:
		return queryflags.Readable(err)
	case shown == 0 && q.FailEmpty:
		return cli.ErrEmpty
	case shown == 0 && format == output.Table:
		a.Note("no records match")
	}
	return q.NoteUnreadable(ctx, a.App, db, query)
}

// showRecords writes the answer and returns the number of records. The record beyond a table that
// is cut is not shown but leads to a note of how many there are.
func (a *app) showRecords(
	ctx context.Context, db *client.Client, q *record.Query, form *recordForm,
) (uint64, error) {
	p := form.payloads
	columns := []output.Column{cli.Right("cid"), cli.Right("mid"), cli.Right("moid")}
	quantityAt := len(columns)
	columns = append(append(columns, p.QuantityColumn()...), cli.Left("cap"), cli.Left("acq"))
	valueAt := len(columns)
	columns = append(columns, p.Column())
	if form.deleted {
		columns = append(columns, cli.Left("deleted"))
	}
	w, err := a.Writer(false, columns...)
	if err != nil {
		return 0, err
	}
	format, _ := a.Format() // which writer has checked
	csv := format == output.CSV
	row := make([]output.Value, 0, len(columns))
	end, err := db.Scan(ctx, q, func(b *record.Batch) error {
		for i := range b.Len() {
			if form.cut && w.Rows() == cli.TableRows {
				return nil
			}
			k := b.Key(i)
			if csv && b.Tomb(i) && !form.deleted {
				return tombInCSV(k)
			}
			row = append(row[:0], output.Int(k.CID), output.Int(k.MID), output.Int(k.MOID))
			row = append(p.AppendQuantity(row, k.MOID), output.Time(k.CapNs),
				output.Time(k.AcqNs), p.ValueOf(b, i))
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
	p.Head(w, quantityAt, valueAt)
	if err := w.Close(); err != nil {
		return 0, err
	}
	p.NoteOpaque(a.App)
	if form.cut && end.Rows > cli.TableRows {
		q.Limit, q.Order = 0, record.OrderNone
		all, err := queryflags.Count(ctx, db, q)
		if err != nil {
			return 0, err
		}
		a.Note("showing %d of %s; use -o ndjson for all", cli.TableRows, output.Thousands(all))
	}
	return w.Rows(), queryflags.CheckEnd(end)
}

// tombInCSV is the error of a tombstone among rows that put would read as empty readings.
func tombInCSV(k record.Key) error {
	return cli.Coded(cli.ExitPartial,
		fmt.Errorf("cid %d, mid %d, moid %d, cap %s: a tombstone cannot be written as CSV; use "+
			"--deleted or --view latest", k.CID, k.MID, k.MOID, record.FormatNs(k.CapNs)))
}
