package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// windowsFlags are the flags of pentad windows.
type windowsFlags struct {
	queryflags.Flags
	every, zone, aggregate string
	group                  queryflags.GroupFlag
}

func (a *app) windowsCommand() *cobra.Command {
	var q windowsFlags
	c := &cobra.Command{
		Use:   "windows",
		Short: "Aggregate readings by calendar windows",
		Long: `Aggregate readings by windows of the calendar of a time zone: one result for each window with
records. Days start at midnight in the zone and have 23 or 25 hours when clocks change; weeks start
on Monday; 3mo is a quarter. Minutes and hours count from midnight; an hour that occurs twice is two
windows.

delta starts a window with the last reading before it, even if that is before --cap. Times without
an offset, e.g. --cap 2026-10, are in the zone; a local time that is ambiguous or does not exist
needs an offset.

A result is of all tenants, devices and quantities selected, unless --group separates them: by parts
of the key, and by what devices of a tenant have, see pentad plugin run. delta is of one series each
without it, and with it adds them up: --group connection makes one row of meters that came in each
other's place. A note on stderr says if numbers of several quantities or tenants are merged.`,
		Args: cli.NoCommand,
		Example: `  pentad windows --cid 1 --moid 1 --every 1d --tz Europe/Helsinki --agg stats
  pentad windows --cid 1 --mid 7 --moid 1 --cap 2026-10 --every 1w --tz -8 --agg quantiles,q=0.9
  pentad windows --cid 1 --cap 2026-01..2027-01 --every 1mo --agg delta,modulus=100000
  pentad windows --every 15m --agg count --group mid -o csv
  pentad windows --cid 1 --moid 1 --every 1d --tz Europe/Helsinki --agg stats --group group[2],type
  pentad windows --cid 1 --moid 1 --every 1mo --agg delta,modulus=100000 --group connection`,
		RunE: func(c *cobra.Command, _ []string) error { return a.windows(c.Context(), &q) },
	}
	q.AddBox(c)
	queryflags.TimesInZone(c)
	q.AddFilter(c)
	q.AddSkipUnreadable(c)
	flags := c.Flags()
	flags.StringVar(&q.every, "every", "1d", "length of windows, e.g. 15m, 1h, 1d, 1w, 1mo or 1y")
	flags.StringVar(&q.zone, "tz", time.UTC.String(), "time zone of windows and of times without "+
		"an offset,\ne.g. Europe/Helsinki, -8 or +05:30")
	flags.StringVar(&q.aggregate, "agg", "count",
		"aggregate plugin with its parameters: NAME,NAME=VALUE,...")
	cli.CompleteZone(c, "tz")
	cli.Complete(c, "every", "15m", "1h", "1d", "1w", "1mo\ta month", "1y")
	a.CompleteFrom(c, "agg", cli.PluginNames(func(p *client.PluginInfo) bool {
		return p.Aggregate
	}))
	flags.Var(&q.group, "group",
		"separate windows for each cid, mid or moid, e.g. cid,mid, or type,\ngroup[2], an "+
			"attribute (delta: without it one series each)")
	flags.Uint64Var(&q.Limit, "limit", 0, "maximum number of windows, e.g. 100 (0: no limit)")
	q.AddWhereType(c, "that of --agg is a parameter of the plugin: --agg stats,type=f64")
	cli.Elsewhere(c, "params", "write them behind the plugin: --agg NAME,NAME=VALUE")
	return c
}

// query builds the query, without the plugin.
func (q *windowsFlags) query(
	ctx context.Context, a *app,
) (*record.Query, *calendar.Calendar, error) {
	var err error
	q.zone = timeparse.ZoneName(q.zone)
	if q.Loc, err = timeparse.Location(q.zone); err != nil {
		return nil, nil, cli.Usagef("--tz: %w", err)
	}
	query, err := q.Flags.Query(ctx, a.App)
	if err != nil {
		return nil, nil, err
	}
	if query.GroupBy, err = queryflags.ParseParts(string(q.group)); err != nil {
		return nil, nil, err
	}
	if query.GroupBy.Window, err = calendar.ParseEvery(q.every, q.zone); err != nil {
		return nil, nil, cli.Usagef("--every %.80s: %w", q.every, err)
	}
	cal, err := calendar.New(query.GroupBy.Window)
	if err != nil {
		return nil, nil, cli.Usagef("--tz: %w", err)
	}
	return query, cal, nil
}

func (a *app) windows(ctx context.Context, q *windowsFlags) error {
	query, cal, err := q.query(ctx, a)
	if err != nil {
		return err
	}
	db, err := queryflags.Connect(ctx, a.App, &q.Flags, query)
	if err != nil {
		return err
	}
	defer db.Close()
	name, params, _ := strings.Cut(q.aggregate, ",")
	info, doc, call, err := queryflags.FindAggregate(ctx, db, name)
	if err != nil {
		return err
	}
	if !info.Aggregate {
		return cli.Usagef("--agg %s: a filter, not an aggregate; use --filter", name)
	}
	if info.LinksPredecessors && q.group == "" {
		query.GroupBy = query.GroupBy.BySeries(&query.Box)
	}
	query.Aggregate = call
	if err := q.AggregateParams(ctx, db, doc, params, query); err != nil {
		return err
	}
	groups, end, err := db.Aggregate(ctx, query)
	if err != nil {
		return queryflags.Readable(err)
	}
	names, err := q.Names(ctx, a.App, db, query)
	if err != nil {
		return err
	}
	length := a.windowLength(query.GroupBy.Window)
	w, err := a.Writer(false, windowColumns(query.GroupBy, length, doc, names)...)
	if err != nil {
		return err
	}
	shown, err := queryflags.ShownGroups(a.App, &q.Flags, groups)
	if err != nil {
		return err
	}
	if err := writeWindows(w, cal, query.GroupBy, length, doc, names, groups[:shown]); err != nil {
		return err
	}
	if err := queryflags.CheckEnd(end); err != nil {
		return err
	}
	err = q.NoteRun(ctx, a.App, db, query, doc, groups, shown, end, "windows")
	if err != nil {
		return err
	}
	if len(groups) == 0 && q.FailEmpty {
		return cli.ErrEmpty
	}
	return nil
}

// lengthUnit is the unit of the column of lengths of windows.
type lengthUnit struct {
	name   string
	ofHour float64 // how many an hour has
}

// windowLength is hours, or in a table minutes where windows are counted in them.
func (a *app) windowLength(w record.Window) lengthUnit {
	if f, err := a.Format(); err == nil && f == output.Table && w.Unit == record.WindowMinute {
		return lengthUnit{"minutes", 60}
	}
	return lengthUnit{"hours", 1}
}

// windowColumns are those of groups with start and length in place of cap.
func windowColumns(
	g record.GroupBy, length lengthUnit, doc *plugin.Doc, names queryflags.Names,
) []output.Column {
	g.Window = record.Window{}
	columns := queryflags.GroupColumns(g, doc, names)
	parts := len(queryflags.KeyValues(g, nil, names, &wire.Group{}))
	return append(append(columns[:parts:parts], cli.Left("start"), cli.Right(length.name)),
		columns[parts:]...)
}

func writeWindows(w *output.Writer, cal *calendar.Calendar, g record.GroupBy, length lengthUnit,
	doc *plugin.Doc, names queryflags.Names, groups []wire.Group) error {
	g.Window = record.Window{}
	for i := range groups {
		group := &groups[i]
		from, to := cal.Window(group.CapNs)
		row := append(queryflags.KeyValues(g, nil, names, group),
			output.LocalTime(from, cal.Format(from)),
			output.Computed(calendar.Hours(from, to)*length.ofHour), output.Count(group.Records))
		fields, err := doc.Render(group.Result)
		if err != nil {
			return err
		}
		if err := queryflags.WriteResult(w, row, fields, doc.Repeats()); err != nil {
			return err
		}
	}
	return w.Close()
}
