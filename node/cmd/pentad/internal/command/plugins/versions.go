package plugins

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

func (a *app) pluginListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls [NAME]",
		Short: "List plugins, or the versions of one",
		Args:  cli.Arguments(0, 1, ""),
		Example: `  pentad plugin ls
  pentad plugin ls stats
  pentad plugin ls -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.pluginHistory(c.Context(), args[0])
			}
			return a.pluginList(c.Context())
		},
		ValidArgsFunction: a.completePlugins(func(*client.PluginInfo) bool { return true }),
	}
}

func (a *app) pluginList(ctx context.Context) error {
	return cli.List(ctx, a.App, (*client.Client).Plugins, pluginColumns(), pluginRow)
}

func (a *app) pluginHistory(ctx context.Context, name string) error {
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	details, err := db.Plugin(ctx, name)
	if err != nil {
		return err
	}
	w, err := a.Writer(false, cli.Left("ref"), cli.Left("current"), cli.Right("bytes"),
		cli.Left("owner"), cli.Left("uploaded"), cli.Left("description"), cli.Left("damage"))
	if err != nil {
		return err
	}
	for _, v := range details.History {
		ref := v.Name + "@" + v.SHA256[:min(len(v.SHA256), 12)]
		if err := w.Row(output.Text(ref), output.Bool(v.Current), output.Bytes(v.Bytes),
			output.Text(v.Owner), uploaded(v), output.Text(v.Description),
			output.Text(v.Damage)); err != nil {
			return err
		}
	}
	return w.Close()
}

func (a *app) pluginShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME[@DIGEST]",
		Short: "Show parameters, results and limits of a plugin",
		Long: `Show parameters, results and limits of a plugin. A call of a module may use fuel_call units of fuel
plus fuel_row for each record, fuel_byte for each byte of payload and fuel_state_byte for each byte
of state that it receives.`,
		Args: cli.Arguments(1, 1, "the name of the plugin"),
		Example: `  pentad plugin show stats
  pentad plugin show threshold -o json
  pentad plugin show count -o ndjson`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.pluginShow(c.Context(), args[0])
		},
		ValidArgsFunction: a.completePlugins(func(*client.PluginInfo) bool { return true }),
	}
}

// shown is a line of what show says: a column and its value.
type shown struct {
	column output.Column
	value  output.Value
}

func (a *app) pluginShow(ctx context.Context, ref string) error {
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := db.Plugin(ctx, ref)
	if err != nil {
		return err
	}
	format, err := a.Format()
	if err != nil {
		return err
	}
	lines := describePlugin(&p)
	if format != output.Table {
		columns, values := make([]output.Column, len(lines)), make([]output.Value, len(lines))
		for i, l := range lines {
			columns[i], values[i] = l.column, l.value
		}
		return a.One(columns, values...)
	}
	w, err := a.Writer(false, cli.Left("what"), cli.Left("value"))
	if err != nil {
		return err
	}
	for _, l := range lines {
		if err := w.Row(output.Text(l.column.Name), l.value); err != nil {
			return err
		}
	}
	return w.Close()
}

func describePlugin(p *client.PluginDetails) []shown {
	about, version := "", ""
	params, result, payload := "", "", ""
	if doc, err := queryflags.PluginDoc(p.PluginInfo); err == nil {
		about, version, payload = doc.About, doc.Version, strings.Join(doc.Payload, ",")
		params, result = queryflags.DescribeParams(doc), queryflags.DescribeResult(doc)
	}
	lines := []shown{{cli.Left("name"), output.Text(p.Name)}, {cli.Left("sha256"),
		output.Text(p.SHA256)}, {cli.Left("current"), output.Bool(p.Current)},
		{cli.Right("versions"), output.Int(p.Versions)}, {cli.Left("standard"),
			output.Bool(p.Standard)}, {cli.Left("kind"), output.Text(pluginKind(
			p.PluginInfo))}, {cli.Left("about"), output.Text(about)},
		{cli.Left("version"), output.Text(version)}, {cli.Left("payload"), output.Text(payload)},
		{cli.Left("params"), output.Text(params)}, {cli.Left("result"), output.Text(result)},
		{cli.Left("owner"), output.Text(p.Owner)}, {cli.Left("description"),
			output.Text(p.Description)}, {cli.Left("uploaded"), uploaded(p.PluginInfo)},
		{cli.Right("bytes"), output.Bytes(p.Bytes)}, {cli.Left("damage"), output.Text(p.Damage)}}
	if l := p.Limits; l != nil {
		lines = append(lines, shown{cli.Right("memory_bytes"), output.Bytes(l.MemoryBytes)},
			shown{cli.Right("state_bytes"), output.Bytes(l.StateBytes)},
			shown{cli.Right("group_state_bytes"), output.Bytes(int64(l.GroupStateBytes))},
			shown{cli.Right("max_groups"), output.Count(l.MaxGroups)},
			shown{cli.Right("result_bytes"), output.Bytes(l.ResultBytes)},
			shown{cli.Right("params_bytes"), output.Bytes(int64(l.ParamsBytes))},
			shown{cli.Right("fuel_start"), output.Count(l.FuelStart)},
			shown{cli.Right("fuel_call"), output.Count(l.FuelCall)},
			shown{cli.Right("fuel_row"), output.Count(l.FuelRow)},
			shown{cli.Right("fuel_byte"), output.Count(l.FuelByte)},
			shown{cli.Right("fuel_state_byte"), output.Count(l.FuelStateByte)})
	}
	return lines
}

func (a *app) pluginPromoteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "promote NAME@DIGEST",
		Short: "Make an earlier version the current one",
		Args:  cli.Arguments(1, 1, "the version NAME@DIGEST; pentad plugin ls NAME lists them"),
		Example: `  pentad plugin promote peaks@` + ExampleDigest + `
  pentad plugin promote peaks@` + ExampleDigest + ` -o json
  pentad plugin promote peaks@` + ExampleDigest + ` -q`,
		RunE: func(c *cobra.Command, args []string) error {
			if !strings.Contains(args[0], "@") {
				return cli.Usagef("%q: no version given; use NAME@DIGEST, pentad plugin ls %s "+
					"lists the versions", args[0], args[0])
			}
			return a.withPlugin(c.Context(), func(db *client.Client) (client.PluginInfo, error) {
				return db.PromotePlugin(c.Context(), args[0])
			})
		},
	}
}

// ExampleDigest begins the digest of the plugin in the examples.
const ExampleDigest = "0123abcd"

func (a *app) pluginRemoveCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "rm NAME[@DIGEST]",
		Short: "Remove a plugin, or one of its versions",
		Long: `Remove a version of a plugin, or with --all every version of a name. Running queries finish. The
current version of several can only be removed with --all, or after another one was promoted. A
plugin that has a single version is removed by its name.`,
		Args: cli.Arguments(1, 1, "the plugin"),
		Example: `  pentad plugin rm old@` + ExampleDigest + `
  pentad plugin rm old --all
  pentad plugin rm older --all -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.pluginRemove(c.Context(), args[0], all)
		},
		ValidArgsFunction: a.completePlugins(func(p *client.PluginInfo) bool {
			return !p.Standard
		}),
	}
	c.Flags().BoolVar(&all, "all", false, "remove every version of the name")
	return c
}

func (a *app) pluginRemove(ctx context.Context, ref string, all bool) error {
	if strings.Contains(ref, "@") && all {
		return cli.Usagef("%s --all: give a name for all versions, or one version", ref)
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if !strings.Contains(ref, "@") && !all {
		if ref, err = onlyVersion(ctx, db, ref); err != nil {
			return err
		}
	}
	removed, err := db.RemovePlugin(ctx, ref)
	if err != nil {
		return err
	}
	return a.One([]output.Column{cli.Left("name"), cli.Right("removed")}, output.Text(ref),
		output.Int(removed))
}

// onlyVersion names the version of a plugin that has no other. It names the digest, so that a
// version that is uploaded meanwhile stays.
func onlyVersion(ctx context.Context, db *client.Client, name string) (ref string, err error) {
	p, err := db.Plugin(ctx, name)
	switch {
	case err != nil:
		return "", err
	case p.Versions > 1:
		return "", cli.Usagef("%s: has %d versions; use NAME@DIGEST, or --all for all versions",
			name, p.Versions)
	}
	return p.Ref(), nil
}

func (a *app) pluginLogsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logs [NAME]",
		Short: "Show recent failures of plugins",
		Long: `Show recent failures of plugins, newest first: time, export, record, message of the plugin and
query. A node remembers 32 failures of each plugin until it stops.`,
		Args: cli.Arguments(0, 1, ""),
		Example: `  pentad plugin logs
  pentad plugin logs stats
  pentad plugin logs stats -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.pluginLogs(c.Context(), strings.Join(args, ""))
		},
		ValidArgsFunction: a.completePlugins(func(*client.PluginInfo) bool { return true }),
	}
}

func (a *app) pluginLogs(ctx context.Context, name string) error {
	if name, _, ok := record.SplitPluginRef(name); name != "" && !ok {
		return cli.Usagef("%q is not a plugin name", name)
	}
	name, _, _ = strings.Cut(name, "@")
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	all, err := db.PluginFailures(ctx, name)
	if err != nil {
		return err
	}
	w, err := a.Writer(false, cli.Left("time"), cli.Left("plugin"), cli.Left("what"),
		cli.Left("export"), cli.Left("record"), cli.Left("said"), cli.Left("query"),
		cli.Left("message"), cli.Left("fault"))
	if err != nil {
		return err
	}
	for _, f := range all {
		fault, err := json.Marshal(f.Fault)
		if err != nil {
			return err
		}
		if err := w.Row(output.Time(f.TimeNs), output.Text(f.Plugin), output.Text(f.Fault.What),
			output.Text(f.Fault.Export), output.Text(faultRecord(&f.Fault)),
			output.Text(f.Fault.Message), output.Text(f.Query), output.Text(f.Message),
			output.Raw(fault)); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		a.Note("no plugin has failed since the node started")
	}
	return w.Close()
}

// faultRecord names the record that a plugin failed at, where that is known.
func faultRecord(f *api.Fault) string {
	if !f.Exact || f.First == nil {
		return ""
	}
	return fmt.Sprintf("cid=%d mid=%d moid=%d cap=%s", f.First.CID, f.First.MID, f.First.MOID,
		record.FormatNs(f.First.CapNs))
}
