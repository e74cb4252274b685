package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// hideFlags are the flags of erase and purge.
type hideFlags struct {
	box        queryflags.Flags
	everything bool
	dryRun     bool
	yes        bool
}

// query puts the flags together and refuses a box that is everything by oversight.
func (f *hideFlags) query(
	ctx context.Context, a *app, view record.View,
) (*record.Query, error) {
	q, err := f.box.Query(ctx, a.App)
	if err != nil {
		return nil, err
	}
	q.View = view
	constrained := f.everything
	for d := range record.Dim(record.NumDims) {
		constrained = constrained || q.Box.Restricts(d)
	}
	if !constrained {
		return nil, cli.Usagef("no selector given; use --everything to select all records")
	}
	return q, nil
}

func (f *hideFlags) add(c *cobra.Command) {
	f.box.AddSelectors(c)
	f.box.AddSelect(c)
	f.box.AddNames(c)
	c.Flags().BoolVar(&f.everything, "everything", false,
		"select all records; needed if no selector is given")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "count the records and change nothing")
}

func (a *app) eraseCommand() *cobra.Command {
	var f hideFlags
	c := &cobra.Command{
		Use:   "erase",
		Short: "Hide records from current and later views",
		Long: `Hide matching records from current and later views.

One event with its own acquisition time hides all matching records stored so far from the latest
view and from later as-of views. Older versions outside the selection become visible again: erasing
by --acq reverts what arrived in a time span. The view of all versions and earlier as-of views still
show the records; use purge to remove them. Records stored later are visible. Descriptions of
devices stay unless --moid selects them: --moid=-2147483645 selects them.

--select chooses devices once, by what is known of them now: the event names these devices, with one
event for each 1,024 ranges of them, and hides the same records whatever is said of them later.`,
		Args: cli.NoCommand,
		Example: `  pentad erase --cid 1 --mid 7 --dry-run
  pentad erase --cid 1 --mid 7
  pentad erase --cid 1 --select 'type=thermometer, retired' --dry-run
  pentad erase --cid 1 --acq 2026-11-21T09:00:00Z..2026-11-21T09:30:00Z`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.hide(c.Context(), &f, record.ViewLatest, (*client.Client).Erase)
		},
	}
	f.add(c)
	return c
}

func (a *app) purgeCommand() *cobra.Command {
	var f hideFlags
	c := &cobra.Command{
		Use:   "purge",
		Short: "Remove records permanently",
		Long: `Remove matching records permanently.

All matching records stored so far disappear from every view at once, including views of the past,
and the nodes start to remove their bytes from their files, before any other merge. Every segment
with such records is rewritten, so the time depends on their sizes; pentad events reports when it is
done. Snapshots and backups made before keep the records, but a store that is restored from a backup
with a newer part purges them again. Records stored later are visible. Descriptions of devices stay
unless --moid selects them; pentad device purge removes all of one device. --select chooses devices
as in pentad erase.`,
		Args: cli.NoCommand,
		Example: `  pentad purge --cid 1 --mid 7 --dry-run
  pentad purge --cid 1 --mid 7 --yes`,
		RunE: func(c *cobra.Command, _ []string) error {
			if !f.yes && !f.dryRun {
				return cli.Usagef("purge is permanent: preview it with --dry-run, confirm it " +
					"with --yes")
			}
			err := a.hide(c.Context(), &f, record.ViewAll, (*client.Client).Purge)
			if err == nil && !f.dryRun {
				a.Note("bytes are being removed; pentad events reports the progress")
			}
			return err
		},
	}
	f.add(c)
	c.Flags().BoolVar(&f.yes, "yes", false, "confirm the removal")
	return c
}

func (a *app) hide(ctx context.Context, f *hideFlags, view record.View,
	do func(*client.Client, context.Context, *wire.Box) (int64, error)) error {
	q, err := f.query(ctx, a, view)
	if err != nil {
		return err
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if f.dryRun {
		return a.previewHide(ctx, db, q)
	}
	acq, err := do(db, ctx, &wire.Box{Box: q.Box, Everything: f.everything, Select: q.Select})
	if err != nil {
		return cli.Stopped(ctx, err, "pentad events shows whether it is done")
	}
	return a.One([]output.Column{cli.Left("acq")}, output.Time(acq))
}

// previewHide counts what an erase or purge would hide, and of which devices if it selects them.
func (a *app) previewHide(ctx context.Context, db *client.Client, q *record.Query) error {
	records, err := queryflags.Count(ctx, db, q)
	if err != nil {
		return err
	}
	columns, row := []output.Column{cli.Right("records")}, []output.Value{output.Count(records)}
	if q.Select != "" {
		devices, err := queryflags.SelectedDevices(ctx, db, q)
		if err != nil {
			return err
		}
		if len(devices) == 0 {
			return fmt.Errorf("select: no device of tenant %d meets %q", q.Box[record.CID][0].From,
				q.Select)
		}
		columns = append(columns, cli.Right("devices"))
		row = append(row, output.Count(len(devices)))
	}
	return a.One(columns, row...)
}

func (a *app) eventsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "events",
		Short: "List erases, purges and retention steps",
		Long: `List erases, purges and current retention steps, oldest first, with the selectors of each. For a
purge, done shows whether its records are gone from the files, and removed how many are. For a
retention step, records and bytes are the approximate amount of hidden data that is still stored;
next is when the first of it may be removed, until when "retention undo" shows it again; gone_by is
when all of it is gone at the latest. Both are empty while the policy is held. Times are postponed
while nodes are down.`,
		Args: cli.NoCommand,
		Example: `  pentad events
  pentad events -o json`,
		RunE: func(c *cobra.Command, _ []string) error { return a.events(c.Context()) },
	}
}

func (a *app) events(ctx context.Context) error {
	columns := []output.Column{cli.Left("kind"), cli.Left("acq")}
	for d := range record.NumDims {
		columns = append(columns, cli.Left("in_"+record.Dim(d).String()))
	}
	columns = append(columns, cli.Left("done"), cli.Right("removed"), cli.Right("records"),
		cli.Right("bytes"), cli.Left("next"), cli.Left("gone_by"))
	return cli.List(ctx, a.App, (*client.Client).Events, columns, hidingRow)
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
