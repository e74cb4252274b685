// Package plugins holds pentad plugin: the plugins of a node, and the workshop in which one is
// made, built and tested.
//
// It does not run modules itself: a node does, or package offline in tests of a plugin.
package plugins

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command returns pentad plugin.
func Command(shared *cli.App) *cobra.Command {
	a := &app{shared}
	c := cli.Group("plugin", "Manage and run WebAssembly plugins",
		"  pentad plugin ls\n  pentad plugin run stats --group cid\n"+
			"  pentad plugin show stats",
		a.pluginRunCommand(), a.pluginPushCommand(), a.pluginListCommand(),
		a.pluginShowCommand(), a.pluginPromoteCommand(), a.pluginRemoveCommand(),
		a.pluginLogsCommand(), a.pluginInitCommand(), a.pluginBuildCommand(),
		a.pluginTestCommand())
	c.Long = `Manage and run plugins: WebAssembly modules that filter or aggregate records on the node.

To write one: init creates a project, build compiles the module, test runs it on records in files,
run FILE.wasm runs it on the records of a node, and push uploads it under a name. A name has
versions; wherever a plugin is named, name@digest selects a version by at least 8 digits of its
SHA-256.`
	return c
}

func (a *app) pluginPushCommand() *cobra.Command {
	push := client.PluginPush{}
	c := &cobra.Command{
		Use:   "push FILE.wasm",
		Short: "Upload a plugin",
		Long: `Upload a WebAssembly module as the current version of a name. Earlier versions are kept and can be
promoted again. The node checks and compiles the module, and reports errors.`,
		Args: cli.Arguments(1, 1, "the file with the module"),
		Example: `  pentad plugin push peaks.wasm
  pentad plugin push build/out.wasm --name peaks
  pentad plugin push peaks.wasm --owner ann --description "peaks of a day"`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.pluginPush(c.Context(), args[0], push)
		},
	}
	owner := a.Getenv("USER")
	if owner == "pentad" {
		owner = "" // that of the standard plugins
	}
	flags := c.Flags()
	flags.StringVar(&push.Name, "name", "", "name of the plugin (default: name of the file)")
	flags.StringVar(&push.Owner, "owner", owner, "owner of the plugin, e.g. ann (USER)")
	flags.StringVar(&push.Description, "description", "",
		"description of this version, e.g. 'peaks of a day'")
	return c
}

func (a *app) pluginPush(ctx context.Context, path string, push client.PluginPush) error {
	if push.Name == "" {
		push.Name = strings.TrimSuffix(filepath.Base(path), queryflags.WasmSuffix)
	}
	if err := checkName(push.Name); err != nil {
		return cli.Usagef("%w; give one with --name", err)
	}
	var err error
	if push.Wasm, err = queryflags.ReadModule(path); err != nil {
		return err
	}
	return a.withPlugin(ctx, func(db *client.Client) (client.PluginInfo, error) {
		return db.PushVersion(ctx, push)
	})
}

// checkName refuses a name that a new plugin cannot have.
func checkName(name string) error {
	switch {
	case !record.ValidPluginName(name):
		return cli.Usagef("%.80q is not a plugin name: 1 to %d of a-z, 0-9, - and _", name,
			record.MaxPluginNameBytes)
	case name[0] == '-':
		return cli.Usagef("%q is not a plugin name: a command would read it as a flag", name)
	case !record.NewPluginName(name):
		return cli.Usagef("%q is not a plugin name: it is a device of Windows", name)
	}
	return nil
}

// withPlugin asks the node for something and shows the version of a plugin that it answers with.
func (a *app) withPlugin(
	ctx context.Context, ask func(db *client.Client) (client.PluginInfo, error),
) error {
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	info, err := ask(db)
	if err != nil {
		return err
	}
	return a.One(pluginColumns(), pluginRow(info)...)
}

func pluginColumns() []output.Column {
	return []output.Column{cli.Left("name"), cli.Left("kind"), cli.Left("params"),
		cli.Left("result"), cli.Right("bytes"), cli.Left("standard"), cli.Left("sha256"),
		cli.Right("versions"), cli.Left("owner"), cli.Left("uploaded"), cli.Left("description"),
		cli.Left("damage")}
}

func pluginRow(info client.PluginInfo) []output.Value {
	params, result := "", ""
	// A document that cannot be read is left out.
	if doc, err := queryflags.PluginDoc(info); err == nil {
		params, result = queryflags.DescribeParams(doc), queryflags.DescribeResult(doc)
	}
	return []output.Value{output.Text(info.Name), output.Text(pluginKind(info)),
		output.Text(params), output.Text(result), output.Bytes(info.Bytes),
		output.Bool(info.Standard), output.Text(info.SHA256[:min(len(info.SHA256), 12)]),
		output.Int(info.Versions), output.Text(info.Owner), uploaded(info),
		output.Text(info.Description), output.Text(info.Damage)}
}

func uploaded(info client.PluginInfo) output.Value {
	if info.UploadedNs == 0 {
		return output.Text("")
	}
	return output.Time(info.UploadedNs)
}

func pluginKind(info client.PluginInfo) string {
	switch {
	case info.Aggregate && info.Filter:
		return "filter, aggregate"
	case info.Aggregate:
		return "aggregate"
	case info.Filter:
		return "filter"
	}
	return "" // it is damaged, or was not used since the node began
}
