package queryflags

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// maxModuleBytes bounds what is read from a module's file; the node has its own limit.
	maxModuleBytes = 64 << 20
	WasmSuffix     = ".wasm"
)

// ReadModule reads a file that may also be a device or a pipe without end.
func ReadModule(path string) ([]byte, error) {
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
		err = fmt.Errorf("module %s: larger than the limit of %s", path,
			output.Size(maxModuleBytes))
	}
	return module, err
}

// moduleOf returns the file that a plugin may be meant by, "" if it is not there.
func moduleOf(name string) string {
	if _, err := os.Stat(name + WasmSuffix); err != nil {
		return ""
	}
	return name + WasmSuffix
}

// DescribeParams lists parameters as they are given: name=default, or name=TYPE where there is
// no default.
func DescribeParams(doc *plugin.Doc) string {
	params := make([]string, len(doc.Params))
	for i, p := range doc.Params {
		kind := strings.ToUpper(p.Type)
		if len(p.Enum) > 0 {
			kind = strings.Join(p.Enum, "|")
		}
		params[i] = p.Name + "=" + cli.OrElse(p.Default, kind) + bounds(&p)
	}
	return strings.Join(params, ",")
}

// takes says for an error which parameters a plugin has.
func takes(doc *plugin.Doc) string {
	if len(doc.Params) == 0 {
		return ""
	}
	return "; " + doc.Name + " takes " + DescribeParams(doc)
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

// DescribeResult lists the names of the fields of a result.
func DescribeResult(doc *plugin.Doc) string {
	names := make([]string, len(doc.Result))
	for i, f := range doc.Result {
		names[i] = f.Name
		if f.Repeat {
			names[i] += "..."
		}
	}
	return strings.Join(names, ",")
}

// PluginDoc reads the document of a module; one without describes nothing.
func PluginDoc(info client.PluginInfo) (*plugin.Doc, error) {
	if len(info.Doc) == 0 || string(info.Doc) == "null" {
		return &plugin.Doc{Name: info.Name}, nil
	}
	return plugin.ParseDoc(info.Doc)
}

// unknownPlugin is the error of a name that no plugin has.
type unknownPlugin struct{ error }

// FindPlugin finds the plugin of a call: NAME or NAME@DIGEST, which the node has, or FILE.wasm,
// which goes with the query. The call names exactly the version that was found.
func FindPlugin(ctx context.Context, db *client.Client, ref string) (client.PluginInfo,
	*plugin.Doc, record.PluginCall, error) {
	var call record.PluginCall
	var details client.PluginDetails
	var err error
	if strings.HasSuffix(ref, WasmSuffix) {
		call.Name = strings.TrimSuffix(filepath.Base(ref), WasmSuffix)
		if !record.ValidPluginName(call.Name) {
			call.Name = "module"
		}
		if call.Module, err = ReadModule(ref); err == nil {
			details, err = db.CheckPlugin(ctx, call.Module)
		}
	} else if details, err = db.Plugin(ctx, ref); err == nil {
		call.Name = details.Ref()
	}
	var remote *wire.Error
	if errors.As(err, &remote) && remote.Kind == wire.KindUnknownPlugin {
		err = unknownPlugin{fmt.Errorf("%s; upload it with pentad plugin push", remote.Message)}
		if file := moduleOf(ref); file != "" {
			err = fmt.Errorf("%w, or use the file %s", err, file)
		}
	}
	if err == nil && details.Damage != "" {
		err = cli.Coded(cli.ExitDamaged, errors.New(details.Damage))
	}
	if err != nil {
		return client.PluginInfo{}, nil, call, err
	}
	doc, err := PluginDoc(details.PluginInfo)
	return details.PluginInfo, doc, call, err
}

// EncodeParams reads name=value,... and fits them to what the node knows of the quantities of the
// box.
func (q *Flags) EncodeParams(ctx context.Context, db *client.Client, doc *plugin.Doc,
	params string, box *record.Box) ([]byte, error) {
	encoded, _, err := q.encodeParams(ctx, db, doc, params, box)
	return encoded, err
}

// encodeParams is EncodeParams, and returns the fitted values, too.
func (q *Flags) encodeParams(ctx context.Context, db *client.Client, doc *plugin.Doc,
	params string, box *record.Box) (encoded []byte, values map[string]string, err error) {
	values = map[string]string{}
	if params != "" {
		for pair := range strings.SplitSeq(params, ",") {
			key, value, ok := strings.Cut(pair, "=")
			if _, twice := values[key]; !ok || key == "" || value == "" || twice {
				return nil, nil,
					cli.Usagef("parameters %q: malformed; use NAME=VALUE, separated by commas, "+
						"each once%s", params, takes(doc))
			}
			values[key] = value
		}
	}
	declared, err := q.quantities(ctx, db, nil)
	if err != nil {
		return nil, nil, err
	}
	asked := box.Asked(record.MOID)
	moids := make([][2]int64, len(asked))
	for i, r := range asked {
		moids[i] = [2]int64{r.From, r.To}
	}
	if err := doc.Fit(values, declared, moids, q.Unchecked); err != nil {
		return nil, nil, cli.Usage(err)
	}
	if encoded, err = doc.EncodeParams(values); err != nil {
		return nil, nil, cli.Usage(err)
	}
	return encoded, values, nil
}
