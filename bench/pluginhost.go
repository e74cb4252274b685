package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/kernels"
	"github.com/pentad-db/pentad/plugins"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

const (
	endToEndBatches = 128 // half of them in each of two instances
	manyGroups      = 1000

	barFilter     = 1.6
	barStatsOne   = 1.2
	barStatsMany  = 2.3
	barHLL        = 2
	barInstanceUs = 50
	barSpinMs     = 5
)

// loadModule compiles a standard plugin, or a module of package kernels.
func loadModule(ctx context.Context, h *wasmhost.Host, name string) (*wasmhost.Module, error) {
	standard := plugins.Standard()
	i := slices.IndexFunc(standard, func(p plugins.Plugin) bool { return p.Name == name })
	if i >= 0 {
		return h.Load(ctx, standard[i].Wasm)
	}
	return h.Load(ctx, kernels.Wasm(name))
}

// kernelOf returns a kernel by its name.
func kernelOf(name string) *kernels.Kernel {
	all := kernels.All()
	return &all[slices.IndexFunc(all, func(k kernels.Kernel) bool { return k.Name == name })]
}

// withHost runs f with a host that is closed afterwards.
func withHost(ctx context.Context, f func(h *wasmhost.Host) error) error {
	h, err := wasmhost.New(ctx, wasmhost.Options{GoProfile: true})
	if err != nil {
		return err
	}
	return errors.Join(f(h), h.Close(context.WithoutCancel(ctx)))
}

// readings is a batch of numbers and their groups, in no order.
func readings(groups uint32) (*record.Batch, []uint32) {
	b, gid := &record.Batch{}, make([]uint32, kernels.Rows)
	data := kernels.Payloads()
	for i := range gid {
		gid[i] = uint32(i*7919) % groups
		b.Append(record.Key{MID: int64(i)}, data[8*i:8*i+8])
	}
	return b, gid
}

// endToEnd measures whole plugins through the host: an instance, batches that are copied, states
// that leave one instance and are merged in another, results. In Go each is one loop and a merge.
func (p *pluginFigures) endToEnd(ctx context.Context) error {
	return withHost(ctx, func(h *wasmhost.Host) error {
		if err := p.filterEndToEnd(ctx, h); err != nil {
			return err
		}
		for _, a := range []struct {
			about, plugin string
			native        folding
			groups        int
			bar           float64
		}{{"stats over one group", "stats", newWholeStats(1), 1, barStatsOne},
			{"stats over 1,000 groups", "stats", newWholeStats(manyGroups), manyGroups,
				barStatsMany},
			{"HyperLogLog", "hll", &wholeKernel{kernel: kernelOf("hll")}, 1, barHLL}} {
			m, err := loadModule(ctx, h, a.plugin)
			if err != nil {
				return err
			}
			took, err := p.aggregateEndToEnd(ctx, m, a.native, a.groups)
			if err != nil {
				return fmt.Errorf("%s: %w", a.about, err)
			}
			p.ended(a.about, took, a.bar)
		}
		return nil
	})
}

func (p *pluginFigures) ended(about string, took [][]float64, bar float64) {
	const rows = kernels.Rows * endToEndBatches
	p.figures.AtMost("end to end: "+about+" / Go", ratioOf(took[1], took[0]), figure.Ratio, bar)
	p.figures.Add("end to end: "+about, medianOf(took[1])/rows, "ns/record")
	p.figures.Add("end to end: "+about+", Go", medianOf(took[0])/rows, "ns/record")
}

// filterEndToEnd has the standard plugin threshold.
func (p *pluginFigures) filterEndToEnd(ctx context.Context, h *wasmhost.Host) error {
	m, err := loadModule(ctx, h, "threshold")
	if err != nil {
		return err
	}
	k := kernelOf("above")
	params := append(make([]byte, 24), k.Params...) // f64 at offset 0, greater than
	b, _ := readings(1)
	keep, want := make([]uint64, kernels.Rows/64), make([]byte, kernels.Rows/8)
	plugin := func() error {
		f, err := m.NewFilter(ctx, params)
		if err != nil {
			return err
		}
		defer f.Close()
		for range endToEndBatches {
			if err := f.Keep(ctx, b, keep); err != nil {
				return err
			}
		}
		return nil
	}
	native := func() error {
		for range endToEndBatches {
			k.Native(b.Data, want)
		}
		return nil
	}
	if err := errors.Join(plugin(), native()); err != nil {
		return err
	}
	if got := appendWords(nil, keep); !bytes.Equal(got, want) {
		return fmt.Errorf("WRONG ANSWER of threshold: %x, natively %x", got, want)
	}
	took, err := p.inTurn(native, plugin)
	if err != nil {
		return err
	}
	p.ended("filter", took, barFilter)
	return nil
}

// aggregateEndToEnd folds half of the batches into each of two instances and merges them.
func (p *pluginFigures) aggregateEndToEnd(
	ctx context.Context, m *wasmhost.Module, native folding, groups int,
) ([][]float64, error) {
	b, gid := readings(uint32(groups))
	if groups == 1 {
		gid = nil
	}
	var results [][]byte
	plugin := func() (err error) {
		results, err = foldWithPlugin(ctx, m, b, gid, groups)
		return err
	}
	inGo := func() error {
		native.fold(b, gid)
		return nil
	}
	if err := errors.Join(plugin(), inGo()); err != nil {
		return nil, err
	}
	if len(results) != groups {
		return nil, fmt.Errorf("%d results of %d groups", len(results), groups)
	}
	for i, result := range results {
		if err := native.equal(i, result); err != nil {
			return nil, err
		}
	}
	return p.inTurn(inGo, plugin)
}

func foldWithPlugin(
	ctx context.Context, m *wasmhost.Module, b *record.Batch, gid []uint32, groups int,
) ([][]byte, error) {
	var halves [2]*wasmhost.Aggregate
	for i := range halves {
		a, err := m.NewAggregate(ctx, nil)
		if err != nil {
			return nil, err
		}
		defer a.Close()
		halves[i] = a
		for range endToEndBatches / 2 {
			if err := a.Add(ctx, b, gid, groups); err != nil {
				return nil, err
			}
		}
	}
	states, err := halves[1].States(ctx)
	if err != nil {
		return nil, err
	}
	if err := halves[0].Merge(ctx, states, nil); err != nil {
		return nil, err
	}
	return halves[0].Finish(ctx)
}

// instances measures how long a fresh instance takes, and how soon an endless loop ends.
func (p *pluginFigures) instances(ctx context.Context) error {
	return withHost(ctx, func(h *wasmhost.Host) error {
		stats, err := loadModule(ctx, h, "stats")
		if err != nil {
			return err
		}
		spin, err := loadModule(ctx, h, "spin")
		if err != nil {
			return err
		}
		b, _ := readings(1)
		use := func(owner uint64) error {
			a, err := stats.NewAggregateFor(ctx, wasmhost.OwnerOf(owner), nil)
			if err != nil {
				return err
			}
			return a.Close()
		}
		owners := uint64(1)
		took, err := p.inTurn(func() error {
			owners++ // who has no instance yet that was used
			return use(owners)
		}, func() error { return spinOnce(ctx, spin, wasmhost.Owner{}, b) },
			func() error { return use(1) })
		if err != nil {
			return err
		}
		p.figures.AtMost("fresh instance", medianOf(took[0])/1e3, "us", barInstanceUs)
		p.figures.Add("instance that the owner had before", medianOf(took[2])/1e3, "us")
		p.figures.AtMost("endless loop, until it is stopped", medianOf(took[1])/1e6, "ms",
			barSpinMs)
		return nil
	})
}

// spinOnce wants an endless loop to be stopped.
func spinOnce(
	ctx context.Context, spin *wasmhost.Module, by wasmhost.Owner, b *record.Batch,
) error {
	a, err := spin.NewAggregateFor(ctx, by, nil)
	if err != nil {
		return err
	}
	defer a.Close()
	err = a.Add(ctx, b, nil, 1)
	var stopped *wasmhost.Error
	if !errors.As(err, &stopped) || stopped.Kind != wasmhost.Fuel {
		return fmt.Errorf("an endless loop ended with %v", err)
	}
	return nil
}
