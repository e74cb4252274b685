package main

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/kernels"
)

// residentBars are how many times as long as the loop in Go a kernel may take.
func residentBars() map[string]struct {
	about string
	most  float64
} {
	return map[string]struct {
		about string
		most  float64
	}{"sum": {"sum of float64", 1.15}, "modular": {"modular sum of uint64", 0.8},
		"above":     {"filter to bitmap, scalar", 1.1},
		"abovesimd": {"filter to bitmap, SIMD", 0.6}, "buckets": {"histogram", 2},
		"hll": {"HyperLogLog", 1.8}}
}

// Bars of metering, as times of what a kernel takes without, and of a call that does nothing.
const (
	barMetering      = 1.1
	barMeteringWorst = 1.6
	barCallNs        = 40
)

// kernels measures kernels over a batch in their memory, metered, not metered and in Go.
func (p *pluginFigures) kernels(ctx context.Context) error {
	data := kernels.Payloads()
	logs, worst, worstName := 0.0, 0.0, ""
	all := kernels.All()
	for i := range all {
		k := &all[i]
		took, err := p.kernel(ctx, k, data)
		if err != nil {
			return err
		}
		bar := residentBars()[k.Name]
		p.figures.AtMost("resident: "+bar.about+" / Go", ratioOf(took[1], took[0]), figure.Ratio,
			bar.most)
		p.figures.Add("resident: "+bar.about, medianOf(took[1])/kernels.Rows, "ns/record")
		p.figures.Add("resident: "+bar.about+", Go", medianOf(took[0])/kernels.Rows, "ns/record")
		metering := ratioOf(took[1], took[2])
		p.figures.Add("metering: "+bar.about+" / unmetered", metering, figure.Ratio)
		logs += math.Log(metering)
		if metering > worst {
			worst, worstName = metering, bar.about
		}
	}
	p.figures.AtMost("metering: geometric mean of kernels", math.Exp(logs/float64(len(all))),
		figure.Ratio, barMetering)
	p.figures.AtMost("metering: worst kernel", worst, figure.Ratio, barMeteringWorst)
	p.say("metering costs most in: %s", worstName)
	return p.emptyCall(ctx, &all[0], data)
}

// kernel measures the loop in Go, the metered kernel and the other, after comparing what they find.
func (p *pluginFigures) kernel(
	ctx context.Context, k *kernels.Kernel, data []byte,
) ([][]float64, error) {
	native := make([]byte, k.Result)
	k.Native(data, native)
	turns := []func() error{func() error {
		k.Native(data, native)
		return nil
	}}
	for _, metered := range []bool{true, false} {
		r, err := kernels.NewResident(ctx, k, data, metered)
		if err != nil {
			return nil, err
		}
		defer r.Close(ctx)
		if err := r.Run(); err != nil {
			return nil, err
		}
		got, err := r.Result()
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(got, native) {
			return nil, fmt.Errorf("WRONG ANSWER of %s, metered %v: %x, natively %x", k.Name,
				metered, got, native)
		}
		turns = append(turns, r.Run)
	}
	return p.inTurn(turns...)
}

// emptyCall measures a call that does nothing.
func (p *pluginFigures) emptyCall(
	ctx context.Context, k *kernels.Kernel, data []byte,
) error {
	r, err := kernels.NewResident(ctx, k, data, true)
	if err != nil {
		return err
	}
	defer r.Close(ctx)
	took, err := p.inTurn(r.Nothing)
	if err != nil {
		return err
	}
	p.figures.AtMost("empty call", medianOf(took[0]), "ns", barCallNs)
	return nil
}
