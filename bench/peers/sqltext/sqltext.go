// Package sqltext turns queries into SQL and rows into batches, for peers that are asked in SQL.
//
// All have a table r (cid, mid, moid, cap, acq, val, status), the last only when payloads have a
// status word; some have a table series of its distinct (cid, mid, moid).
package sqltext

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// Dialect is how a database says what the standard does not. Functions get the columns that are
// asked for and the condition, with its WHERE, or nothing.
type Dialect struct {
	// Latest selects the newest version of each reading.
	Latest func(columns, where string) string
	// Last selects of each series the record with the greatest cap.
	Last func(columns, where string) string
	// Divide is the operator that divides whole numbers; empty where it is the function intDiv.
	Divide string
}

// Columns returns the columns of a record.
func Columns(shape system.Shape) []string {
	columns := []string{"cid", "mid", "moid", "cap", "acq", "val"}
	if shape.Status() {
		columns = append(columns, "status")
	}
	return columns
}

// Select returns the text of a query, with a question mark per argument.
func (d Dialect) Select(q *system.Query, shape system.Shape) (text string, args []any) {
	columns := strings.Join(Columns(shape), ", ")
	where, args := Where(q)
	if q.Want == system.WantLast { // of versions it is the newest, in any view
		if isSeries(q) && len(q.Box[record.Acq]) == 0 { // an index ends there
			return "SELECT " + columns + " FROM r" + where + " ORDER BY cap DESC, acq DESC LIMIT 1",
				args
		}
		return d.Last(columns, where), args
	}
	from := "r" + where
	if q.View != record.ViewAll {
		from = "(" + d.Latest(columns, where) + ") l"
	}
	switch q.Want {
	case system.WantCount:
		return "SELECT count(*) FROM " + from, args
	case system.WantAbove:
		return "SELECT " + columns + " FROM " + from + joinWord(from) + "val > ?",
			append(args, q.Above)
	case system.WantGroups:
		return d.groups(q, from), args
	default:
		return "SELECT " + columns + " FROM " + from, args
	}
}

func joinWord(from string) string {
	if strings.Contains(from, " WHERE ") && !strings.HasSuffix(from, " l") {
		return " AND "
	}
	return " WHERE "
}

// isSeries reports whether the box is that of one series.
func isSeries(q *system.Query) bool {
	for _, d := range []record.Dim{record.CID, record.MID, record.MOID} {
		if set := q.Box[d]; len(set) != 1 || set[0].To-set[0].From != 1 {
			return false
		}
	}
	return true
}

func (d Dialect) groups(q *system.Query, from string) string {
	parts := make([]string, 0, 6)
	var by []string
	add := func(grouped bool, expression string) {
		if !grouped {
			parts = append(parts, "0")
			return
		}
		parts = append(parts, expression)
		by = append(by, expression)
	}
	add(q.By.CID, "cid")
	add(q.By.MID, "mid")
	add(q.By.MOID, "moid")
	add(q.By.CapBucketNs > 0, Bucket(q.By.CapBucketNs, d.Divide))
	function := [...]string{system.FuncMax: "max", system.FuncMean: "avg", system.FuncSum: "sum"}
	parts = append(parts, "0", function[q.Func]+"(val)")
	text := "SELECT " + strings.Join(parts, ", ") + " FROM " + from
	if len(by) == 0 {
		// No group of no rows. With count(*) in place of the sum DuckDB 1.5 answers from
		// statistics, and fails with an internal error when several conditions together exclude
		// all of a table.
		return text + " HAVING sum(1) > 0"
	}
	return text + " GROUP BY " + strings.Join(by, ", ")
}

// Where returns the condition of a query, with a question mark per argument.
func Where(q *system.Query) (text string, args []any) {
	var conditions []string
	for d := range record.Dim(record.NumDims) {
		var parts []string
		for _, r := range q.Box[d] {
			part, values := condition(d, r)
			parts = append(parts, part)
			args = append(args, values...)
		}
		if len(parts) > 0 {
			conditions = append(conditions, "("+strings.Join(parts, " OR ")+")")
		}
	}
	if q.View == record.ViewAsOf {
		conditions = append(conditions, "acq < ?")
		args = append(args, q.AsOfAcqNs)
	}
	if len(conditions) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(conditions, " AND "), args
}

func condition(d record.Dim, r record.Range) (string, []any) {
	switch name := d.String(); {
	case r.To-r.From == 1:
		return name + " = ?", []any{r.From}
	case r.To == d.Max():
		return name + " >= ?", []any{r.From}
	default:
		return name + " >= ? AND " + name + " < ?", []any{r.From, r.To}
	}
}

// Ask asks a database and hands the rows out in batches.
func (d Dialect) Ask(
	ctx context.Context, db *sql.DB, q *system.Query, shape system.Shape,
	take func(b *record.Batch), rewrite func(string) string,
) (uint64, error) {
	text, args := d.Select(q, shape)
	text = rewrite(text)
	if q.Want == system.WantCount {
		var rows uint64
		err := db.QueryRowContext(ctx, text, args...).Scan(&rows)
		return rows, err
	}
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	return batches(rows, shape.Status() && q.Want != system.WantGroups, take)
}

// Same changes nothing.
func Same(text string) string { return text }

func batches(rows *sql.Rows, status bool, take func(b *record.Batch)) (uint64, error) {
	var b record.Batch
	var payload []byte
	// Into any: where a driver's type is another than the field's, such as int64 and int32, package
	// sql would print and parse the number.
	fields := make([]any, len(Columns(system.Shape{})), columnsMax)
	if status {
		fields = fields[:columnsMax]
	}
	values := make([]any, len(fields))
	for i := range fields {
		fields[i] = &values[i]
	}
	count := uint64(0)
	for rows.Next() {
		if err := rows.Scan(fields...); err != nil {
			return count, err
		}
		number, ok := values[5].(float64)
		if !ok {
			return count, fmt.Errorf("a value of type %T", values[5])
		}
		payload = system.AppendNumber(payload[:0], number)
		if status {
			payload = binary.LittleEndian.AppendUint64(payload, uint64(whole(values[6])))
		}
		b.AppendStamped(record.Key{CID: int32(whole(values[0])), MID: whole(values[1]),
			MOID: int32(whole(values[2])), CapNs: whole(values[3]), AcqNs: whole(values[4])},
			payload)
		count++
		if b.Len() >= system.TakeRows {
			take(&b)
			b.Reset()
		}
	}
	if b.Len() > 0 {
		take(&b)
	}
	return count, rows.Err()
}

// columnsMax is the number of columns of a record with a status word.
const columnsMax = 7

// whole returns a whole number of any of the types that drivers have; what is none is -1, which the
// oracle refuses.
func whole(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case int32:
		return int64(v)
	case int16:
		return int64(v)
	case int8:
		return int64(v)
	}
	return -1
}

// Values returns the fields of a row of a batch, in the order of [Columns].
func Values(b *record.Batch, i int, shape system.Shape) []any {
	p := b.Payload(i)
	values := []any{b.CID[i], b.MID[i], b.MOID[i], b.CapNs[i], b.AcqNs[i], system.Number(p)}
	if shape.Status() {
		values = append(values, int64(binary.LittleEndian.Uint64(p[system.NumberBytes:])))
	}
	return values
}
