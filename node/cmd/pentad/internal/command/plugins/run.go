package plugins

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/client"
)

func (a *app) pluginRunCommand() *cobra.Command {
	var q queryflags.Flags
	var params, groupBy string
	c := &cobra.Command{
		Use:   "run NAME[@DIGEST]|FILE.wasm",
		Short: "Run an aggregate plugin",
		Long: `Run an aggregate plugin over matching records, on the node. There is one result, or one for each
group: --group takes parts of the key, and cap=1h for buckets of capture time counted from 1970 in
UTC.

FILE.wasm is sent with the query: the node compiles it once, by digest, and caches it in memory
only. To use a filter from a file: pentad get or count with --filter FILE.wasm.`,
		Args: cli.Arguments(1, 1, "the name of the plugin, or a file with its module"),
		Example: `  pentad plugin run stats
  pentad plugin run stats --cid 1 --cap now-7d.. --group mid,cap=1d
  pentad plugin run ./peaks.wasm --cid 1
  pentad plugin run stats --moid 1 --group cid -o csv`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.pluginRun(c.Context(), args[0], params, groupBy, &q)
		},
		ValidArgsFunction: a.completePlugins(func(p *client.PluginInfo) bool {
			return p.Aggregate
		}),
	}
	q.AddBox(c)
	q.AddFilter(c)
	q.AddSkipUnreadable(c)
	flags := c.Flags()
	flags.StringVar(&params, "params", "",
		"parameters of the plugin: NAME=VALUE,...; field=NAME selects a field\nof the quantity, "+
			"see pentad quantity")
	flags.StringVar(&groupBy, "group", "", "groups: cid, mid, moid and cap=LENGTH, e.g. mid,cap=1h")
	flags.Uint64Var(&q.Limit, "limit", 0, "maximum number of groups, e.g. 100 (0: no limit)")
	return c
}

// completePlugins offers the names of the node's plugins to the shell, of those that fit.
func (a *app) completePlugins(fits func(*client.PluginInfo) bool) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) (
		[]cobra.Completion, cobra.ShellCompDirective) {
		const completeTimeout = 2 * time.Second // a key press should not wait longer
		ctx, cancel := context.WithTimeout(c.Context(), completeTimeout)
		defer cancel()
		db, err := a.Connect(ctx)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer db.Close()
		plugins, err := db.Plugins(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []cobra.Completion
		for i := range plugins {
			if fits(&plugins[i]) {
				names = append(names, plugins[i].Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) pluginRun(
	ctx context.Context, name, params, groupBy string, q *queryflags.Flags,
) error {
	query, err := q.Query(a.App)
	if err != nil {
		return err
	}
	if query.GroupBy, err = queryflags.ParseGroup(groupBy); err != nil {
		return err
	}
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
	if err := q.NoteRun(ctx, a.App, db, query, groups, shown, end, "groups"); err != nil {
		return err
	}
	if queryflags.SumRecords(groups) == 0 && q.FailEmpty {
		return cli.ErrEmpty
	}
	return nil
}
