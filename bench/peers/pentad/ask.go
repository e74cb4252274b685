package pentad

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/where"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Ask implements [system.System].
func (d *db) Ask(
	ctx context.Context, q *system.Query, take func(b *record.Batch),
) (uint64, error) {
	d.cost = system.Cost{}
	if q.Want == system.WantRows && q.Select == "" {
		return d.rows(ctx, &q.Query, take)
	}
	own := q.Query
	if own.Select != "" {
		own.Box[record.MID] = nil
	}
	switch q.Want {
	case system.WantCount:
		return d.count(ctx, &own)
	case system.WantLast:
		own.Last = 1
		if own.View == record.ViewAll { // whose last version is the last row
			own.View = record.ViewLatest
		}
	case system.WantGroups:
		return d.group(ctx, q, take)
	case system.WantAbove:
		if d.numbers {
			var err error
			above := "value > " + strconv.FormatFloat(q.Above, 'g', -1, 64)
			if own.Where, err = where.Typed(above, plugin.F64); err != nil {
				return 0, err
			}
			break
		}
		// Parameters: type f64, offset 0, relation "greater than", the value.
		own.Filters = []record.PluginCall{{Name: "threshold",
			Params: system.AppendNumber(make([]byte, 24), q.Above)}}
	}
	return d.rows(ctx, &own, take)
}

func (d *db) rows(
	ctx context.Context, q *record.Query, take func(b *record.Batch),
) (rows uint64, err error) {
	emit := func(b *record.Batch) error {
		take(b)
		return nil
	}
	var end wire.End
	if d.client != nil {
		end, err = d.client.Scan(ctx, q, emit)
	} else {
		end, err = d.node.Query(ctx, q, emit)
	}
	d.spent(&end)
	return end.Rows, err
}

// spent adds what a request cost to the cost of the answer.
func (d *db) spent(end *wire.End) {
	d.cost.Blocks += end.BlocksScanned
	d.cost.Examined += end.RowsExamined
}

func (d *db) aggregate(
	ctx context.Context, q *record.Query,
) (groups []wire.Group, err error) {
	var end wire.End
	if d.client != nil {
		groups, end, err = d.client.Aggregate(ctx, q)
	} else {
		groups, end, err = d.node.Aggregate(ctx, q)
	}
	d.spent(&end)
	return groups, err
}

func (d *db) count(ctx context.Context, q *record.Query) (rows uint64, err error) {
	var end wire.End
	if d.client != nil {
		rows, end, err = d.client.Count(ctx, q)
	} else {
		rows, end, err = d.node.Count(ctx, q)
	}
	d.spent(&end)
	return rows, err
}

// group asks the stats plugin, which computes more than is wanted.
func (d *db) group(
	ctx context.Context, q *system.Query, take func(b *record.Batch),
) (uint64, error) {
	own := q.Query
	own.Aggregate.Name, own.GroupBy = "stats", q.By
	groups, err := d.aggregate(ctx, &own)
	if err != nil {
		return 0, err
	}
	// The result of stats: count, sum, min, max, mean, variance.
	field := [...]int{system.FuncMax: 3, system.FuncMean: 4, system.FuncSum: 1}[q.Func]
	b := &d.groups
	b.Reset()
	var payload []byte
	for _, g := range groups {
		if len(g.Result) < 8*(field+1) {
			return 0, fmt.Errorf("stats: a result of %d bytes", len(g.Result))
		}
		v := math.Float64frombits(binary.LittleEndian.Uint64(g.Result[8*field:]))
		if q.Func == system.FuncMean { // its mean is a running one, exact only in the sum
			v = math.Float64frombits(binary.LittleEndian.Uint64(g.Result[8:])) /
				float64(binary.LittleEndian.Uint64(g.Result))
		}
		payload = system.AppendNumber(payload[:0], v)
		b.AppendStamped(record.Key{CID: g.CID, MID: g.MID, MOID: g.MOID, CapNs: g.CapNs}, payload)
	}
	if b.Len() > 0 {
		take(b)
	}
	return uint64(b.Len()), nil
}
