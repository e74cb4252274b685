package wasmhost

import (
	"context"
	"errors"

	"github.com/pentad-db/pentad/sdk/record"
)

// findFailingFuel bounds the search for the record that a call failed at.
const findFailingFuel = 20_000_000

// findFailingRecord adds to the error of a batch its range of records, and the record that caused
// it: a new instance gets the records one by one until it fails in the same way. A failure that
// takes several records has no such record.
func (g *guest) findFailingRecord(
	ctx context.Context, err error, b *record.Batch, x *batch, rows func(*guest) rowCall,
) {
	var e *Error
	if !errors.As(err, &e) || e.Kind == Busy ||
		e.Export != exportAdd && e.Export != exportFilter {
		return
	}
	b.FillKeys()
	e.Rows, e.First, e.Last = x.to-x.from, b.Key(x.from), b.Key(x.to-1)
	if e.Rows == 1 {
		e.Exact = true
		return
	}
	fresh, again := g.entry.instantiate(ctx, nil)
	if again != nil {
		return
	}
	defer fresh.drop()
	fresh.replays = g
	if again = fresh.start(); again == nil {
		again = fresh.initialise(g.params)
	}
	if again != nil {
		return
	}
	call := rows(fresh)
	spent := uint64(0)
	for row := x.from; row < x.to && spent < uint64(findFailingFuel*g.scale); row++ {
		if g.pause(ctx) != nil {
			return
		}
		again = call(row)
		spent += fresh.used
		var same *Error
		if again == nil {
			continue
		}
		if errors.As(again, &same) && same.Export == e.Export && same.Kind == e.Kind &&
			same.Status == e.Status {
			e.First, e.Last, e.Exact = b.Key(row), b.Key(row), true
		}
		return
	}
}

// rowCall passes one row to an instance.
type rowCall func(row int) error

// singleRows returns columns for batches of one row.
func (e *entry) singleRows() *columns {
	c := newColumns(&e.desc)
	c.rows, c.maxRows = 1, 1
	return c
}

func (f *Filter) findFailingRecord(ctx context.Context, err error, b *record.Batch, x *batch) {
	f.guest.findFailingRecord(ctx, err, b, x, func(g *guest) rowCall {
		one := &Filter{guest: g, columns: g.entry.singleRows(), filter: g.export(exportFilter)}
		return func(row int) error {
			x := one.columns.cut(b, row)
			_, err := one.keepCut(b, &x)
			return err
		}
	})
}

func (a *Aggregate) findFailingRecord(ctx context.Context, err error, b *record.Batch, x *batch) {
	a.guest.findFailingRecord(ctx, err, b, x, func(g *guest) rowCall {
		one := &Aggregate{guest: g, columns: g.entry.singleRows(), states: newStates(g),
			add: g.export(exportAdd)}
		return func(row int) error {
			if err := one.states.grow(ctx, g, 1); err != nil {
				return err
			}
			x := one.columns.cut(b, row)
			return one.addCut(b, &x, &rowGroups{}, 1, one.states.at(0))
		}
	})
}
