package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/nodesync"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

const syncHelp = `

The copy is exact: records keep their acquisition times, and erases, purges and steps of retentions
are copied in their place, so that both nodes answer every question about a moment before its
horizon alike, diffs and views of the past too. It ends at the source's horizon and stays there
until the next run, which goes on where it ended, also after an interruption at any place. Each
range is compared by digest after it was copied. A source whose directory was put back from an older
copy, and lacks what was copied of it, is refused: make a new copy of it. sync verify names the
records that differ.

Only an empty node becomes a copy. From then on it takes nothing else, until pentad sync release
makes it a node of its own. With selectors it is a copy of that part, the same one each time. A
source with records that were put below its horizon refuses: the copy would miss those that come
later.

An empty cluster becomes a copy of a node, and a node that of such a cluster. A cluster that took
records itself has no exact copy in a node, as its groups give acqs on their own. It has one in an
empty cluster whose groups have the same slots, a group at a time: --from-group N --into-group N for
each, and in the end one pentad sync release. What was restored of the backup of a group comes back
with --into-group. Or take --restamp, which copies a cluster as long as the selectors meet no erase
or purge of it.

With --restamp FILE the target need not be empty and stays a node of its own: it gives the records
new acquisition times, in the same order, so that its latest view is that of the source, while views
of the past are those of what arrived there. FILE keeps how far that came, and by it each record is
put once, as long as no more than 7 days pass before an interrupted run goes on. A target that was
put back from an older copy, and so lacks what a run put there, is refused, also when that run was
interrupted; so is a source that lacks what was put. Erases and purges of the source are done there,
too, and need --cid: tenants that only the source writes. Retentions are not copied.`

func (a *app) syncCommand() *cobra.Command {
	return group("sync", "Copy a node to another by ranges of acq, and compare the two",
		`  pentad sync push 127.0.0.1:5252
  pentad sync verify 127.0.0.1:5252`,
		a.syncPullCommand(), a.syncPushCommand(), a.syncVerifyCommand(), a.syncStatusCommand(),
		a.syncReleaseCommand())
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
	c.Flags().IntVar(&g.from, "from-group", 0, "take this group of the source, a cluster, alone")
	c.Flags().IntVar(&g.into, "into-group", 0, "the copy is this group of a cluster alone")
}

// dial connects to the source and the copy.
func (g *syncGroups) dial(
	ctx context.Context, from, to string,
) (*client.Client, *client.Client, error) {
	if g.from < 0 || g.into < 0 {
		return nil, nil, usagef("groups are numbered from 1 on; see pentad cluster shards")
	}
	source, target, err := dialBoth(ctx, from, to)
	if err != nil {
		return nil, nil, err
	}
	return source.OfGroup(g.from), target.OfGroup(g.into), nil
}

func (f *syncFlags) add(c *cobra.Command) {
	for d, what := range []string{"tenants", "devices", "quantities", "capture times"} {
		c.Flags().StringVar(&f.parts[d], record.Dim(d).String(), "*", what)
	}
	c.Flags().Float64Var(&f.rate, "rate", 0, "copy at most so many records a second (default: "+
		"no limit)")
	c.Flags().Var((*filledFlag)(&f.restamp), "restamp", "give the records new acquisition times, "+
		"and keep in this file how far that came")
	f.groups.add(c)
}

func (f *syncFlags) options(a *app) (opt nodesync.Options, err error) {
	for d, text := range f.parts {
		if opt.Box[d], err = selector.Parse(record.Dim(d), text, a.now()); err != nil {
			return opt, usagef("--%s: %w", record.Dim(d), err)
		}
	}
	if !(f.rate >= 0 && f.rate < 1e12) {
		return opt, usagef("--rate %g is no number of records a second", f.rate)
	}
	opt.RowsPerSec = f.rate
	if f.restamp != "" && f.groups.into != 0 {
		return opt, usagef("--into-group is for exact copies: with --restamp records go where " +
			"their devices belong")
	}
	return opt, nil
}

func (a *app) syncPullCommand() *cobra.Command {
	var f syncFlags
	c := &cobra.Command{
		Use:   "pull SOURCE",
		Short: "Make the node a copy of another, or bring it up to date",
		Long: `Make the node at --addr a copy of the one at SOURCE, or bring it up to date.` +
			syncHelp,
		Args: arguments(1, 1, "the address of the node to copy"),
		Example: `  pentad sync pull 127.0.0.1:5151 --addr 127.0.0.1:5252
  pentad sync pull 127.0.0.1:5151 --addr 127.0.0.1:5252 --rate 200000
  pentad sync pull 127.0.0.1:5252 --restamp sent.json --cid 2`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.copyNode(c.Context(), &f, args[0], a.addr)
		},
	}
	f.add(c)
	return c
}

func (a *app) syncPushCommand() *cobra.Command {
	var f syncFlags
	c := &cobra.Command{
		Use:   "push COPY",
		Short: "Make another node a copy of this one, or bring it up to date",
		Long: `Make the node at COPY a copy of the one at --addr, or bring it up to date.` +
			syncHelp,
		Args:    arguments(1, 1, "the address of the node that is to be the copy"),
		Example: `  pentad sync push 127.0.0.1:5252`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.copyNode(c.Context(), &f, a.addr, args[0])
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
	began := a.now()
	shown := a.newProgress("sync", -1, true)
	before := uint64(0)
	opt.Progress = func(r *nodesync.Report) {
		shown.add(int64(r.Rows-before), int64(r.Rows))
		before = r.Rows
	}
	var report nodesync.Report
	if f.restamp != "" {
		report, err = restamp(ctx, source, target, f.restamp, opt)
	} else {
		report, err = nodesync.Copy(ctx, source, target, opt)
	}
	shown.close()
	if err != nil {
		if report.Ranges > 0 {
			a.note("%s records were copied; the next run goes on from there",
				output.Thousands(report.Rows))
		}
		return copyError(err)
	}
	if report.Unproved > 0 {
		a.note("the source purged, or let expire, some of what was copied meanwhile: the next " +
			"run does the same to the copy")
	}
	fromAcq := output.Null()
	if report.FromNs > 0 {
		fromAcq = output.Time(report.FromNs)
	}
	return a.one([]output.Column{right("records"), right("bytes"), right("events"),
		right("ranges"), left("from_acq"), left("until_acq"), right("took")},
		output.Count(report.Rows), output.Bytes(report.Bytes), output.Count(report.Events),
		output.Count(report.Ranges), fromAcq, output.Time(report.ToNs),
		output.Span(a.now().Sub(began)))
}

// copyError gives a copy that differs the exit code of damage.
func copyError(err error) error {
	if errors.Is(err, nodesync.ErrDiffers) {
		return codeError{exitDamaged, err}
	}
	return err
}

func (a *app) syncVerifyCommand() *cobra.Command {
	var groups syncGroups
	c := &cobra.Command{
		Use:   "verify COPY",
		Short: "Compare a copy with this node, and name the records that differ",
		Long: `Compare the node at COPY with the one at --addr that it is a copy of, up to where the copy ends.

Digests of ranges are compared, and where they differ those of ever smaller ones, so that few
records are moved. Each record that differs is a line on stdout: missing from the copy, extra
there, or changed; event is an erase or purge that only one of them has. At most 100 are named.
Exit code 7 says that there is any. Records that this node purged, or let expire, after the moment
at which the copy ends are only counted: the next push removes them there.`,
		Args:    arguments(1, 1, "the address of the copy"),
		Example: `  pentad sync verify 127.0.0.1:5252`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.compareNodes(c.Context(), &groups, a.addr, args[0])
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
	w, err := a.writer(false, left("what"), right("cid"), right("mid"), right("moid"),
		left("cap"), left("acq"))
	if err != nil {
		return err
	}
	began := a.now()
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
		a.note("%s records of the copy are none of the source any more, which purged them or let "+
			"them expire since; pentad sync push does the same there",
			output.Thousands(report.Purged))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return copyError(err)
	}
	a.note("%s records before acq %d are the same, took %s", output.Thousands(report.Rows),
		report.ToNs, output.Duration(a.now().Sub(began).Round(time.Millisecond)))
	return nil
}

func (a *app) syncStatusCommand() *cobra.Command {
	ofGroup := 0
	c := &cobra.Command{
		Use:   "status",
		Short: "Show of which node this is a copy, and up to where",
		Args:  noCommand,
		Example: `  pentad sync status
  pentad sync status --addr 127.0.0.1:5252 -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			db, err := a.connect(c.Context())
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
			columns := []output.Column{left("store"), left("copy_of")}
			row := []output.Value{output.Text(fmt.Sprintf("%x", st.Store)), of}
			for d := range record.Acq {
				part := output.All()
				if set := st.Box[d]; len(set) > 0 {
					part = output.Text(selector.Format(d, set))
				}
				columns, row = append(columns, left("in_"+d.String())), append(row, part)
			}
			return a.one(append(columns, left("horizon")),
				append(row, output.Time(st.HorizonNs))...)
		},
	}
	c.Flags().IntVar(&ofGroup, "group", 0, "of this group of a cluster (default: of all)")
	return c
}

func (a *app) syncReleaseCommand() *cobra.Command {
	yes := false
	c := &cobra.Command{
		Use:   "release",
		Short: "Make a copy a node of its own, which takes records",
		Long: `Make a copy a node of its own: it takes records from now on, and nothing more of the node that
it was a copy of. Writers whose batches that node answered are not known here: a batch that they
repeat is stored again.`,
		Args:    noCommand,
		Example: `  pentad sync release --addr 127.0.0.1:5252 --yes`,
		RunE: func(c *cobra.Command, _ []string) error {
			if !yes {
				return usagef("a released copy is never brought up to date again: look at pentad " +
					"sync status, and then say --yes")
			}
			return a.release(c.Context())
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	return c
}

// release makes a copy a node of its own, and shows of which node it was one and up to where.
func (a *app) release(ctx context.Context) error {
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	was, _ := db.SyncState(ctx) // groups that are copies each by itself have no state together
	if err := db.ReleaseCopy(ctx); err != nil {
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
	return a.one([]output.Column{left("store"), left("was_copy_of"), left("until_acq")},
		output.Text(fmt.Sprintf("%x", now.Store)), of, until)
}
