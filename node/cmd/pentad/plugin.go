package main

import (
	"context"
	"errors"
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
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// maxModuleBytes bounds what is read from a module's file; the node has its own limit.
	maxModuleBytes = 64 << 20
	wasmSuffix     = ".wasm"
)

func (a *app) pluginCommand() *cobra.Command {
	c := group("plugin", "Run code where the data are",
		"  pentad plugin ls\n  pentad plugin run stats --group cid\n"+
			"  pentad plugin show stats",
		a.pluginInitCommand(), a.pluginBuildCommand(), a.pluginTestCommand(),
		a.pluginRunCommand(), a.pluginPushCommand(), a.pluginListCommand(),
		a.pluginShowCommand(), a.pluginLogsCommand(), a.pluginPromoteCommand(),
		a.pluginRemoveCommand())
	c.Long = `Run code where the data are: WebAssembly modules that filter or aggregate records.

To write one: init makes a folder that works, build makes the module, test runs it over records
in files, run FILE.wasm over the records of a node, and push gives it to the node under a name.
A name has versions; wherever a plugin is named, name@digest means one of them, by 8 digits of its
SHA-256 or more.`
	return c
}

func (a *app) pluginPushCommand() *cobra.Command {
	push := client.PluginPush{}
	c := &cobra.Command{
		Use:   "push FILE.wasm",
		Short: "Upload a WebAssembly module",
		Long: `Upload a WebAssembly module as the current version of a name. Earlier versions stay, and can
be promoted again. The node checks it and compiles it, or says what is wrong with it.`,
		Args: arguments(1, 1, "the file with the module"),
		Example: `  pentad plugin push peaks.wasm
  pentad plugin push build/out.wasm --name peaks
  pentad plugin push peaks.wasm --owner ann --description "peaks of a day"`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.pluginPush(c.Context(), args[0], push)
		},
	}
	owner := a.getenv("USER")
	if owner == "pentad" {
		owner = "" // that of the standard plugins
	}
	flags := c.Flags()
	flags.StringVar(&push.Name, "name", "", "name of the plugin (default: that of the file)")
	flags.StringVar(&push.Owner, "owner", owner, "who to ask about it (USER)")
	flags.StringVar(&push.Description, "description", "", "what is new, for people")
	return c
}

func (a *app) pluginPush(ctx context.Context, path string, push client.PluginPush) error {
	if push.Name == "" {
		push.Name = strings.TrimSuffix(filepath.Base(path), wasmSuffix)
	}
	if !record.ValidPluginName(push.Name) {
		return usagef("%q is not a plugin name: 1 to %d of a-z, 0-9, - and _; give one with --name",
			push.Name, record.MaxPluginNameBytes)
	}
	var err error
	if push.Wasm, err = readModule(path); err != nil {
		return err
	}
	return a.withPlugin(ctx, func(db *client.Client) (client.PluginInfo, error) {
		return db.PushVersion(ctx, push)
	})
}

// withPlugin asks the node for something and shows the version of a plugin that it answers with.
func (a *app) withPlugin(
	ctx context.Context, ask func(db *client.Client) (client.PluginInfo, error),
) error {
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	info, err := ask(db)
	if err != nil {
		return err
	}
	return a.one(pluginColumns(), pluginRow(info)...)
}

// readModule reads a file that may also be a device or a pipe without end.
func readModule(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		if file := moduleOf(path); errors.Is(err, os.ErrNotExist) && file != "" {
			err = fmt.Errorf("%w; there is %s", err, file)
		}
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

// moduleOf returns the file that a plugin may be meant by, "" if it is not there.
func moduleOf(name string) string {
	if _, err := os.Stat(name + wasmSuffix); err != nil {
		return ""
	}
	return name + wasmSuffix
}

func pluginColumns() []output.Column {
	return []output.Column{left("name"), left("kind"), left("params"), left("result"),
		right("bytes"), left("standard"), left("sha256"), right("versions"), left("owner"),
		left("uploaded"), left("description"), left("damage")}
}

func pluginRow(info client.PluginInfo) []output.Value {
	params, result := "", ""
	if doc, err := pluginDoc(info); err == nil { // a document that cannot be read is left out
		params, result = describeParams(doc), describeResult(doc)
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

// findPlugin finds the plugin of a call: NAME or NAME@DIGEST, which the node has, or FILE.wasm,
// which goes with the query. The call names exactly the version that was found.
func findPlugin(ctx context.Context, db *client.Client, ref string) (client.PluginInfo,
	*plugin.Doc, record.PluginCall, error) {
	var call record.PluginCall
	var details client.PluginDetails
	var err error
	if strings.HasSuffix(ref, wasmSuffix) {
		call.Name = strings.TrimSuffix(filepath.Base(ref), wasmSuffix)
		if !record.ValidPluginName(call.Name) {
			call.Name = "module"
		}
		if call.Module, err = readModule(ref); err == nil {
			details, err = db.CheckPlugin(ctx, call.Module)
		}
	} else if details, err = db.Plugin(ctx, ref); err == nil {
		call.Name = details.Ref()
	}
	var remote *wire.Error
	if errors.As(err, &remote) && remote.Kind == wire.KindUnknownPlugin {
		err = fmt.Errorf("%s; pentad plugin push adds one", remote.Message)
		if file := moduleOf(ref); file != "" {
			err = fmt.Errorf("%w, and %s lies here, which can be named as well", err, file)
		}
	}
	if err == nil && details.Damage != "" {
		err = codeError{exitDamaged, errors.New(details.Damage)}
	}
	if err != nil {
		return client.PluginInfo{}, nil, call, err
	}
	doc, err := pluginDoc(details.PluginInfo)
	return details.PluginInfo, doc, call, err
}

// encodeParams reads name=value,... and fits them to what the node knows of the quantities of the
// box.
func encodeParams(ctx context.Context, db *client.Client, doc *plugin.Doc, params string,
	box *record.Box, unchecked bool) ([]byte, error) {
	values := map[string]string{}
	if params != "" {
		for pair := range strings.SplitSeq(params, ",") {
			key, value, ok := strings.Cut(pair, "=")
			if _, twice := values[key]; !ok || key == "" || value == "" || twice {
				return nil, usagef("parameters %q: write name=value, joined by commas, each once",
					params)
			}
			values[key] = value
		}
	}
	declared, err := db.Quantities(ctx)
	if err != nil {
		return nil, err
	}
	quantities := make([]plugin.Quantity, len(declared))
	for i, q := range declared {
		quantities[i] = plugin.Quantity{MOID: q.MOID, Name: q.Name, Unit: q.Unit, Type: q.Type}
		for _, f := range q.Fields {
			quantities[i].Fields = append(quantities[i].Fields, plugin.QuantityField(f))
		}
	}
	moids := make([][2]int64, len(box[record.MOID]))
	for i, r := range box[record.MOID] {
		moids[i] = [2]int64{r.From, r.To}
	}
	if err := doc.Fit(values, quantities, moids, unchecked); err != nil {
		return nil, usageError{err}
	}
	encoded, err := doc.EncodeParams(values)
	if err != nil {
		return nil, usageError{err}
	}
	return encoded, nil
}
