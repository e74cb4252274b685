package queryflags

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// AddAggregate puts an aggregate, by its name or in a file, and the filters before it into a query.
func (q *Flags) AddAggregate(
	ctx context.Context, db *client.Client, name, params string, query *record.Query,
) (*plugin.Doc, error) {
	info, doc, call, err := FindAggregate(ctx, db, name)
	if err != nil {
		return nil, err
	}
	if !info.Aggregate {
		return nil, cli.Usagef("plugin %s: a filter, not an aggregate; use pentad get --filter",
			name)
	}
	query.Aggregate = call
	if query.Filters, err = q.Calls(ctx, db, &query.Box); err != nil {
		return nil, err
	}
	return doc, q.AggregateParams(ctx, db, doc, params, query)
}

// AggregateParams encodes the parameters of the aggregate of a query whose filters are there, and
// puts the filter of --skip-unreadable before them.
func (q *Flags) AggregateParams(ctx context.Context, db *client.Client, doc *plugin.Doc,
	params string, query *record.Query) error {
	encoded, values, err := q.encodeParams(ctx, db, doc, params, &query.Box)
	if err != nil {
		return err
	}
	query.Aggregate.Params = encoded
	return q.skipUnreadable(ctx, db, doc, values, query)
}

// ShownGroups returns how many groups are written: a table is cut unless a limit is given.
func ShownGroups(a *cli.App, q *Flags, groups []wire.Group) (int, error) {
	format, err := a.Format()
	if format == output.Table && q.Limit == 0 {
		return min(len(groups), cli.TableRows), err
	}
	return len(groups), err
}

// NoteRun says what an aggregate ran on, what is not shown, what was left out and what was merged;
// what names the groups.
func (q *Flags) NoteRun(ctx context.Context, a *cli.App, db *client.Client, query *record.Query,
	doc *plugin.Doc, groups []wire.Group, shown int, end wire.End, what string) error {
	if shown < len(groups) {
		a.Note("showing %d of %s; use -o ndjson for all", shown, output.Thousands(len(groups)))
	}
	of, err := q.ofQuantity(ctx, db, query)
	if err != nil {
		return err
	}
	a.Note("ran on %s%s in %s, %s", output.Counted(SumRecords(groups), "records"), of,
		output.Duration(time.Duration(end.TookNs)), output.Counted(len(groups), what))
	if key := query.GroupBy.Key; key != "" && !anyValue(groups) && len(groups) > 0 {
		a.Note("no description of these devices has %s; see pentad device ls", key)
	}
	if readsNumber(doc) && len(groups) > 0 {
		q.noteMerged(ctx, a, db, query)
	}
	return q.NoteUnreadable(ctx, a, db, query)
}

// anyValue reports whether a group has a value of descriptions.
func anyValue(groups []wire.Group) bool {
	return slices.ContainsFunc(groups, func(g wire.Group) bool {
		return slices.ContainsFunc(g.Values, func(v registry.Value) bool { return v.Kind() != 0 })
	})
}

// SumRecords returns the number of records in all groups.
func SumRecords(groups []wire.Group) (records uint64) {
	for i := range groups {
		records += groups[i].Records
	}
	return records
}

// AskGroups runs an aggregate plugin by name.
func AskGroups(ctx context.Context, db *client.Client, q *record.Query, name, params string) (
	[]wire.Group, *plugin.Doc, error) {
	_, doc, call, err := FindAggregate(ctx, db, name)
	if err != nil {
		return nil, nil, err
	}
	var flags Flags
	if call.Params, err = flags.EncodeParams(ctx, db, doc, params, &q.Box); err != nil {
		return nil, nil, err
	}
	q.Aggregate = call
	groups, end, err := db.Aggregate(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	return groups, doc, CheckEnd(end)
}

// GroupColumns returns the columns of an aggregate: the key of the groups, then the result.
// Names adds the quantity of each moid.
func GroupColumns(g record.GroupBy, doc *plugin.Doc, names Names) []output.Column {
	var columns []output.Column
	if g.CID {
		columns = append(columns, cli.Right("cid"))
	}
	if g.MID {
		columns = append(columns, cli.Right("mid"))
	}
	for _, key := range registry.KeyNames(g.Key) {
		columns = append(columns, cli.Left(key))
	}
	for _, c := range []struct {
		grouped bool
		column  output.Column
	}{{g.MOID, cli.Right("moid")}, {names != nil, cli.Left("quantity")},
		{g.ByCap(), cli.Left("cap")}} {
		if c.grouped {
			columns = append(columns, c.column)
		}
	}
	columns = append(columns, cli.Right("records"))
	rows := doc.Repeats() > 1
	for _, f := range doc.Result {
		number := f.Type == plugin.F64 || f.Type == plugin.I64 || f.Type == plugin.U64
		columns = append(columns, output.Column{Name: f.Name, Unit: f.Unit,
			Right: number && (rows || !f.Repeat)})
	}
	if len(doc.Result) == 0 {
		columns = append(columns, cli.Left("result_hex"))
	}
	return columns
}

// WriteGroups writes a row for each group, and closes the writer.
func WriteGroups(w *output.Writer, g record.GroupBy, doc *plugin.Doc, names Names,
	groups []wire.Group) error {
	cal, err := calendar.ForWindow(g.Window)
	if err != nil {
		return err
	}
	for i := range groups {
		group := &groups[i]
		row := append(KeyValues(g, cal, names, group), output.Count(group.Records))
		fields, err := doc.Render(group.Result)
		if err != nil {
			return err
		}
		if err := WriteResult(w, row, fields, doc.Repeats()); err != nil {
			return err
		}
	}
	return w.Close()
}

// KeyValues are the parts of the key that are grouped by. Capture times are those of a calendar if
// there is one.
func KeyValues(
	g record.GroupBy, cal *calendar.Calendar, names Names, group *wire.Group,
) (row []output.Value) {
	if g.CID {
		row = append(row, output.Int(group.CID))
	}
	if g.MID {
		row = append(row, output.Int(group.MID))
	}
	for i := range registry.KeyNames(g.Key) {
		value := registry.Value{} // of a group that is only asked for its columns
		if i < len(group.Values) {
			value = group.Values[i]
		}
		row = append(row, deviceValue(value))
	}
	if g.MOID {
		row = append(row, output.Int(group.MOID))
	}
	if names != nil {
		row = append(row, output.Text(names(group.MOID)))
	}
	switch {
	case g.ByCap() && cal != nil:
		row = append(row, output.LocalTime(group.CapNs, cal.Format(group.CapNs)))
	case g.ByCap():
		row = append(row, output.Time(group.CapNs))
	}
	return row
}

// deviceValue is what a description of a device has for a key, as a cell.
func deviceValue(v registry.Value) output.Value {
	switch v.Kind() {
	case registry.KindText:
		return output.Text(v.Text())
	case registry.KindNumber:
		return output.Float(v.Number())
	case registry.KindBool:
		return output.Bool(v.Number() == 1)
	}
	return output.Null()
}

// WriteResult writes a result behind the key of its group. Several fields that repeat together make
// a row for each time, and one without them where there is none.
func WriteResult(w *output.Writer, row []output.Value, fields []plugin.Value, repeats int) error {
	once := len(fields)
	if repeats > 1 {
		once -= repeats
	}
	for _, f := range fields[:once] {
		row = append(row, resultValue(f.Name, f.Value))
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
				cell = resultValue(f.Name, list[i])
			}
			whole = append(whole, cell)
		}
		if err := w.Row(whole...); err != nil {
			return err
		}
	}
	return nil
}

// namesID reports whether a field of a result, by its name, holds parts of a key: a number that
// names something and is not grouped in thousands.
func namesID(field string) bool {
	for d := range record.NumDims {
		part := record.Dim(d).String()
		if field == part || strings.HasSuffix(field, "_"+part) {
			return true
		}
	}
	return field == "id" || strings.HasSuffix(field, "_id")
}

// resultValue is one field of a result as a cell.
func resultValue(field string, v any) output.Value {
	whole := output.Count[int64]
	if namesID(field) {
		whole = output.Int[int64]
	}
	switch v := v.(type) {
	case float64:
		return output.Computed(v)
	case int64:
		return whole(v)
	case uint64:
		if v > math.MaxInt64 {
			return output.Text(fmt.Sprint(v))
		}
		return whole(int64(v))
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
