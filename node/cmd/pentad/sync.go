package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/nodesync"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

const syncHelp = `

The copy is exact: records keep their acquisition times, and erases, purges and retention steps are
copied in order, so that both nodes give the same answer to every query about a time before the
horizon of the copy, including diffs and past views. The copy ends at the horizon of the source; the
next run continues from there, also after an interruption. Each range is compared by digest after it
was copied. A source whose directory was reset to an older copy, and lacks copied records, is
refused: make a new copy. sync verify names records that differ.

Only an empty node can become a copy. It then accepts no other records until pentad sync promote
makes it independent. With selectors it is a copy of that part; give the same selectors each time. A
source with records stored below its horizon is refused: the copy would miss later ones.

An empty cluster can become a copy of a node, and a node a copy of such a cluster. A cluster that
accepted records itself cannot be copied exactly to a node, because its groups assign acqs
independently. It can be copied to an empty cluster whose groups have the same slots, one group at a
time: --from-group N --into-group N for each, and finally one pentad sync promote. A restored backup
of a group is copied back with --into-group. Or use --restamp, which copies a cluster if no erase or
purge matches the selectors.

With --restamp FILE the target need not be empty and stays independent: it assigns new acquisition
times, in the same order, so its latest view is that of the source, and its past views show when
records arrived there. FILE stores the position, by which each record is stored once if an
interrupted run is resumed within 7 days. A target that was reset to an older copy, and lacks what a
run stored there, is refused, also after an interrupted run; so is a source that lacks what was
stored. Erases and purges of the source are repeated on the target, and need --cid: tenants that
only the source writes. Retention policies are not copied. Names of devices keep their ids: a tenant
whose devices the target names, too, is refused.`

func (a *app) syncCommand() *cobra.Command {
	return cli.Group("sync", "Copy a node to another and verify the copy",
		`  pentad sync push 127.0.0.1:5252
  pentad sync verify 127.0.0.1:5252`,
		a.syncPushCommand(), a.syncPullCommand(), a.syncVerifyCommand(), a.syncStatusCommand(),
		a.syncPromoteCommand())
}

// syncFlags are the flags of pull and push.
type syncFlags struct {
	parts   [record.Acq]string
	rate    float64
	restamp string
	groups  syncGroups
}

// syncGroups are the groups of clusters that are copied or compared, 0 for all.
type syncGroups struct{ from, into int }

func (g *syncGroups) add(c *cobra.Command) {
	c.Flags().IntVar(&g.from, "from-group", 0,
		"copy only this group of the source cluster, e.g. 3 (default: all)")
	c.Flags().IntVar(&g.into, "into-group", 0,
		"group of the target cluster that becomes the copy, e.g. 3")
}

// dial connects to the source and the copy.
func (g *syncGroups) dial(
	ctx context.Context, from, to string,
) (*client.Client, *client.Client, error) {
	if g.from < 0 || g.into < 0 {
		return nil, nil,
			cli.Usagef("--from-group or --into-group: groups start at 1; pentad cluster groups " +
				"lists them")
	}
	source, target, err := dialBoth(ctx, from, to)
	if err != nil {
		return nil, nil, err
	}
	return source.OfGroup(g.from), target.OfGroup(g.into), nil
}

func (f *syncFlags) add(c *cobra.Command) {
	for d, what := range []string{"tenants, e.g. 1 or 1..=3", "devices, e.g. 7 or 40..50",
		"quantities, e.g. 1 or 1,2", "capture times, e.g. 2026-11"} {
		c.Flags().StringVar(&f.parts[d], record.Dim(d).String(), "*", what)
	}
	c.Flags().Float64Var(&f.rate, "rate", 0,
		"limit of copied records per second, e.g. 10000 (default: no limit)")
	c.Flags().Var((*cli.FilledFlag)(&f.restamp), "restamp",
		"assign new acquisition times and keep the position in this file")
	f.groups.add(c)
}

func (f *syncFlags) options(a *app) (opt nodesync.Options, err error) {
	for d, text := range f.parts {
		if opt.Box[d], err = selector.Parse(record.Dim(d), text, a.Now()); err != nil {
			return opt, cli.Usagef("--%s: %w", record.Dim(d), err)
		}
	}
	if !(f.rate >= 0 && f.rate < 1e12) {
		return opt, cli.Usagef("--rate %g: not a number of records per second", f.rate)
	}
	opt.RowsPerSec = f.rate
	if f.restamp != "" && f.groups.into != 0 {
		return opt,
			cli.Usagef("--into-group: only for exact copies; with --restamp the target places " +
				"records by device")
	}
	return opt, nil
}

func (a *app) syncPullCommand() *cobra.Command {
	var f syncFlags
	c := &cobra.Command{
		Use:   "pull SOURCE",
		Short: "Make this node a copy of another, or update it",
		Long: `Make the node at --addr a copy of the node at SOURCE, or update it.` +
			syncHelp,
		Args: cli.Arguments(1, 1, "the address of the node to copy"),
		Example: `  pentad sync pull 127.0.0.1:5151 --addr 127.0.0.1:5252
  pentad sync pull 127.0.0.1:5151 --addr 127.0.0.1:5252 --rate 200000
  pentad sync pull 127.0.0.1:5252 --restamp sent.json --cid 2`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.copyNode(c.Context(), &f, args[0], a.Addr)
		},
	}
	f.add(c)
	return c
}

func (a *app) syncPushCommand() *cobra.Command {
	var f syncFlags
	c := &cobra.Command{
		Use:   "push COPY",
		Short: "Make another node a copy of this one, or update it",
		Long: `Make the node at COPY a copy of the node at --addr, or update it.` +
			syncHelp,
		Args:    cli.Arguments(1, 1, "the address of the node that is to be the copy"),
		Example: `  pentad sync push 127.0.0.1:5252`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.copyNode(c.Context(), &f, a.Addr, args[0])
		},
	}
	f.add(c)
	return c
}

// dialBoth connects to the source and the copy.
func dialBoth(ctx context.Context, from, to string) (*client.Client, *client.Client, error) {
	source, err := client.Dial(ctx, from)
	if err != nil {
		return nil, nil, fmt.Errorf("source %s: %w", from, err)
	}
	target, err := client.Dial(ctx, to)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("copy %s: %w", to, err), source.Close())
	}
	return source, target, nil
}

func (a *app) copyNode(ctx context.Context, f *syncFlags, from, to string) error {
	opt, err := f.options(a)
	if err != nil {
		return err
	}
	source, target, err := f.groups.dial(ctx, from, to)
	if err != nil {
		return err
	}
	defer func() { _, _ = source.Close(), target.Close() }()
	began := a.Now()
	shown := a.NewProgress("sync", -1, true)
	before := uint64(0)
	opt.Progress = func(r *nodesync.Report) {
		shown.Add(int64(r.Rows-before), int64(r.Rows))
		before = r.Rows
	}
	var report nodesync.Report
	if f.restamp != "" {
		report, err = restamp(ctx, source, target, f.restamp, opt)
	} else {
		report, err = nodesync.Copy(ctx, source, target, opt)
	}
	shown.Close()
	if err != nil {
		left := "nothing was copied; run the same command to start again"
		if report.Ranges > 0 {
			left = output.Thousands(report.Rows) +
				" records copied; run the same command to continue"
		}
		if ctx.Err() != nil {
			return cli.Stopped(ctx, err, left)
		}
		if report.Ranges > 0 {
			a.Note("%s", left)
		}
		return cli.CopyError(err)
	}
	if report.Unproved > 0 {
		a.Note("the source purged or expired some records while they were copied; the next run " +
			"removes them from the copy")
	}
	fromAcq := output.Null()
	if report.FromNs > 0 {
		fromAcq = output.Time(report.FromNs)
	}
	return a.One([]output.Column{cli.Right("records"), cli.Right("bytes"), cli.Right("events"),
		cli.Right("ranges"), cli.Left("from_acq"), cli.Left("until_acq"), cli.Right("took")},
		output.Count(report.Rows), output.Bytes(report.Bytes), output.Count(report.Events),
		output.Count(report.Ranges), fromAcq, output.Time(report.ToNs),
		output.Span(a.Now().Sub(began)))
}

func (a *app) syncVerifyCommand() *cobra.Command {
	var groups syncGroups
	c := &cobra.Command{
		Use:   "verify COPY",
		Short: "Compare a copy with this node",
		Long: `Compare a copy at COPY with its source at --addr, up to the horizon of the copy.

Digests of ranges are compared, and where they differ, digests of smaller ranges, so that few
records are transferred. Each record that differs is a line on stdout: missing from the copy, extra,
or changed; event is an erase or purge that only one of them has. At most 100 are listed; the exit
code is then 7. Records that the source purged or let expire after the horizon of the copy are only
counted: the next push removes them from the copy.`,
		Args:    cli.Arguments(1, 1, "the address of the copy"),
		Example: `  pentad sync verify 127.0.0.1:5252`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.compareNodes(c.Context(), &groups, a.Addr, args[0])
		},
	}
	groups.add(c)
	return c
}

func (a *app) compareNodes(ctx context.Context, groups *syncGroups, from, to string) error {
	source, target, err := groups.dial(ctx, from, to)
	if err != nil {
		return err
	}
	defer func() { _, _ = source.Close(), target.Close() }()
	w, err := a.Writer(false, cli.Left("what"), cli.Right("cid"), cli.Right("mid"),
		cli.Right("moid"), cli.Left("cap"), cli.Left("acq"))
	if err != nil {
		return err
	}
	began := a.Now()
	report, err := nodesync.Verify(ctx, source, target, nodesync.Options{})
	for _, d := range report.Named {
		row := []output.Value{output.Text(string(d.What)), output.Int(d.Key.CID),
			output.Int(d.Key.MID), output.Int(d.Key.MOID), output.Time(d.Key.CapNs),
			output.Time(d.Key.AcqNs)}
		if d.What == nodesync.NoEvent {
			for i := 1; i < 5; i++ {
				row[i] = output.Null()
			}
		}
		if err := w.Row(row...); err != nil {
			return err
		}
	}
	if report.Purged > 0 {
		a.Note("%s records of the copy were purged or expired in the source; pentad sync push "+
			"removes them from the copy", output.Thousands(report.Purged))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return cli.CopyError(err)
	}
	a.Note("%s records before acq %d are identical, took %s", output.Thousands(report.Rows),
		report.ToNs, output.Duration(a.Now().Sub(began).Round(time.Millisecond)))
	return nil
}

func (a *app) syncStatusCommand() *cobra.Command {
	ofGroup := 0
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the source of a copy and its horizon",
		Args:  cli.NoCommand,
		Example: `  pentad sync status
  pentad sync status --addr 127.0.0.1:5252 -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			db, err := a.Connect(c.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			st, err := db.OfGroup(ofGroup).SyncState(c.Context())
			if err != nil {
				return err
			}
			of := output.Null()
			if st.Of != [16]byte{} {
				of = output.Text(fmt.Sprintf("%x", st.Of))
			}
			columns := []output.Column{cli.Left("store"), cli.Left("copy_of")}
			row := []output.Value{output.Text(fmt.Sprintf("%x", st.Store)), of}
			for d := range record.Acq {
				part := output.All()
				if set := st.Box[d]; len(set) > 0 {
					part = output.Text(selector.Format(d, set))
				}
				columns, row = append(columns, cli.Left("in_"+d.String())), append(row, part)
			}
			return a.One(append(columns, cli.Left("horizon")),
				append(row, output.Time(st.HorizonNs))...)
		},
	}
	c.Flags().IntVar(&ofGroup, "group", 0,
		"show only this group of a cluster, e.g. 3 (default: all)")
	return c
}

func (a *app) syncPromoteCommand() *cobra.Command {
	yes := false
	c := &cobra.Command{
		Use:   "promote",
		Short: "Turn a copy into an independent node",
		Long: `Turn a copy into an independent node: it accepts records from now on, and no longer those of its
source. Batches that the source acknowledged are not known here: a writer that retries one stores it
again.`,
		Args:    cli.NoCommand,
		Example: `  pentad sync promote --addr 127.0.0.1:5252 --yes`,
		RunE: func(c *cobra.Command, _ []string) error {
			if !yes {
				return cli.Usagef("a promoted copy cannot be updated any more; check pentad " +
					"sync status, then confirm with --yes")
			}
			return a.promote(c.Context())
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "confirm the promotion")
	return c
}

// promote makes a copy an independent node, and shows of which node it was one and up to where.
func (a *app) promote(ctx context.Context) error {
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	was, _ := db.SyncState(ctx) // groups that are copies each by itself have no state together
	if err := db.PromoteCopy(ctx); err != nil {
		return err
	}
	now, err := db.SyncState(ctx)
	if err != nil {
		return err
	}
	of, until := output.Null(), output.Null()
	if was.Of != [16]byte{} {
		of, until = output.Text(fmt.Sprintf("%x", was.Of)), output.Time(was.HorizonNs)
	}
	return a.One([]output.Column{cli.Left("store"), cli.Left("was_copy_of"), cli.Left("until_acq")},
		output.Text(fmt.Sprintf("%x", now.Store)), of, until)
}
