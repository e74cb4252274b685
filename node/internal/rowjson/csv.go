package rowjson

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/sdk/registry"
)

// table writes rows as CSV: a column for each member, without those that repeat a time in ns.
type table struct {
	out    *csv.Writer
	fields [][]int // of the struct of a row
	cells  []string
}

func newTable(w io.Writer, row any) *table {
	t := &table{out: csv.NewWriter(w)}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(row)) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && !strings.HasSuffix(name, "_ns") {
			t.fields, t.cells = append(t.fields, f.Index), append(t.cells, name)
		}
	}
	return t
}

// head writes the names of the columns.
func (t *table) head() error { return t.write(t.cells) }

func (t *table) row(row any) error {
	of := reflect.ValueOf(row)
	for i, index := range t.fields {
		t.cells[i] = cell(of.FieldByIndex(index).Interface())
	}
	return t.write(t.cells)
}

func (t *table) write(cells []string) error {
	if err := t.out.Write(cells); err != nil {
		return err
	}
	t.out.Flush() // into a buffer
	return t.out.Error()
}

// cell returns the text of a value; what is absent is empty.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case *string:
		if v == nil {
			return ""
		}
		return *v
	case json.RawMessage:
		return string(v)
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []any, map[string]any:
		text, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		return string(text)
	default:
		return fmt.Sprint(v)
	}
}

// groupColumns are the members of a group beside its result, in the order of columns.
var groupColumns = []string{"start", "hours", "cap", "cid", "mid", "moid", "records"}

// WriteGroups writes groups as CSV, with a column for each value of a result, and one for each
// key of descriptions of devices behind mid, see [registry.ParseKeys].
func WriteGroups(w io.Writer, keyText string, groups []map[string]any) error {
	keys := registry.KeyNames(keyText)
	columns, values := []string{"records"}, []string(nil)
	if len(groups) > 0 {
		columns = slices.Clone(groupColumns)
		columns = slices.Insert(columns, slices.Index(columns, "mid")+1, keys...)
		columns = slices.DeleteFunc(columns, func(name string) bool {
			_, ok := groups[0][name]
			return !ok
		})
		result, _ := groups[0]["result"].(map[string]any)
		values = slices.Sorted(maps.Keys(result))
	}
	out := csv.NewWriter(w)
	head := slices.Clone(columns)
	for _, name := range values {
		if slices.Contains(groupColumns, name) || slices.Contains(keys, name) {
			name = "result_" + name
		}
		head = append(head, name)
	}
	if err := out.Write(head); err != nil {
		return err
	}
	for _, g := range groups {
		cells := []string{}
		for _, name := range columns {
			cells = append(cells, cell(g[name]))
		}
		result, _ := g["result"].(map[string]any)
		for _, name := range values {
			cells = append(cells, cell(result[name]))
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
