package plugins

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

func (a *app) pluginRunCommand() *cobra.Command {
	var q queryflags.Flags
	var params string
	var groupBy queryflags.GroupFlag
	var zone cli.FilledFlag
	c := &cobra.Command{
		Use:   "run NAME[@DIGEST]|FILE.wasm",
		Short: "Run an aggregate plugin",
		Long: `Run an aggregate plugin over matching records, on the node. There is one result, or one for each
group: --group takes parts of the key, and cap=1h for buckets of capture time counted from 1970 in
UTC. With --tz they are windows of the calendar of a time zone, as in pentad windows: cap=1d is a
local day, cap=1mo a month; times without an offset, e.g. --cap 2026-10, are in the zone. A note on
stderr says if the numbers of several quantities or tenants are merged in a result.

--group also takes what the devices of a tenant have in their descriptions: name, type, group (its
path), group[2] (the path down to its second level), alt, retired or the key of an attribute;
several make a group for each combination. The description is the newest that --asof or the present
shows, whenever a reading was captured, as with --select. Devices without it are a group of their
own, shown empty or null.

FILE.wasm is sent with the query: the node compiles it once, by digest, and caches it in memory
only. To use a filter from a file: pentad get or count with --filter FILE.wasm.`,
		Args: cli.Arguments(1, 1, "the name of the plugin, or a file with its module"),
		Example: `  pentad plugin run stats --group cid,moid
  pentad plugin run stats --cid 1 --cap now-7d.. --group mid,moid,cap=1d
  pentad plugin run stats --cid 1 --moid 1 --cap 2026-10 --group cap=1d --tz Europe/Helsinki
  pentad plugin run stats --cid 1 --moid 1 --group group[2],type --select 'group^=oulu/'
  pentad plugin run ./peaks.wasm --cid 1
  pentad plugin run stats --moid 1 --group cid -o csv`,
		RunE: func(c *cobra.Command, args []string) error {
			query, err := runQuery(c.Context(), a.App, &q, string(groupBy), string(zone))
			if err != nil {
				return err
			}
			return a.pluginRun(c.Context(), args[0], params, query, &q)
		},
		ValidArgsFunction: a.completePlugins(func(p *client.PluginInfo) bool {
			return p.Aggregate
		}),
	}
	q.AddBox(c)
	queryflags.TimesInZone(c)
	q.AddFilter(c)
	q.AddSkipUnreadable(c)
	flags := c.Flags()
	flags.StringVar(&params, "params", "",
		"parameters of the plugin: NAME=VALUE,...; field=NAME selects a field\nof the quantity, "+
			"see pentad quantity")
	flags.Var(&groupBy, "group",
		"groups: cid, mid, moid and cap=LENGTH, e.g. mid,cap=1h; type,\ngroup[2], an attribute")
	flags.Var(&zone, "tz",
		"time zone of times and of the windows of --group cap=LENGTH,\ne.g. Europe/Helsinki, "+
			"-8 or +05:30 (default: buckets, in UTC)")
	cli.CompleteZone(c, "tz")
	flags.Uint64Var(&q.Limit, "limit", 0, "maximum number of groups, e.g. 100 (0: no limit)")
	cli.Elsewhere(c, "every", "use --group cap=1d with --tz, or pentad windows")
	cli.Elsewhere(c, "agg", "the plugin is an argument: pentad plugin run NAME")
	q.AddWhereType(c, "that of the plugin is a parameter: --params type=f64")
	return c
}

// completePlugins offers the names of the node's plugins to the shell, of those that fit.
func (a *app) completePlugins(fits func(*client.PluginInfo) bool) cobra.CompletionFunc {
	return cli.First(a.Completion(cli.PluginNames(fits)))
}

// runQuery puts the query together, without the plugin.
func runQuery(
	ctx context.Context, a *cli.App, q *queryflags.Flags, groupBy, zone string,
) (*record.Query, error) {
	var err error
	if zone = timeparse.ZoneName(zone); zone != "" {
		if q.Loc, err = timeparse.Location(zone); err != nil {
			return nil, cli.Usagef("--tz: %w", err)
		}
	}
	query, err := q.Query(ctx, a)
	if err != nil {
		return nil, err
	}
	query.GroupBy, err = queryflags.ParseGroupIn(groupBy, zone)
	return query, err
}

func (a *app) pluginRun(
	ctx context.Context, name, params string, query *record.Query, q *queryflags.Flags,
) error {
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	doc, err := q.AddAggregate(ctx, db, name, params, query)
	if err != nil {
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
	w, err := a.Writer(false, queryflags.GroupColumns(query.GroupBy, doc, names)...)
	if err != nil {
		return err
	}
	shown, err := queryflags.ShownGroups(a.App, q, groups)
	if err != nil {
		return err
	}
	if err := queryflags.WriteGroups(w, query.GroupBy, doc, names, groups[:shown]); err != nil {
		return err
	}
	if err := queryflags.CheckEnd(end); err != nil {
		return err
	}
	if err := q.NoteRun(ctx, a.App, db, query, doc, groups, shown, end, "groups"); err != nil {
		return err
	}
	if queryflags.SumRecords(groups) == 0 && q.FailEmpty {
		return cli.ErrEmpty
	}
	return nil
}
