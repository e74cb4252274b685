package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/workload/meters"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	pluginRuns  = 51   // fewer measure how the second worker wakes up: a run of few rows takes 2 ms
	pluginShare = 0.1  // of the rows
	tolerance   = 1e-9 // relative; the order of the sums differs from run to run
)

// tenth is the question of the plugin: a tenth of the devices.
func (q *quick) tenth() record.Query {
	width := int(pluginShare * float64(q.config.Devices))
	first := q.config.Devices / 3
	return record.Query{Box: record.Box{record.MID: {
		{From: meters.MID(first), To: meters.MID(first + width)}}}}
}

// stats is what the plugin of that name computes, natively: in one pass, by Welford's method.
type stats struct {
	count               uint64
	sum, min, max, mean float64
	m2                  float64
}

func newStats() *stats { return &stats{min: math.Inf(1), max: math.Inf(-1)} }

// add has the same work as the plugin: two passes over the batch, which the processor overlaps
// better than Welford's divisions, and one merge.
func (s *stats) add(b *record.Batch) error {
	n := b.Len()
	if n == 0 {
		return nil
	}
	sum, lo, hi := 0.0, s.min, s.max
	for i := range n {
		x := math.Float64frombits(binary.LittleEndian.Uint64(b.Data[i*b.Stride:]))
		sum += x
		lo, hi = min(lo, x), max(hi, x)
	}
	mean, m2 := sum/float64(n), 0.0
	for i := range n {
		d := math.Float64frombits(binary.LittleEndian.Uint64(b.Data[i*b.Stride:])) - mean
		m2 += d * d
	}
	had, all := float64(s.count), float64(s.count)+float64(n)
	d := mean - s.mean
	s.m2 += m2 + d*d*had*float64(n)/all
	s.mean += d * float64(n) / all
	s.sum, s.min, s.max = s.sum+sum, lo, hi
	s.count += uint64(n)
	return nil
}

// equal compares with the result of the plugin.
func (s *stats) equal(result []byte) error {
	if len(result) != 48 {
		return fmt.Errorf("stats: a result of %d bytes", len(result))
	}
	f := func(i int) float64 {
		return math.Float64frombits(binary.LittleEndian.Uint64(result[8*i:]))
	}
	count := binary.LittleEndian.Uint64(result)
	want := [...]float64{s.sum, s.min, s.max, s.mean, s.m2 / float64(s.count-1)}
	for i, v := range want {
		if !(math.Abs(f(i+1)-v) <= tolerance*math.Abs(v)) { // nor is NaN
			return fmt.Errorf("WRONG ANSWER of stats: field %d is %v, natively %v", i+1, f(i+1), v)
		}
	}
	if count != s.count {
		return fmt.Errorf("WRONG ANSWER of stats: %d rows, natively %d", count, s.count)
	}
	return nil
}

// plugin runs stats over a tenth of the rows and prints its cost.
func (q *quick) plugin(ctx context.Context, n *node.Node, name string) error {
	took, rows, err := q.runStats(ctx, n, newStats())
	if err != nil {
		return err
	}
	q.Figures.Add(name+fmt.Sprintf(", whole query over %d rows", rows), took/float64(rows),
		"ns/row")
	return nil
}

// runStats returns the median time of the plugin's query in ns. An empty want is filled by a native
// pass first.
func (q *quick) runStats(ctx context.Context, n *node.Node, want *stats) (float64, uint64, error) {
	if want.count == 0 {
		box := q.tenth()
		if _, err := n.Query(ctx, &box, want.add); err != nil {
			return 0, 0, err
		}
	}
	var runs []float64
	for range pluginRuns {
		box := q.tenth()
		box.Aggregate.Name = "stats"
		began := time.Now()
		groups, _, err := n.Fresh().Aggregate(ctx, &box) // no state that an earlier run kept
		runs = append(runs, float64(time.Since(began)))
		if err != nil {
			return 0, 0, err
		}
		if len(groups) != 1 {
			return 0, 0, fmt.Errorf("stats: %d groups", len(groups))
		}
		if err := want.equal(groups[0].Result); err != nil {
			return 0, 0, err
		}
	}
	return median(runs), want.count, nil
}

// againstNative compares the plugin with the same loop in Go, and both with the scan alone, on one
// worker, interleaved.
func (q *quick) againstNative(ctx context.Context, n *node.Node) error {
	native, scan := []float64{}, []float64{}
	var plugin []float64
	var want *stats
	for range pluginRuns {
		want = newStats()
		box := q.tenth()
		began := time.Now()
		if _, err := n.Query(ctx, &box, want.add); err != nil {
			return err
		}
		native = append(native, float64(time.Since(began)))

		box = q.tenth()
		began = time.Now()
		if _, err := n.Query(ctx, &box, func(*record.Batch) error { return nil }); err != nil {
			return err
		}
		scan = append(scan, float64(time.Since(began)))

		box = q.tenth()
		box.Aggregate.Name = "stats"
		began = time.Now()
		groups, _, err := n.Fresh().Aggregate(ctx, &box)
		if err != nil {
			return err
		}
		plugin = append(plugin, float64(time.Since(began)))
		if err := want.equal(groups[0].Result); err != nil {
			return err
		}
	}
	rows := float64(want.count)
	p, g, s := median(plugin)/rows, median(native)/rows, median(scan)/rows
	q.Figures.Add("stats plugin, one worker, whole query", p, "ns/row")
	q.Figures.Add("the same loop in Go, one worker, whole query", g, "ns/row")
	q.Figures.Add("the scan alone, one worker", s, "ns/row")
	q.Figures.Add("stats plugin against the same loop in Go", p/g, figure.Ratio)
	return nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
