package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
	"github.com/pentad-db/pentad/wasmhost"
)

// ranges measures filters by order, from memory and from files.
func (s *sealedFigures) ranges(ctx context.Context) error {
	return withHost(ctx, func(h *wasmhost.Host) error { return s.rangesOf(ctx, h) })
}

func (s *sealedFigures) rangesOf(ctx context.Context, h *wasmhost.Host) (err error) {
	d, err := newSealedData(ctx, sealedOrdered(), s.devices)
	if err != nil {
		return err
	}
	if err := d.fill(ctx, s.rows, sealedInRow, sealedBatch); err != nil {
		return err
	}
	token, err := d.tenant.RangeToken(ctx, d.schema, "x", seal.Range{Low: 0, High: 500},
		d.devices...)
	if err != nil {
		return err
	}
	var stores []*sealedStore
	defer func() {
		for _, x := range stores {
			err = errors.Join(err, x.close(ctx))
		}
	}()
	for _, c := range []struct {
		name, filter string
		params       map[string]string
		rows         []*record.Batch
	}{
		{"sealed", "sealed-range", map[string]string{"token": token}, d.batches},
		{"plain", "between", inTag(), d.plain(sealedTag)},
	} {
		x, err := s.openStore(ctx, "ordered "+c.name, c.rows)
		if err != nil {
			return err
		}
		x.name = c.name
		stores = append(stores, x)
		_, call, err := pluginCall(ctx, h, c.filter, c.params)
		if err != nil {
			return err
		}
		x.query = record.Query{Filters: []record.PluginCall{call},
			Aggregate: record.PluginCall{Name: "count"}}
	}
	about := "sealed-range and between, counted"
	if err := s.compare(ctx, about+", from memory", true, barSealedRange, stores...); err != nil {
		return err
	}
	for _, x := range stores {
		if err := x.node.Settle(ctx); err != nil {
			return err
		}
	}
	err = s.compare(ctx, about+", from files", true, barSealedRange, stores...)
	if err == nil && stores[0].kept != stores[1].kept {
		err = fmt.Errorf("WRONG ANSWER: sealed-range keeps %d, between %d", stores[0].kept,
			stores[1].kept)
	}
	return err
}
