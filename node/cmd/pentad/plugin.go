package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// maxModuleBytes bounds what is read from a module's file; the node has its own limit.
const maxModuleBytes = 64 << 20

func (a *app) pluginCommand() *cobra.Command {
	return group("plugin", "Run code where the data are",
		"  pentad plugin ls\n  pentad plugin run stats --group cid", a.pluginPushCommand(),
		a.pluginListCommand(), a.pluginRunCommand())
}

func (a *app) pluginPushCommand() *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "push FILE.wasm",
		Short: "Upload a WebAssembly module",
		Long: `Upload a WebAssembly module, in place of an earlier one with the same name. The node checks
it and compiles it, or says what is wrong with it.`,
		Args: arguments(1, 1, "the file with the module"),
		Example: `  pentad plugin push peaks.wasm
  pentad plugin push build/out.wasm --name peaks`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.pluginPush(c.Context(), args[0], name)
		},
	}
	c.Flags().StringVar(&name, "name", "", "name of the plugin (default: that of the file)")
	return c
}

func (a *app) pluginPush(ctx context.Context, path, name string) error {
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(path), ".wasm")
	}
	if !record.ValidPluginName(name) {
		return usagef("%q is not a plugin name: 1 to %d of a-z, 0-9, - and _; give one with --name",
			name, record.MaxPluginNameBytes)
	}
	module, err := readModule(path)
	if err != nil {
		return err
	}
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	stored, err := db.PushPlugin(ctx, name, module)
	if err != nil {
		return err
	}
	w, err := a.writer(true, pluginColumns()...)
	if err != nil {
		return err
	}
	if err := w.Row(pluginRow(stored)...); err != nil {
		return err
	}
	return w.Close()
}

// readModule reads a file that may also be a device or a pipe without end.
func readModule(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	module, err := io.ReadAll(io.LimitReader(f, maxModuleBytes+1))
	if err == nil && len(module) > maxModuleBytes {
		err = fmt.Errorf("%s has more than %s, the most of a module", path,
			output.Size(maxModuleBytes))
	}
	return module, err
}

func (a *app) pluginListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the plugins of the node, with their parameters",
		Args:  noCommand,
		Example: `  pentad plugin ls
  pentad plugin ls -o json`,
		RunE: func(c *cobra.Command, _ []string) error { return a.pluginList(c.Context()) },
	}
}

func (a *app) pluginList(ctx context.Context) error {
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	plugins, err := db.Plugins(ctx)
	if err != nil {
		return err
	}
	w, err := a.writer(false, pluginColumns()...)
	if err != nil {
		return err
	}
	for _, info := range plugins {
		if err := w.Row(pluginRow(info)...); err != nil {
			return err
		}
	}
	return w.Close()
}

func pluginColumns() []output.Column {
	return []output.Column{left("name"), left("kind"), left("params"), left("result"),
		right("bytes"), left("standard"), left("sha256")}
}

func pluginRow(info client.PluginInfo) []output.Value {
	kind := "filter"
	switch {
	case info.Aggregate && info.Filter:
		kind = "filter, aggregate"
	case info.Aggregate:
		kind = "aggregate"
	}
	params, result := "", ""
	if doc, err := pluginDoc(info); err == nil { // a document that cannot be read is left out
		params, result = describeParams(doc), describeResult(doc)
	}
	return []output.Value{output.Text(info.Name), output.Text(kind), output.Text(params),
		output.Text(result), output.Bytes(info.Bytes), output.Bool(info.Standard),
		output.Text(info.SHA256[:min(len(info.SHA256), 12)])}
}

// describeParams lists parameters as they are given: name=default, or name=TYPE where there is
// no default.
func describeParams(doc *plugin.Doc) string {
	params := make([]string, len(doc.Params))
	for i, p := range doc.Params {
		kind := strings.ToUpper(p.Type)
		if len(p.Enum) > 0 {
			kind = strings.Join(p.Enum, "|")
		}
		params[i] = p.Name + "=" + orElse(p.Default, kind) + bounds(&p)
	}
	return strings.Join(params, ",")
}

// bounds says which values of a parameter are allowed, where not all are.
func bounds(p *plugin.Param) string {
	text := ""
	if p.Min != "" || p.Max != "" {
		text = p.Min + ".." + p.Max
	}
	if p.Unit != "" {
		text = strings.TrimLeft(text+" ", " ") + p.Unit
	}
	if text == "" {
		return ""
	}
	return "[" + text + "]"
}

func describeResult(doc *plugin.Doc) string {
	names := make([]string, len(doc.Result))
	for i, f := range doc.Result {
		names[i] = f.Name
		if f.Repeat {
			names[i] += "..."
		}
	}
	return strings.Join(names, ",")
}

// pluginDoc reads the document of a module; one without describes nothing.
func pluginDoc(info client.PluginInfo) (*plugin.Doc, error) {
	if len(info.Doc) == 0 || string(info.Doc) == "null" {
		return &plugin.Doc{Name: info.Name}, nil
	}
	return plugin.ParseDoc(info.Doc)
}

// findPlugin asks the node for a plugin by its name.
func findPlugin(ctx context.Context, db *client.Client, name string) (client.PluginInfo,
	*plugin.Doc, error) {
	plugins, err := db.Plugins(ctx)
	if err != nil {
		return client.PluginInfo{}, nil, err
	}
	names := make([]string, len(plugins))
	for i, info := range plugins {
		if names[i] = info.Name; info.Name == name {
			doc, err := pluginDoc(info)
			return info, doc, err
		}
	}
	return client.PluginInfo{}, nil, fmt.Errorf("the node has no plugin %q; it has %s; pentad "+
		"plugin push adds one", name, orElse(strings.Join(names, ", "), "none"))
}

func encodeCall(name string, doc *plugin.Doc, params string) (record.PluginCall, error) {
	values := map[string]string{}
	if params != "" {
		for pair := range strings.SplitSeq(params, ",") {
			key, value, ok := strings.Cut(pair, "=")
			if _, twice := values[key]; !ok || key == "" || value == "" || twice {
				return record.PluginCall{}, usagef("parameters %q: write name=value, joined by "+
					"commas, each once", params)
			}
			values[key] = value
		}
	}
	encoded, err := doc.EncodeParams(values)
	if err != nil {
		return record.PluginCall{}, usageError{err}
	}
	return record.PluginCall{Name: name, Params: encoded}, nil
}
