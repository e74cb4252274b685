package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

func (a *app) pluginListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls [NAME]",
		Short: "List the plugins of the node, or the versions of one",
		Args:  arguments(0, 1, ""),
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
	return list(ctx, a, (*client.Client).Plugins, pluginColumns(), pluginRow)
}

func (a *app) pluginHistory(ctx context.Context, name string) error {
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	details, err := db.Plugin(ctx, name)
	if err != nil {
		return err
	}
	w, err := a.writer(false, left("ref"), left("current"), right("bytes"), left("owner"),
		left("uploaded"), left("description"), left("damage"))
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
		Short: "Show a plugin: its parameters, results and limits",
		Long: `Show a plugin: what it is, its parameters and results, and its limits in numbers. A call of a
module may use fuel_call units of fuel and, beside them, fuel_row for each record, fuel_byte for
each byte of payload and fuel_state_byte for each byte of state that it gets.`,
		Args: arguments(1, 1, "the name of the plugin"),
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
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := db.Plugin(ctx, ref)
	if err != nil {
		return err
	}
	format, err := a.format()
	if err != nil {
		return err
	}
	lines := describePlugin(&p)
	if format != output.Table {
		columns, values := make([]output.Column, len(lines)), make([]output.Value, len(lines))
		for i, l := range lines {
			columns[i], values[i] = l.column, l.value
		}
		return a.one(columns, values...)
	}
	w, err := a.writer(false, left("what"), left("value"))
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
	if doc, err := pluginDoc(p.PluginInfo); err == nil {
		about, version, payload = doc.About, doc.Version, strings.Join(doc.Payload, ",")
		params, result = describeParams(doc), describeResult(doc)
	}
	lines := []shown{{left("name"), output.Text(p.Name)}, {left("sha256"), output.Text(p.SHA256)},
		{left("current"), output.Bool(p.Current)}, {right("versions"), output.Int(p.Versions)},
		{left("standard"), output.Bool(p.Standard)}, {left("kind"), output.Text(pluginKind(
			p.PluginInfo))}, {left("about"), output.Text(about)},
		{left("version"), output.Text(version)}, {left("payload"), output.Text(payload)},
		{left("params"), output.Text(params)}, {left("result"), output.Text(result)},
		{left("owner"), output.Text(p.Owner)}, {left("description"), output.Text(p.Description)},
		{left("uploaded"), uploaded(p.PluginInfo)}, {right("bytes"), output.Bytes(p.Bytes)},
		{left("damage"), output.Text(p.Damage)}}
	if l := p.Limits; l != nil {
		lines = append(lines, shown{right("memory_bytes"), output.Bytes(l.MemoryBytes)},
			shown{right("state_bytes"), output.Bytes(l.StateBytes)},
			shown{right("group_state_bytes"), output.Bytes(int64(l.GroupStateBytes))},
			shown{right("max_groups"), output.Count(l.MaxGroups)},
			shown{right("result_bytes"), output.Bytes(l.ResultBytes)},
			shown{right("params_bytes"), output.Bytes(int64(l.ParamsBytes))},
			shown{right("fuel_start"), output.Count(l.FuelStart)},
			shown{right("fuel_call"), output.Count(l.FuelCall)},
			shown{right("fuel_row"), output.Count(l.FuelRow)},
			shown{right("fuel_byte"), output.Count(l.FuelByte)},
			shown{right("fuel_state_byte"), output.Count(l.FuelStateByte)})
	}
	return lines
}

func (a *app) pluginPromoteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "promote NAME@DIGEST",
		Short: "Make an earlier version the current one",
		Args:  arguments(1, 1, "the version, as name@digest; pentad plugin ls NAME lists them"),
		Example: `  pentad plugin promote peaks@` + exampleDigest + `
  pentad plugin promote peaks@` + exampleDigest + ` -o json
  pentad plugin promote peaks@` + exampleDigest + ` -q`,
		RunE: func(c *cobra.Command, args []string) error {
			if !strings.Contains(args[0], "@") {
				return usagef("%q is the current version of itself; write name@digest; pentad "+
					"plugin ls %s lists the versions", args[0], args[0])
			}
			return a.withPlugin(c.Context(), func(db *client.Client) (client.PluginInfo, error) {
				return db.PromotePlugin(c.Context(), args[0])
			})
		},
	}
}

// exampleDigest begins the digest of the plugin in the examples.
const exampleDigest = "0123abcd"

func (a *app) pluginRemoveCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "rm NAME[@DIGEST]",
		Short: "Remove a version of a plugin, or all of it",
		Long: `Remove a version of a plugin, or with --all every version of a name. Queries that run in it go
on. The current version is removed with all only; promote another one first.`,
		Args: arguments(1, 1, "the plugin"),
		Example: `  pentad plugin rm old@` + exampleDigest + `
  pentad plugin rm old --all
  pentad plugin rm older --all -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			if !strings.Contains(args[0], "@") && !all {
				return usagef("%s means all versions; say --all, or name@digest for one of them",
					args[0])
			}
			return a.pluginRemove(c.Context(), args[0])
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every version of the name")
	return c
}

func (a *app) pluginRemove(ctx context.Context, ref string) error {
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	removed, err := db.RemovePlugin(ctx, ref)
	if err != nil {
		return err
	}
	return a.one([]output.Column{left("name"), right("removed")}, output.Text(ref),
		output.Int(removed))
}

func (a *app) pluginLogsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logs [NAME]",
		Short: "Show the last failures of plugins, the newest first",
		Long: `Show the last failures of plugins, the newest first: when, in which export, at which record,
what the plugin said and what was asked. A node remembers 32 of each plugin until it ends.`,
		Args: arguments(0, 1, ""),
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
		return usagef("%q is not a plugin name", name)
	}
	name, _, _ = strings.Cut(name, "@")
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	all, err := db.PluginFailures(ctx, name)
	if err != nil {
		return err
	}
	w, err := a.writer(false, left("time"), left("plugin"), left("what"), left("export"),
		left("record"), left("said"), left("query"), left("message"), left("fault"))
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
		a.note("no plugin has failed since the node began")
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
