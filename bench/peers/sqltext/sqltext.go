// Package sqltext turns boxes into SQL and rows into batches, for peers that are asked in SQL
// through database/sql.
package sqltext

import (
	"context"
	"database/sql"
	"encoding/binary"
	"math"
	"strings"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// Where returns the condition of a box, with a question mark per argument.
func Where(q *record.Query) (text string, args []any) {
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

// Rows asks for cid, mid, moid, cap, acq, a number and a status, and hands them out in batches.
func Rows(
	ctx context.Context, db *sql.DB, text string, args []any, take func(b *record.Batch),
) (uint64, error) {
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var b record.Batch
	var k record.Key
	var value float64
	var status int64
	var payload []byte
	count := uint64(0)
	for rows.Next() {
		err := rows.Scan(&k.CID, &k.MID, &k.MOID, &k.CapNs, &k.AcqNs, &value, &status)
		if err != nil {
			return count, err
		}
		payload = binary.LittleEndian.AppendUint64(payload[:0], math.Float64bits(value))
		payload = binary.LittleEndian.AppendUint64(payload, uint64(status))
		b.AppendStamped(k, payload)
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
