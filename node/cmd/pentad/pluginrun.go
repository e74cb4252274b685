package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

func (a *app) pluginRunCommand() *cobra.Command {
	var q queryFlags
	var params, groupBy string
	c := &cobra.Command{
		Use:   "run NAME[@DIGEST]|FILE.wasm",
		Short: "Run an aggregate plugin over a box",
		Long: `Run an aggregate plugin over a box, on the node. There is one result for everything, or one
for each group: --group takes parts of the key, and cap=1h for buckets of capture time that are
counted from 1970 in UTC.

FILE.wasm goes with the question: the node compiles it once, by its digest, keeps it in memory for a
while and never on disk. A filter in a file is for pentad get and count: --filter FILE.wasm.`,
		Args: arguments(1, 1, "the name of the plugin, or a file with its module"),
		Example: `  pentad plugin run stats
  pentad plugin run stats --cid 1 --cap now-7d.. --group mid,cap=1d
  pentad plugin run ./peaks.wasm --cid 1
  pentad plugin run stats --moid 1 --view latest --group cid -o csv`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.pluginRun(c.Context(), args[0], params, groupBy, &q)
		},
		ValidArgsFunction: a.completePlugins(func(p *client.PluginInfo) bool {
			return p.Aggregate
		}),
	}
	q.addBox(c)
	q.addFilter(c)
	flags := c.Flags()
	flags.StringVar(&params, "params", "", "parameters of the plugin: name=value,... ; "+
		"field=NAME is a field of the quantity, see pentad quantity")
	flags.StringVar(&groupBy, "group", "",
		"one result per cid, mid, moid, cap=LENGTH, as mid,cap=1h")
	flags.Uint64Var(&q.limit, "limit", 0, "at most this many groups (0: all)")
	return c
}

// completePlugins offers the names of the node's plugins to the shell, of those that fit.
func (a *app) completePlugins(fits func(*client.PluginInfo) bool) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) (
		[]cobra.Completion, cobra.ShellCompDirective) {
		const completeTimeout = 2 * time.Second // a key press should not wait longer
		ctx, cancel := context.WithTimeout(c.Context(), completeTimeout)
		defer cancel()
		db, err := a.connect(ctx)
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

func (a *app) pluginRun(ctx context.Context, name, params, groupBy string, q *queryFlags) error {
	query, err := q.query(a)
	if err != nil {
		return err
	}
	if query.GroupBy, err = parseGroup(groupBy); err != nil {
		return err
	}
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	doc, err := q.addAggregate(ctx, db, name, params, query)
	if err != nil {
		return err
	}
	groups, end, err := db.Aggregate(ctx, query)
	if err != nil {
		return err
	}
	w, err := a.writer(false, groupColumns(query.GroupBy, doc)...)
	if err != nil {
		return err
	}
	records := sumRecords(groups)
	shown, err := a.shownGroups(q, groups)
	if err != nil {
		return err
	}
	if err := writeGroups(w, query.GroupBy, doc, groups[:shown]); err != nil {
		return err
	}
	if err := checkEnd(end); err != nil {
		return err
	}
	if shown < len(groups) {
		a.note("shown %d of %s; -o ndjson for all", shown, output.Thousands(len(groups)))
	}
	a.note("ran on %s records in %s, %s groups", output.Thousands(records),
		output.Duration(time.Duration(end.TookNs)), output.Thousands(len(groups)))
	if records == 0 && q.failEmpty {
		return errEmpty
	}
	return nil
}

// addAggregate puts an aggregate, by its name or in a file, and the filters before it into a query.
func (q *queryFlags) addAggregate(
	ctx context.Context, db *client.Client, name, params string, query *record.Query,
) (*plugin.Doc, error) {
	info, doc, call, err := findPlugin(ctx, db, name)
	if err != nil {
		return nil, err
	}
	if !info.Aggregate {
		return nil, usagef("%s is a filter, which keeps records; pentad get --filter uses it", name)
	}
	call.Params, err = encodeParams(ctx, db, doc, params, &query.Box, q.unchecked)
	if err != nil {
		return nil, err
	}
	query.Aggregate = call
	query.Filters, err = q.calls(ctx, db, &query.Box)
	return doc, err
}

// shownGroups returns how many groups are written: a table is cut unless a limit is given.
func (a *app) shownGroups(q *queryFlags, groups []wire.Group) (int, error) {
	format, err := a.format()
	if format == output.Table && q.limit == 0 {
		return min(len(groups), tableRows), err
	}
	return len(groups), err
}

func sumRecords(groups []wire.Group) (records uint64) {
	for i := range groups {
		records += groups[i].Records
	}
	return records
}

// askGroups runs an aggregate plugin by name, as pluginRun does.
func askGroups(ctx context.Context, db *client.Client, q *record.Query, name, params string) (
	[]wire.Group, *plugin.Doc, error) {
	_, doc, call, err := findPlugin(ctx, db, name)
	if err != nil {
		return nil, nil, err
	}
	if call.Params, err = encodeParams(ctx, db, doc, params, &q.Box, false); err != nil {
		return nil, nil, err
	}
	q.Aggregate = call
	groups, end, err := db.Aggregate(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	return groups, doc, checkEnd(end)
}

func groupColumns(g record.GroupBy, doc *plugin.Doc) []output.Column {
	var columns []output.Column
	for _, c := range []struct {
		grouped bool
		column  output.Column
	}{{g.CID, right("cid")}, {g.MID, right("mid")}, {g.MOID, right("moid")},
		{g.ByCap(), left("cap")}} {
		if c.grouped {
			columns = append(columns, c.column)
		}
	}
	columns = append(columns, right("records"))
	rows := doc.Repeats() > 1
	for _, f := range doc.Result {
		number := f.Type == plugin.F64 || f.Type == plugin.I64 || f.Type == plugin.U64
		columns = append(columns, output.Column{Name: f.Name, Unit: f.Unit,
			Right: number && (rows || !f.Repeat)})
	}
	if len(doc.Result) == 0 {
		columns = append(columns, left("result_hex"))
	}
	return columns
}

func writeGroups(w *output.Writer, g record.GroupBy, doc *plugin.Doc, groups []wire.Group) error {
	for i := range groups {
		group := &groups[i]
		row := append(keyValues(g, group), output.Count(group.Records))
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

// keyValues are the parts of the key that are grouped by.
func keyValues(g record.GroupBy, group *wire.Group) (row []output.Value) {
	if g.CID {
		row = append(row, output.Int(group.CID))
	}
	if g.MID {
		row = append(row, output.Int(group.MID))
	}
	if g.MOID {
		row = append(row, output.Int(group.MOID))
	}
	if g.ByCap() {
		row = append(row, output.Time(group.CapNs))
	}
	return row
}

// writeResult writes a result behind the key of its group. Several fields that repeat together make
// a row for each time, and one without them where there is none.
func writeResult(w *output.Writer, row []output.Value, fields []plugin.Value, repeats int) error {
	once := len(fields)
	if repeats > 1 {
		once -= repeats
	}
	for _, f := range fields[:once] {
		row = append(row, resultValue(f.Value))
	}
	times := 1
	if repeats > 1 {
		times = max(1, len(fields[once].Value.([]any)))
	}
	for i := range times {
		whole := row
		for _, f := range fields[once:] {
			cell := output.Null()
			if list := f.Value.([]any); i < len(list) {
				cell = resultValue(list[i])
			}
			whole = append(whole, cell)
		}
		if err := w.Row(whole...); err != nil {
			return err
		}
	}
	return nil
}

// resultValue is one field of a result as a cell.
func resultValue(v any) output.Value {
	switch v := v.(type) {
	case float64:
		return output.Computed(v)
	case int64:
		return output.Count(v)
	case uint64:
		if v > math.MaxInt64 {
			return output.Text(fmt.Sprint(v))
		}
		return output.Count(v)
	case []byte:
		return output.Text(hex.EncodeToString(v))
	case plugin.Moment:
		return output.Time(int64(v))
	case bool:
		return output.Bool(v)
	case string:
		return output.Text(v)
	case []any:
		for i := range v {
			if ns, ok := v[i].(plugin.Moment); ok {
				v[i] = record.FormatNs(int64(ns))
			}
		}
	}
	list, err := json.Marshal(v)
	if err != nil {
		return output.Text(fmt.Sprint(v)) // a NaN among the numbers
	}
	return output.Raw(list)
}
