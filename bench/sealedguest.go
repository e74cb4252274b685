package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
	"github.com/pentad-db/pentad/wasmhost"
)

const (
	guestRows    = 1 << 17
	guestDevices = 20
)

// guests measures plugins through the host, by themselves.
func (s *sealedFigures) guests(ctx context.Context) error {
	return withHost(ctx, func(h *wasmhost.Host) error {
		for _, c := range []struct {
			about string
			def   seal.Definition
			inRow int
			bar   float64
		}{
			{"lean, device by device", sealedLean(), guestRows / guestDevices, barSealedGuest},
			{"lean, devices in turn", sealedLean(), 1, barSealedGuest},
			{"standard, device by device", sealedStandard(), guestRows / guestDevices, 0},
			{"standard, devices in turn", sealedStandard(), 1, 0},
		} {
			if err := s.sumInGuest(ctx, h, c.about, c.def, c.inRow, c.bar); err != nil {
				return fmt.Errorf("%s: %w", c.about, err)
			}
		}
		for _, inRow := range []int{guestRows / guestDevices, 1} {
			if err := s.rangeInGuest(ctx, h, inRow); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *sealedFigures) guestData(
	ctx context.Context, def seal.Definition, inRow, offset int,
) (*sealedData, []*record.Batch, error) {
	d, err := newSealedData(ctx, def, guestDevices)
	if err != nil {
		return nil, nil, err
	}
	const perBatch = 4096
	if err := d.fill(ctx, guestRows, inRow, perBatch); err != nil {
		return nil, nil, err
	}
	return d, d.plain(offset), nil
}

// guestTook adds what two plugins took for the rows.
func (s *sealedFigures) guestTook(about, sealed, plain string, took [][]float64, bar float64) {
	name := "plugins: " + about + ": " + sealed
	if bar > 0 {
		s.figures.AtMost(name+" / "+plain, ratioOf(took[1], took[0]), figure.Ratio, bar)
	} else {
		s.figures.Add(name+" / "+plain, ratioOf(took[1], took[0]), figure.Ratio)
	}
	s.figures.Add(name, medianOf(took[1])/guestRows, "ns/row")
	s.figures.Add("plugins: "+about+": "+plain, medianOf(took[0])/guestRows, "ns/row")
}

func (s *sealedFigures) sumInGuest(
	ctx context.Context, h *wasmhost.Host, about string, def seal.Definition, inRow int,
	bar float64,
) error {
	d, plain, err := s.guestData(ctx, def, inRow, sealedLane)
	if err != nil {
		return err
	}
	fold := func(name string, params map[string]string, rows []*record.Batch,
		equal func(context.Context, []byte) error) (func() error, error) {
		m, call, err := pluginCall(ctx, h, name, params)
		if err != nil {
			return nil, err
		}
		var result []byte
		run := func() error {
			a, err := m.NewAggregate(ctx, call.Params)
			if err != nil {
				return err
			}
			defer a.Close()
			for _, b := range rows {
				if err := a.Add(ctx, b, nil, 1); err != nil {
					return err
				}
			}
			results, err := a.Finish(ctx)
			if err == nil {
				result = results[0]
			}
			return err
		}
		if err := run(); err != nil {
			return nil, err
		}
		return run, equal(ctx, result)
	}
	stats, err := fold("stats", inLane(), plain, d.plainEqual)
	if err != nil {
		return err
	}
	sums, err := fold("sealed-stats", map[string]string{"layout": d.schema.Layout()}, d.batches,
		d.sealedEqual)
	if err != nil {
		return err
	}
	took, err := s.inTurn(stats, sums)
	if err != nil {
		return err
	}
	s.guestTook(about, "sealed-stats", "stats", took, bar)
	return nil
}

// rangeInGuest measures the filters: both keep the same rows.
func (s *sealedFigures) rangeInGuest(ctx context.Context, h *wasmhost.Host, inRow int) error {
	d, plain, err := s.guestData(ctx, sealedOrdered(), inRow, sealedTag)
	if err != nil {
		return err
	}
	token, err := d.tenant.RangeToken(ctx, d.schema, "x", seal.Range{Low: 0, High: 500},
		d.devices...)
	if err != nil {
		return err
	}
	keep := func(name string, params map[string]string, rows []*record.Batch) (
		run func() error, kept [][]uint64, err error,
	) {
		m, call, err := pluginCall(ctx, h, name, params)
		if err != nil {
			return nil, nil, err
		}
		kept = make([][]uint64, len(rows))
		for i := range kept {
			kept[i] = make([]uint64, (rows[i].Len()+63)/64)
		}
		run = func() error {
			f, err := m.NewFilter(ctx, call.Params)
			if err != nil {
				return err
			}
			defer f.Close()
			for i, b := range rows {
				if err := f.Keep(ctx, b, kept[i]); err != nil {
					return err
				}
			}
			return nil
		}
		return run, kept, run()
	}
	between, want, err := keep("between", inTag(), plain)
	if err != nil {
		return err
	}
	ranges, got, err := keep("sealed-range", map[string]string{"token": token}, d.batches)
	if err != nil {
		return err
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return errors.New("WRONG ANSWER of sealed-range: it keeps others than between does")
	}
	took, err := s.inTurn(between, ranges)
	if err != nil {
		return err
	}
	about := "ordered, devices in turn"
	if inRow > 1 {
		about = "ordered, device by device"
	}
	s.guestTook(about, "sealed-range", "between", took, barSealedRange)
	return nil
}
