package influxdb

import (
	"context"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

func (d *db) Ask(
	ctx context.Context, q *system.Query, take func(b *record.Batch),
) (uint64, error) {
	if err := check(q, d.shape); err != nil {
		return 0, err
	}
	caps := q.Box[record.Cap]
	if len(caps) == 0 {
		caps = record.RangeSet{record.All(record.Cap)}
	}
	if q.Want == system.WantLast && len(caps) > 1 { // the last of the lasts
		r := system.NewReducer(q, take)
		_, err := d.each(ctx, q, caps, r.Add)
		return r.Finish(), err
	}
	return d.each(ctx, q, caps, take)
}

// each asks for each range of cap: InfluxQL has one per statement.
func (d *db) each(
	ctx context.Context, q *system.Query, caps record.RangeSet, take func(b *record.Batch),
) (rows uint64, err error) {
	for _, r := range caps {
		n, err := d.ask(ctx, q, statement(q, d.shape, r), take)
		rows += n
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// ask runs a statement. Rows come in chunks, or the server would gather them all; the last records
// do not, as a chunk holds one series.
func (d *db) ask(
	ctx context.Context, q *system.Query, text string, take func(b *record.Batch),
) (uint64, error) {
	chunked := q.Want == system.WantRows || q.Want == system.WantAbove
	body, err := d.http.query(ctx, text, chunked)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	if q.Want == system.WantCount {
		take = nil
	}
	r := reader{take: take, status: d.shape.Status() && q.Want != system.WantGroups,
		times: q.Want != system.WantGroups || q.By.CapBucketNs > 0}
	err = r.read(body)
	if q.Want == system.WantCount {
		return uint64(r.row.count), err
	}
	return r.rows, err
}
