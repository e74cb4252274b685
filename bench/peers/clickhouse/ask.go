package clickhouse

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/bench/peers/server"
	"github.com/pentad-db/pentad/bench/peers/sqltext"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// dialect returns ClickHouse's. Aggregates answer in a half of the time of ORDER BY and LIMIT 1 BY.
func dialect() sqltext.Dialect {
	return sqltext.Dialect{
		// The names differ inside, where an alias would stand for the column that it hides.
		Latest: func(columns, where string) string {
			inside, outside := "", ""
			if strings.Contains(columns, "status") {
				inside, outside = ", argMax(status, acq) AS s", ", s AS status"
			}
			return "SELECT cid, mid, moid, cap, a AS acq, v AS val" + outside +
				" FROM (SELECT cid, mid, moid, cap, max(acq) AS a, argMax(val, acq) AS v" + inside +
				" FROM r" + where + " GROUP BY cid, mid, moid, cap)"
		},
		Last: func(columns, where string) string {
			values, outside := "val", ""
			if strings.Contains(columns, "status") {
				values, outside = "val, status", ", l.4 AS status"
			}
			return "SELECT cid, mid, moid, l.1 AS cap, l.2 AS acq, l.3 AS val" + outside +
				" FROM (SELECT cid, mid, moid, argMax((cap, acq, " + values +
				"), (cap, acq)) AS l FROM r" + where + " GROUP BY cid, mid, moid)"
		}}
}

func (d *db) Ask(
	ctx context.Context, q *system.Query, take func(b *record.Batch),
) (uint64, error) {
	text, args := dialect().Select(q, d.shape)
	text = literal(text, args)
	if q.Want == system.WantCount {
		says, err := d.http.text(ctx, text, nil)
		if err != nil {
			return 0, err
		}
		return strconv.ParseUint(says, 10, 64)
	}
	body, err := d.http.post(ctx, text+" FORMAT Native", nil)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	r := reader{src: bufio.NewReaderSize(body, server.ReadBytes),
		status: d.shape.Status() && q.Want != system.WantGroups}
	count := uint64(0)
	for {
		rows, err := r.next()
		if err == io.EOF {
			return count, nil
		}
		if err != nil {
			return count, err
		}
		count += uint64(rows)
		if err := r.handOut(take); err != nil {
			return count, err
		}
	}
}

// literal puts arguments, whole numbers and floats, in the place of question marks.
func literal(text string, args []any) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "?")
		out.WriteString(before)
		if !found || len(args) == 0 {
			return out.String()
		}
		fmt.Fprint(&out, args[0]) // %v writes floats so that they are read back exactly
		text, args = after, args[1:]
	}
}
