package pentad

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Ask implements [system.System].
func (d *db) Ask(
	ctx context.Context, q *system.Query, take func(b *record.Batch),
) (uint64, error) {
	own := q.Query
	d.cost = system.Cost{}
	switch q.Want {
	case system.WantCount:
		return d.count(ctx, &own)
	case system.WantLast:
		return d.last(ctx, q, take)
	case system.WantGroups:
		return d.groups(ctx, q, take)
	case system.WantAbove:
		// Parameters: type f64, offset 0, relation "greater than", the value.
		own.Filter = record.PluginCall{Name: "threshold",
			Params: system.AppendNumber(make([]byte, 24), q.Above)}
	}
	rows := uint64(0)
	return rows, d.scan(ctx, &own, func(b *record.Batch) error {
		rows += uint64(b.Len())
		take(b)
		return nil
	})
}

func (d *db) scan(
	ctx context.Context, q *record.Query, emit func(b *record.Batch) error,
) (err error) {
	var end wire.End
	if d.client != nil {
		end, err = d.client.Scan(ctx, q, emit)
	} else {
		end, err = d.node.Query(ctx, q, emit)
	}
	d.spent(&end)
	return err
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

// firstWindows is into how many parts the time is cut for the first look at its end.
const firstWindows = 1 << 12

// last looks at the end of time, then at twice as much, until every series of the box has been
// seen, or the whole time: there is no view for it.
func (d *db) last(
	ctx context.Context, q *system.Query, take func(b *record.Batch),
) (uint64, error) {
	extent := d.shape.Extent[record.Cap]
	series := d.shape.Series
	if constrained := len(q.Box[record.CID]) + len(q.Box[record.MID]) +
		len(q.Box[record.MOID]); constrained > 0 {
		series = math.MaxInt // unknown, unless it is one
		if isPoint(q.Box[record.CID]) && isPoint(q.Box[record.MID]) && isPoint(q.Box[record.MOID]) {
			series = 1
		}
	}
	own := q.Query
	r := system.NewReducer(q, take)
	window := extent // what has not been looked at
	for width := (extent.To - extent.From) / firstWindows; ; width = 2*width + 1 {
		window.From = max(extent.From, extent.To-max(1, width))
		own.Box[record.Cap] = record.RangeSet{window}
		if err := d.scan(ctx, &own, func(b *record.Batch) error {
			r.Add(b)
			return nil
		}); err != nil {
			return 0, err
		}
		if window.From == extent.From || r.Series() >= series {
			return r.Finish(), nil
		}
		window.To = window.From
	}
}

func isPoint(set record.RangeSet) bool { return len(set) == 1 && set[0].To-set[0].From == 1 }

// groups asks the stats plugin, which computes more than is wanted.
func (d *db) groups(
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
	var b record.Batch
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
		take(&b)
	}
	return uint64(b.Len()), nil
}
