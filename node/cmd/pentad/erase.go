package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// hideFlags are the flags of erase and purge.
type hideFlags struct {
	box        queryFlags
	everything bool
	dryRun     bool
	yes        bool
}

// query puts the flags together and refuses a box that is everything by oversight.
func (f *hideFlags) query(a *app, view record.View) (*record.Query, error) {
	q := &record.Query{View: view}
	constrained := false
	for d := range record.NumDims {
		set, err := selector.Parse(record.Dim(d), f.box.parts[d], a.now())
		if err != nil {
			return nil, usagef("--%s: %w", record.Dim(d), err)
		}
		q.Box[d] = set
		constrained = constrained || len(set) > 0
	}
	if !constrained && !f.everything {
		return nil, usagef("no selector is given; --everything says that all records are meant")
	}
	if err := q.Normalize(); err != nil {
		return nil, usageError{err}
	}
	return q, nil
}

func (f *hideFlags) add(c *cobra.Command, verb string) {
	f.box.addSelectors(c)
	c.Flags().BoolVar(&f.everything, "everything", false,
		verb+" all records of all tenants; wanted when no selector is given, else without effect")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "only count the records")
}

func (a *app) eraseCommand() *cobra.Command {
	var f hideFlags
	c := &cobra.Command{
		Use:   "erase",
		Short: "Hide the records in a box from the latest view",
		Long: `Hide the records in a box from the latest view. Nothing is removed: purge does that.

One event with an acquisition time of its own hides all records in the box that are there now from
the latest view and from views of later moments. Older versions outside of the box come to light
again: erasing by --acq takes back what arrived in a time. The view of all versions, and views of
moments before, show the records as before; to remove them use purge. What is put later is visible.`,
		Args: noCommand,
		Example: `  pentad erase --cid 1 --mid 7 --dry-run
  pentad erase --cid 1 --mid 7
  pentad erase --cid 1 --acq 2026-11-21T09:00:00Z..2026-11-21T09:30:00Z`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.hide(c.Context(), &f, record.ViewLatest, (*client.Client).Erase)
		},
	}
	f.add(c, "hide")
	return c
}

func (a *app) purgeCommand() *cobra.Command {
	var f hideFlags
	c := &cobra.Command{
		Use:   "purge",
		Short: "Remove the records in a box for ever",
		Long: `Remove the records in a box for ever.

All records in the box that are there now vanish from every view at once, also from those of the
past, and the nodes begin at once to remove their bytes from their files, before any other merge.
How long that takes depends on how large the segments with such records are, as each is rewritten;
pentad events says when it is done. Snapshots and backups that were made before keep what they hold,
but a store that is restored from a backup with a newer part purges it again. What is put later is
visible.`,
		Args: noCommand,
		Example: `  pentad purge --cid 1 --mid 7 --dry-run
  pentad purge --cid 1 --mid 7 --yes`,
		RunE: func(c *cobra.Command, _ []string) error {
			if !f.yes && !f.dryRun {
				return usagef("what is purged never comes back: count it with --dry-run, and " +
					"then say --yes")
			}
			err := a.hide(c.Context(), &f, record.ViewAll, (*client.Client).Purge)
			if err == nil && !f.dryRun {
				a.note("the bytes are being removed; pentad events says when that is done")
			}
			return err
		},
	}
	f.add(c, "remove")
	c.Flags().BoolVar(&f.yes, "yes", false, "do it")
	return c
}

func (a *app) hide(ctx context.Context, f *hideFlags, view record.View,
	do func(*client.Client, context.Context, *wire.Box) (int64, error)) error {
	q, err := f.query(a, view)
	if err != nil {
		return err
	}
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if f.dryRun {
		records, err := countRecords(ctx, db, q)
		if err != nil {
			return err
		}
		return a.one([]output.Column{right("records")}, output.Count(records))
	}
	acq, err := do(db, ctx, &wire.Box{Box: q.Box, Everything: f.everything})
	if err != nil {
		return err
	}
	return a.one([]output.Column{left("acq")}, output.Time(acq))
}

func (a *app) eventsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "events",
		Short: "List erases, purges and the present steps of retentions",
		Long: `List erases, purges and the present steps of retentions, oldest first, each with the box that
it concerns as selectors say it. Of a purge there is whether all its records are removed from the
files, and how many are so far. Of a retention there is about how many records it hides that are
still stored, and their bytes; when the first of them may be removed (next), until when
"retention undo" shows them again; and when the bytes of all are gone at the latest (gone_by). Both
are empty while it is held. The times move on while nodes do not run.`,
		Args: noCommand,
		Example: `  pentad events
  pentad events -o json`,
		RunE: func(c *cobra.Command, _ []string) error { return a.events(c.Context()) },
	}
}

func (a *app) events(ctx context.Context) error {
	columns := []output.Column{left("kind"), left("acq")}
	for d := range record.NumDims {
		columns = append(columns, left("in_"+record.Dim(d).String()))
	}
	columns = append(columns, left("done"), right("removed"), right("records"), right("bytes"),
		left("next"), left("gone_by"))
	return list(ctx, a, (*client.Client).Events, columns, hidingRow)
}

func hidingRow(e client.Event) []output.Value {
	row := []output.Value{output.Text(e.Kind), output.Time(e.AcqNs)}
	for d := range record.NumDims {
		part := output.All()
		if set, ok := e.Box[record.Dim(d).String()]; ok {
			part = output.Text(set)
		}
		row = append(row, part)
	}
	done, removed := output.Null(), output.Null()
	if e.Done != nil && e.Removed != nil {
		done, removed = output.Bool(*e.Done), output.Count(*e.Removed)
	}
	row = append(row, done, removed)
	r := e.Removal
	if r == nil {
		return append(row, output.Null(), output.Null(), output.Null(), output.Null())
	}
	at := func(ns int64) output.Value {
		if ns == 0 {
			return output.Null()
		}
		return output.Time(ns)
	}
	return append(row, output.Count(r.Records), output.Bytes(r.Bytes), at(r.NextNs), at(r.DoneNs))
}
