package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/wasmhost"
)

const (
	barPauseMs = 2
	pauseGCs   = 20 // per round
	pauseName  = "/sched/pauses/stopping/gc:seconds"
)

// pauses measures how long the garbage collector waits for guests to return, which compiled code
// does only by itself: of plugins that do their work, and of endless loops. What it waits for loops
// in Go is due to the machine.
func (p *pluginFigures) pauses(ctx context.Context) error {
	return withHost(ctx, func(h *wasmhost.Host) error {
		hll, err := loadModule(ctx, h, "hll")
		if err != nil {
			return err
		}
		spin, err := loadModule(ctx, h, "spin")
		if err != nil {
			return err
		}
		b, _ := readings(1)
		const name = "garbage collector, p90 of its wait for "
		p90, err := p.pausesWith(ctx, func(context.Context) error {
			(&wholeKernel{kernel: kernelOf("hll")}).fold(b, nil)
			return nil
		})
		if err != nil {
			return err
		}
		p.figures.Add(name+"loops in Go", p90*1e3, "ms")
		p90, err = p.pausesWith(ctx, func(ctx context.Context) error {
			_, err := foldWithPlugin(ctx, hll, b, nil, 1)
			return err
		})
		if err != nil {
			return err
		}
		p.figures.AtMost(name+"plugins at work", p90*1e3, "ms", barPauseMs)
		p90, err = p.pausesWith(ctx, func(ctx context.Context) error {
			return spinOnce(ctx, spin, wasmhost.Owner{}, b)
		})
		if err != nil {
			return err
		}
		p.figures.AtMost(name+"endless loops", p90*1e3, "ms", barPauseMs)
		chase, err := loadModule(ctx, h, "chase")
		if err != nil {
			return err
		}
		var owners atomic.Uint64 // an owner whose call used up its budget rests, others do not
		p90, err = p.pausesWith(ctx, func(ctx context.Context) error {
			return spinOnce(ctx, chase, wasmhost.OwnerOf(owners.Add(1)), b)
		})
		p.figures.AtMost(name+"endless chains of loads", p90*1e3, "ms", barPauseMs)
		return err
	})
}

// pausesWith collects garbage while all processors run f, and returns the p90 of the times that it
// took to stop them, in seconds.
func (p *pluginFigures) pausesWith(
	ctx context.Context, f func(context.Context) error,
) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	failed := make([]error, runtime.GOMAXPROCS(0))
	for i := range failed {
		wg.Go(func() {
			for ctx.Err() == nil && failed[i] == nil {
				if err := f(ctx); err != nil && ctx.Err() == nil {
					failed[i] = err
				}
			}
		})
	}
	before := pauseCounts()
	for range p.rounds * pauseGCs {
		runtime.GC()
	}
	after := pauseCounts()
	cancel()
	wg.Wait()
	for i := range after.Counts {
		after.Counts[i] -= before.Counts[i]
	}
	p90, err := quantile(after, 0.9)
	return p90, errors.Join(append(failed, err)...)
}

func pauseCounts() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: pauseName}}
	metrics.Read(sample)
	h := sample[0].Value.Float64Histogram()
	return &metrics.Float64Histogram{Buckets: h.Buckets, Counts: append([]uint64(nil), h.Counts...)}
}

// quantile returns the upper end of the bucket that a share of all lies below.
func quantile(h *metrics.Float64Histogram, share float64) (float64, error) {
	total := uint64(0)
	for _, n := range h.Counts {
		total += n
	}
	if total == 0 {
		return 0, fmt.Errorf("%s has counted nothing", pauseName)
	}
	below := uint64(0)
	for i, n := range h.Counts {
		below += n
		if float64(below) >= share*float64(total) {
			return h.Buckets[i+1], nil
		}
	}
	return 0, errors.New("BUG: a histogram has less than all of its counts")
}
