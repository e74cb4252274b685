package main

import (
	"errors"
	"math"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/kernels"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestPlugins runs the whole command on few records: every result is compared with that of the
// loop in Go, and every bar is there.
func TestPlugins(t *testing.T) {
	out, figures := command(t, "plugins", "--rows", "24000", "--rounds", "1", "--piece", "1ms",
		"--pentad", buildPentad(t))
	want := 22
	if cgoMissing == "" {
		want += 2 // the best SQL peer beside a plugin that reads all, and with kept states
	}
	var held []string
	for name, f := range figures {
		if !(f.Value > 0) || math.IsInf(f.Value, 1) {
			t.Errorf("%s is %v", name, f.Value)
		}
		if f.Bar != nil {
			held = append(held, name)
		}
	}
	if len(held) != want {
		t.Errorf("%d bars, want %d: %q", len(held), want, held)
	}
	if !strings.Contains(out, "endless loops were stopped") {
		t.Errorf("said:\n%s", out)
	}
}

func TestPluginsRefusesFlags(t *testing.T) {
	for _, flags := range [][]string{{"--rounds", "0"}, {"--piece", "0s"}} {
		c := root(new(strings.Builder))
		c.SetArgs(append([]string{"plugins", "--out", t.TempDir()}, flags...))
		if err := c.ExecuteContext(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "must be above 0") {
			t.Errorf("%q: %v", flags, err)
		}
	}
}

// TestNativeStats compares the sums of batches, of single numbers and of both merged.
func TestNativeStats(t *testing.T) {
	data := kernels.Payloads()
	for n := range 12 {
		b := &record.Batch{Data: data[:8*n], Stride: 8}
		for i := range n {
			b.CID, b.MOID = append(b.CID, 1), append(b.MOID, 1)
			b.MID, b.CapNs = append(b.MID, int64(i)), append(b.CapNs, 0)
		}
		whole, single := newStats(), newStats()
		if n > 0 {
			whole.addBatch(b)
			whole.addBatch(b)
		}
		for range 2 {
			for i := range n {
				single.addOne(system.Number(data[8*i:]))
			}
		}
		if whole.count != single.count || whole.sum != single.sum || whole.min != single.min ||
			whole.max != single.max || math.Abs(whole.m2-single.m2) > 1e-6*single.m2 {
			t.Errorf("%d numbers twice: %+v, one by one %+v", n, whole, single)
		}
	}
}

func TestQuantile(t *testing.T) {
	h := &metrics.Float64Histogram{Counts: []uint64{5, 4, 1}, Buckets: []float64{0, 1, 2, 3}}
	f := func(share, want float64) {
		t.Helper()
		if got, err := quantile(h, share); err != nil || got != want {
			t.Errorf("quantile %v is %v, %v, want %v", share, got, err, want)
		}
	}
	f(0.5, 1)
	f(0.9, 2)
	f(0.91, 3)
	f(1, 3)
	h.Counts = make([]uint64, 3)
	if _, err := quantile(h, 0.5); err == nil {
		t.Error("a quantile of nothing")
	}
}

// TestInTurn wants all functions to be called as often in each round, and failures to be told.
func TestInTurn(t *testing.T) {
	p := inTurns{rounds: 3, piece: time.Microsecond}
	took, err := p.inTurn(work, work)
	if err != nil || len(took) != 2 || len(took[0]) != 3 || slices.Min(took[1]) <= 0 {
		t.Errorf("%v, %v", took, err)
	}
	broken := errors.New("broken")
	if _, err := p.inTurn(work, func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v, want what is broken", err)
	}
}

// work takes some microseconds.
func work() error {
	out := make([]byte, 8)
	kernels.All()[0].Native(kernels.Payloads(), out)
	return nil
}

func TestRatios(t *testing.T) {
	over, under := []float64{9, 2, 8}, []float64{3, 1, 2}
	if got := ratioOf(over, under); got != 3 {
		t.Errorf("median ratio %v, want 3", got)
	}
	if got := medianOf(over); got != 8 || over[0] != 9 {
		t.Errorf("median %v of %v", got, over)
	}
	var l figure.List
	l.Add("plain", 1, "ms")
	l.AtMost("good", 1, "ms", 2)
	l.AtMost("bad", 3, "ms", 2)
	if bars(l) != 2 || missed(l) != 1 {
		t.Errorf("%d bars, %d missed", bars(l), missed(l))
	}
}
