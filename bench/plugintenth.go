package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/kernels"
	"github.com/pentad-db/pentad/bench/peers/pentad"
	"github.com/pentad-db/pentad/bench/process"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/bench/workload/meters"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	barNativeSum = 1.5 // times the sum in Go
	barSQLSum    = 5   // times as long as the plugin

	// warming is how many rounds come before those that count: states are kept the second time that
	// a question is asked, and found from the third on.
	warming = 2
)

// summing is a way to add up the numbers of a box.
type summing struct {
	name string
	sum  func(ctx context.Context, box record.Box) (float64, error)
}

// tenth sums a tenth of the standard workload with a plugin, with a loop in Go in the store, and in
// SQL.
func (p *pluginFigures) tenth(ctx context.Context) (err error) {
	config := meters.Sized(p.rows)
	var all []summing
	var opened []func() error
	defer func() {
		for _, c := range opened {
			err = errors.Join(err, c())
		}
	}()
	sums, closers, err := p.ownSums(ctx, config)
	opened = append(opened, closers...)
	if err != nil {
		return err
	}
	all = append(all, sums...)
	w := config.Workload()
	survey := w.NewSurvey()
	if err := survey.Add(w.Phases[0]); err != nil {
		return err
	}
	survey.End()
	for name := range strings.SplitSeq(p.peers, ",") {
		if name == "" {
			continue
		}
		if cgoMissing != "" && strings.HasPrefix(name, "duckdb") {
			p.say("left out %s: %s", name, cgoMissing)
			continue
		}
		db, err := p.loadPeer(ctx, name, config, survey)
		if err != nil {
			return err
		}
		opened = append(opened, db.Close)
		all = append(all, summing{name, func(ctx context.Context, box record.Box) (float64, error) {
			return sumOf(ctx, db, box)
		}})
	}
	return p.sums(ctx, config, all)
}

// sumTime is what a round of one way took for an answer, in ms.
type sumTime struct {
	wall      float64 // on the clock
	processor float64 // of all threads
	once      float64 // on the clock, by the first answer
}

// column returns one figure of all rounds.
func column(rounds []sumTime, of func(*sumTime) float64) []float64 {
	out := make([]float64, len(rounds))
	for i := range rounds {
		out[i] = of(&rounds[i])
	}
	return out
}

func onClock(s *sumTime) float64     { return s.wall }
func ofProcessor(s *sumTime) float64 { return s.processor }
func askedOnce(s *sumTime) float64   { return s.once }

// sums asks all in turn, each for a piece.
func (p *pluginFigures) sums(ctx context.Context, c meters.Config, all []summing) error {
	box := (&quick{config: c}).tenth().Box
	took := make([][]sumTime, len(all))
	want, err := all[0].sum(ctx, box)
	if err != nil {
		return fmt.Errorf("%s: %w", all[0].name, err)
	}
	for round := range warming + p.rounds {
		for i, s := range all {
			t, err := s.timed(ctx, box, p.piece, want)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if round >= warming {
				took[i] = append(took[i], t)
			}
		}
	}
	p.tenthFigures(all, took)
	return nil
}

// timed asks for a piece, once at least. Before that it asks once more, untimed: else the first
// answer would be measured with the processor's caches full of what the last way did.
func (s *summing) timed(
	ctx context.Context, box record.Box, piece time.Duration, want float64,
) (t sumTime, err error) {
	ask := func() error {
		sum, err := s.sum(ctx, box)
		if err == nil && !(math.Abs(sum-want) <= tolerance*math.Abs(want)) {
			err = fmt.Errorf("WRONG ANSWER: %v, want %v", sum, want)
		}
		return err
	}
	if err := ask(); err != nil {
		return sumTime{}, err
	}
	before, err := process.OwnTime()
	if err != nil {
		return sumTime{}, err
	}
	answers, began := 0.0, time.Now()
	for answers == 0 || time.Since(began) < piece {
		if err := ask(); err != nil {
			return sumTime{}, err
		}
		if answers++; answers == 1 {
			t.once = ms(time.Since(began))
		}
	}
	t.wall = ms(time.Since(began)) / answers
	after, err := process.OwnTime()
	t.processor = ms(after-before) / answers
	return t, err
}

func (p *pluginFigures) tenthFigures(all []summing, took [][]sumTime) {
	const native, plugin, again = 0, 1, 2
	ratio := func(over, under int, of func(*sumTime) float64) float64 {
		return ratioOf(column(took[over], of), column(took[under], of))
	}
	p.figures.AtMost("sum of a tenth: plugin / Go in the store", ratio(plugin, native, onClock),
		figure.Ratio, barNativeSum)
	p.figures.Add("sum of a tenth: plugin / Go in the store, processor time",
		ratio(plugin, native, ofProcessor), figure.Ratio)
	p.figures.Add("sum of a tenth: plugin, states kept / plugin", ratio(again, plugin, onClock),
		figure.Ratio)
	p.figures.Add("sum of a tenth: plugin, states kept / plugin, processor time",
		ratio(again, plugin, ofProcessor), figure.Ratio)
	best := map[int]float64{plugin: math.Inf(1), again: math.Inf(1)}
	once := math.Inf(1)
	for i, s := range all {
		name := "sum of a tenth: " + s.name
		p.figures.Add(name, medianOf(column(took[i], onClock)), "ms")
		p.figures.Add(name+", processor time", medianOf(column(took[i], ofProcessor)), "ms")
		p.figures.Add(name+", asked once", medianOf(column(took[i], askedOnce)), "ms")
		if i <= again {
			continue
		}
		for _, own := range []int{plugin, again} {
			clock := ratio(i, own, onClock)
			p.figures.Add(name+" / "+all[own].name, clock, figure.Ratio)
			p.figures.Add(name+" / "+all[own].name+", processor time",
				ratio(i, own, ofProcessor), figure.Ratio)
			best[own] = min(best[own], clock)
		}
		once = min(once, ratio(i, plugin, askedOnce))
	}
	if len(all) > again+1 {
		for _, own := range []int{plugin, again} {
			p.figures.AtLeast("sum of a tenth: best SQL peer / "+all[own].name, best[own],
				figure.Ratio, barSQLSum)
		}
		p.figures.Add("sum of a tenth: best SQL peer / plugin, asked once", once, figure.Ratio)
	}
}

// ownSums loads pentad once, and opens it as a store for the loop in Go and as a node for the
// plugin, a copy each: a folder has one owner.
func (p *pluginFigures) ownSums(
	ctx context.Context, c meters.Config,
) (sums []summing, closers []func() error, err error) {
	dir, copied := filepath.Join(p.work, "pentad"), filepath.Join(p.work, "copy")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	db, err := pentad.Kinds()[0].Open(ctx, dir, system.Shape{})
	if err != nil {
		return nil, nil, err
	}
	f := feed{db: db, stream: c.NewStream()}
	speed, err := f.all(ctx)
	if err == nil { // else it would merge what is left while others are measured
		err = db.(system.Rester).Rest(ctx)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, nil, err
	}
	p.say("%s: %.4g M records: %s", own, float64(f.records)/1e6, speed)
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(dir, "store"))); err != nil {
		return nil, nil, err
	}
	s, _, err := store.Open(ctx, store.Options{Dir: copied})
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, s.Close)
	n, err := node.Open(ctx, node.Options{Dir: dir})
	if err != nil {
		return nil, closers, err
	}
	closers = append(closers, func() error { return n.Close(context.WithoutCancel(ctx)) })
	_, err = n.PushPlugin(ctx, node.PluginPush{Name: "sum", Wasm: kernels.Wasm("sum")})
	return []summing{
		{"Go in the store", func(ctx context.Context, box record.Box) (float64, error) {
			return sumInStore(ctx, s, box)
		}},
		{"plugin", func(ctx context.Context, box record.Box) (float64, error) {
			return sumWithPlugin(ctx, n.Fresh().Aggregate, box)
		}},
		{"plugin, states kept", func(ctx context.Context, box record.Box) (float64, error) {
			return sumWithPlugin(ctx, n.Aggregate, box)
		}}}, closers, err
}

// sumInStore is what the store could do without plugins: each worker adds up what it reads.
func sumInStore(ctx context.Context, s *store.Store, box record.Box) (float64, error) {
	q := record.Query{Box: box}
	if err := q.Normalize(); err != nil {
		return 0, err
	}
	var mu sync.Mutex
	var sums []*float64 // guarded by mu
	_, err := s.ScanColumns(ctx, &q, segment.Payloads, func(int) (store.Sink, error) {
		sum := new(float64)
		mu.Lock()
		sums = append(sums, sum)
		mu.Unlock()
		return func(b *record.Batch) error {
			if b.Stride != system.StatusBytes {
				return fmt.Errorf("payloads of %d bytes", b.Stride)
			}
			*sum += kernels.SumStrided(b.Data)
			return nil
		}, nil
	})
	total := 0.0
	for _, sum := range sums {
		total += *sum
	}
	return total, err
}

func sumWithPlugin(
	ctx context.Context,
	aggregate func(context.Context, *record.Query) ([]wire.Group, wire.End, error), box record.Box,
) (float64, error) {
	groups, _, err := aggregate(ctx, &record.Query{Box: box,
		Aggregate: record.PluginCall{Name: "sum"}})
	if err != nil {
		return 0, err
	}
	if len(groups) != 1 || len(groups[0].Result) != 8 {
		return 0, fmt.Errorf("a sum of groups %v", groups)
	}
	return system.Number(groups[0].Result), nil
}

func (p *pluginFigures) loadPeer(
	ctx context.Context, name string, c meters.Config, survey *workload.Survey,
) (system.System, error) {
	kinds, err := chooseKinds(name)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(p.work, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	db, err := kinds[0].Open(ctx, dir, survey.Shape)
	if err != nil {
		return nil, err
	}
	f := feed{db: db, stream: c.NewStream()}
	speed, err := f.all(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	p.say("%s: %.4g M records: %s", name, float64(f.records)/1e6, speed)
	return db, nil
}

// sumOf asks for the sum as one group.
func sumOf(ctx context.Context, db system.System, box record.Box) (float64, error) {
	q := system.Query{Query: record.Query{Box: box}, Want: system.WantGroups,
		Func: system.FuncSum}
	if err := q.Normalize(); err != nil {
		return 0, err
	}
	sum := math.NaN()
	_, err := db.Ask(ctx, &q, func(b *record.Batch) {
		if b.Len() == 1 {
			sum = system.Number(b.Payload(0))
		}
	})
	return sum, err
}
