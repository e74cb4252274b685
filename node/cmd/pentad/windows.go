package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// windowsFlags are those of pentad windows beside the box.
type windowsFlags struct {
	queryFlags
	every, zone, aggregate, group string
}

func (a *app) windowsCommand() *cobra.Command {
	var q windowsFlags
	c := &cobra.Command{
		Use:   "windows",
		Short: "Aggregate by days, months and other windows of a calendar",
		Long: `Aggregate by windows of the calendar of a time zone: one result for each window with
records, of the latest versions unless --view or --asof say otherwise. Days begin at midnight in the
zone and have 23 or 25 hours when the clock is changed, weeks begin on Monday, 3mo is a quarter.
Minutes and hours are counted from midnight; an hour that the clock shows twice is two windows.

What delta counts in a window begins with the last reading before it, also before --cap. Times
without an offset, as --cap 2026-10, are of the zone, too; one that its clock shows twice or
passes over needs one.`,
		Args: noCommand,
		Example: `  pentad windows --cid 1 --every 1d --tz Europe/Helsinki --agg stats
  pentad windows --cid 1 --mid 7 --cap 2026-10 --every 1w --tz Europe/Berlin --agg quantiles,q=0.9
  pentad windows --cid 1 --cap 2026-01..2027-01 --every 1mo --agg delta,modulus=100000
  pentad windows --every 15m --agg count --group mid -o csv`,
		RunE: func(c *cobra.Command, _ []string) error { return a.windows(c.Context(), &q) },
	}
	q.addBox(c)
	q.addFilter(c)
	flags := c.Flags()
	flags.StringVar(&q.every, "every", "1d", "how long windows are, as 15m, 1h, 1d, 1w, 1mo, 1y")
	flags.StringVar(&q.zone, "tz", time.UTC.String(), "time zone, as Europe/Helsinki or +05:30")
	flags.StringVar(&q.aggregate, "agg", "count",
		"aggregate plugin with its parameters: NAME,name=value,...")
	flags.StringVar(&q.group, "group", "",
		"windows of each cid, mid, moid by themselves, as cid,mid\n(with delta: of each series)")
	flags.Uint64Var(&q.limit, "limit", 0, "at most this many windows (0: all)")
	return c
}

// query puts the question together, without the plugin.
func (q *windowsFlags) query(a *app) (*record.Query, *calendar.Calendar, error) {
	var err error
	if q.loc, err = calendar.Zone(q.zone); err != nil {
		return nil, nil, usagef("--tz: %w", err)
	}
	query, err := q.queryFlags.query(a)
	if err != nil {
		return nil, nil, err
	}
	if q.view == "" && query.View == record.ViewAll {
		query.View = record.ViewLatest
	}
	if query.GroupBy, err = parseGroup(q.group); err != nil {
		return nil, nil, err
	}
	if query.GroupBy.CapBucketNs > 0 {
		return nil, nil, usagef("--group cap stands in place of windows; leave it out")
	}
	if query.GroupBy.Window, err = calendar.ParseEvery(q.every, q.zone); err != nil {
		return nil, nil, usagef("--every and --tz: %w", err)
	}
	cal, err := calendar.New(query.GroupBy.Window)
	if err != nil {
		return nil, nil, usagef("--tz: %w", err)
	}
	return query, cal, nil
}

func (a *app) windows(ctx context.Context, q *windowsFlags) error {
	query, cal, err := q.query(a)
	if err != nil {
		return err
	}
	db, err := a.connectFor(ctx, &q.queryFlags, query)
	if err != nil {
		return err
	}
	defer db.Close()
	name, params, _ := strings.Cut(q.aggregate, ",")
	info, doc, call, err := findPlugin(ctx, db, name)
	if err != nil {
		return err
	}
	if !info.Aggregate {
		return usagef("--agg %s is a filter, which keeps records; --filter uses it", name)
	}
	if info.Joins && q.group == "" {
		query.GroupBy = query.GroupBy.BySeries(&query.Box)
	}
	call.Params, err = encodeParams(ctx, db, doc, params, &query.Box, q.unchecked)
	if err != nil {
		return err
	}
	query.Aggregate = call
	groups, end, err := db.Aggregate(ctx, query)
	if err != nil {
		return err
	}
	w, err := a.writer(false, windowColumns(query.GroupBy, doc)...)
	if err != nil {
		return err
	}
	shown, err := a.shownGroups(&q.queryFlags, groups)
	if err != nil {
		return err
	}
	if err := writeWindows(w, cal, query.GroupBy, doc, groups[:shown]); err != nil {
		return err
	}
	if err := checkEnd(end); err != nil {
		return err
	}
	if shown < len(groups) {
		a.note("shown %d of %s; -o ndjson for all", shown, output.Thousands(len(groups)))
	}
	a.note("ran on %s records in %s, %s windows", output.Thousands(sumRecords(groups)),
		output.Duration(time.Duration(end.TookNs)), output.Thousands(len(groups)))
	if len(groups) == 0 && q.failEmpty {
		return errEmpty
	}
	return nil
}

// windowColumns are those of groups with start and hours in place of cap.
func windowColumns(g record.GroupBy, doc *plugin.Doc) []output.Column {
	g.Window = record.Window{}
	columns := groupColumns(g, doc)
	parts := len(keyValues(g, &wire.Group{}))
	return append(append(columns[:parts:parts], left("start"), right("hours")), columns[parts:]...)
}

func writeWindows(w *output.Writer, cal *calendar.Calendar, g record.GroupBy, doc *plugin.Doc,
	groups []wire.Group) error {
	g.Window = record.Window{}
	for i := range groups {
		group := &groups[i]
		from, to := cal.Window(group.CapNs)
		row := append(keyValues(g, group), output.LocalTime(from, cal.Format(from)),
			output.Float(calendar.Hours(from, to)), output.Count(group.Records))
		fields, err := doc.Render(group.Result)
		if err != nil {
			return err
		}
		if err := writeResult(w, row, fields, doc.Repeats()); err != nil {
			return err
		}
	}
	return w.Close()
}
