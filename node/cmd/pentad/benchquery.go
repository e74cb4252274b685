package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/load"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// benchQueryFlags say what is asked, besides the flags of every load.
type benchQueryFlags struct {
	benchFlags
	benchSeries
	queryFlags
	queries                     int64
	mix, plugin, params, groups string
}

func (a *app) benchQueryCommand() *cobra.Command {
	var f benchQueryFlags
	c := &cobra.Command{
		Use:   "query",
		Short: "Ask again and again and measure how long the node takes",
		Long: fmt.Sprintf(`Ask again and again and measure how long the node takes until its answer has come to its end.

There are three kinds of queries, and --mix says how often each is asked: rows has the records
sent, count has them counted, aggregate has --plugin run over them. With one of --mid, --moid,
--cap and --acq every query asks for that box, in cid %d unless --cid says otherwise ("*" is
all). Without them boxes are random, over what bench write stored with the same --cid, --devices,
--quantities and --seed:

  rows       one device and quantity, a quarter of the time, at most 1,000 readings
  count      a tenth of the devices, all quantities, half of the time
  aggregate  100 devices, one quantity, a quarter of the time

A query that fails is counted and not asked again. --rate counts queries. Counts and aggregates
show the records that the node looked at, which do not travel; all shows those that travelled.`, benchCID),
		Args: noCommand,
		Example: `  pentad bench query --queries 300
  pentad bench query --for 1s --rate 100 --clients 8 --mix rows=9,aggregate=1
  pentad bench query --queries 100 --mix aggregate --cid '*' --mid 7 --group cap=1h -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.benchQuery(c.Context(), c.Flags().Changed, &f)
		},
	}
	f.addBox(c)
	f.addFilter(c)
	if cid := c.Flags().Lookup("cid"); cid != nil {
		f.parts[record.CID] = strconv.Itoa(benchCID)
		cid.DefValue, cid.Usage = f.parts[record.CID], "tenant that bench write stored in"
	}
	flags := c.Flags()
	flags.Int64Var(&f.queries, "queries", 0, "stop after this many queries, in place of --for")
	f.addRate(c, "queries per second")
	f.benchSeries.add(c)
	flags.StringVar(&f.mix, "mix", "rows=8,count=1,aggregate=1", "kinds of queries and their share")
	flags.StringVar(&f.plugin, "plugin", "stats", "what aggregate runs")
	flags.StringVar(&f.params, "params", "", "parameters of the plugin: name=value,...")
	flags.StringVar(&f.groups, "group", "", "groups of the aggregate: cid, mid, moid, cap=LENGTH")
	f.benchFlags.add(c, "clients", 4, "connections, each with one query under way at a time")
	return c
}

func (a *app) benchQuery(ctx context.Context, given func(string) bool, f *benchQueryFlags) error {
	random := true
	for d := record.MID; d < record.NumDims; d++ {
		random = random && !given(d.String())
	}
	base, mix, err := f.check(a, given)
	if err != nil {
		return err
	}
	gen := load.Generator{}
	if random {
		cids := base.Box[record.CID]
		if len(cids) != 1 || cids[0].To != cids[0].From+1 {
			return usagef("--cid %s: random boxes need the one tenant of bench write; for a box "+
				"of your own give --mid, --moid, --cap or --acq", f.parts[record.CID])
		}
		if gen, err = f.generator(int32(cids[0].From)); err != nil {
			return err
		}
	}
	dbs, closeAll, err := a.connectMany(ctx, f.workers)
	if err != nil {
		return err
	}
	defer closeAll()
	if base.Filters, err = f.calls(ctx, dbs[0], &base.Box); err != nil {
		return err
	}
	aggregate, err := f.aggregate(ctx, dbs[0], mix, &base.Box)
	if err != nil {
		return err
	}
	var boxes *load.Boxes
	if random {
		if boxes, err = a.benchBoxes(ctx, dbs[0], gen); err != nil {
			return err
		}
	}
	a.noteMix(mix, boxes, f)
	pacer := load.NewPacer(load.Schedule{PerSecond: f.rate, Requests: f.queries,
		For: time.Duration(f.length)})
	run := &load.Run{Source: pacer, For: time.Duration(f.length)}
	summary := &benchSummary{rate: f.rate, paced: f.rate > 0, unsent: pacer.Unsent}
	var kinds [load.NumKinds]int // index in the run's kinds
	for kind, name := range load.KindNames() {
		if kinds[kind] = len(run.Kinds); mix[kind] > 0 {
			run.Kinds = append(run.Kinds, name)
			summary.sizes = append(summary.sizes, kind == load.KindRows)
		}
	}
	for _, db := range dbs {
		run.Workers = append(run.Workers, &queryWorker{db: db, base: *base, kinds: kinds,
			aggregate: aggregate, mix: mix, seed: f.seed, boxes: boxes})
	}
	err = a.runBench(ctx, run, &f.benchFlags, summary)
	if err == nil && f.failEmpty && summary.records == 0 {
		return errEmpty
	}
	return err
}

// check finds what is wrong with the flags, and returns what every query has in common.
func (f *benchQueryFlags) check(a *app, given func(string) bool) (q *record.Query, mix load.Mix,
	err error) {
	if err = f.benchFlags.check("clients"); err != nil {
		return nil, mix, err
	}
	if err = checkUntil(given, "queries", f.queries, &f.benchFlags); err != nil {
		return nil, mix, err
	}
	if mix, err = parseMix(f.mix); err != nil {
		return nil, mix, err
	}
	if _, err = parseGroup(f.groups); err != nil {
		return nil, mix, err
	}
	q, err = f.query(a)
	return q, mix, err
}

// parseMix reads kinds and their shares: rows=8,count=1 or rows alone.
func parseMix(text string) (mix load.Mix, err error) {
	names := load.KindNames()
	for part := range strings.SplitSeq(text, ",") {
		name, share, hasShare := strings.Cut(strings.TrimSpace(part), "=")
		weight, kind := 1, -1
		if hasShare {
			if weight, err = strconv.Atoi(share); err != nil || weight < 1 || weight > 1_000_000 {
				return mix, usagef("--mix %q: the share of %s is a whole number from 1", text, name)
			}
		}
		for i, n := range names {
			if n == name {
				kind = i
			}
		}
		if kind < 0 || mix[kind] > 0 {
			return mix, usagef("--mix %q: write %s, joined by commas, each once and with =SHARE "+
				"if you like", text, strings.Join(names, ", "))
		}
		mix[kind] = weight
	}
	return mix, nil
}

// queryCall is how an aggregate is asked for.
type queryCall struct {
	plugin record.PluginCall
	group  record.GroupBy
}

func (f *benchQueryFlags) aggregate(ctx context.Context, db *client.Client, mix load.Mix,
	box *record.Box) (call queryCall, err error) {
	if mix[load.KindAggregate] == 0 {
		return call, nil
	}
	info, doc, found, err := findPlugin(ctx, db, f.plugin)
	if err != nil {
		return call, err
	}
	if !info.Aggregate {
		return call, usagef("--plugin %s is a filter, which keeps records; --filter uses it",
			f.plugin)
	}
	call.plugin = found
	call.plugin.Params, err = encodeParams(ctx, db, doc, f.params, box, f.unchecked)
	if err != nil {
		return call, err
	}
	call.group, err = parseGroup(f.groups)
	return call, err
}

// benchBoxes asks how much bench write has stored.
func (a *app) benchBoxes(ctx context.Context, db *client.Client, gen load.Generator) (*load.Boxes,
	error) {
	first := gen.MID(0)
	slots, err := load.CountSlots(func(slot int64) (bool, error) {
		n, err := countRecords(ctx, db, &record.Query{Box: record.Box{
			record.CID: {record.At(int64(gen.CID))},
			record.MID: {{From: first, To: first + int64(gen.Devices)}},
			record.Cap: {{From: load.SlotNs(slot), To: record.Cap.Max()}}}})
		return n > 0, err
	})
	switch {
	case err != nil:
		return nil, err
	case slots == 0:
		return nil, usagef("cid %d holds nothing that bench write stored with --seed %d; store "+
			"first: pentad bench write, or give a box: --mid, --moid, --cap, --acq", gen.CID,
			gen.Seed)
	}
	last, err := countRecords(ctx, db, &record.Query{Box: record.Box{
		record.CID:  {record.At(int64(gen.CID))},
		record.MID:  {record.At(first + int64(gen.Devices) - 1)},
		record.MOID: {record.At(int64(gen.Quantities))}}})
	if err != nil {
		return nil, err
	}
	if last == 0 {
		a.note("the last of --devices %d and --quantities %d holds nothing: some boxes are empty, "+
			"which flatters the node; give both as to bench write, or store more", gen.Devices,
			gen.Quantities)
	}
	return &load.Boxes{Generator: gen, Slots: slots}, nil
}

// noteMix says what is asked, for a latency means nothing without it.
func (a *app) noteMix(mix load.Mix, boxes *load.Boxes, f *benchQueryFlags) {
	total := 0
	for _, weight := range mix {
		total += weight
	}
	var shares []string
	for kind, name := range load.KindNames() {
		if mix[kind] == 0 {
			continue
		}
		if kind == load.KindAggregate {
			name += " " + f.plugin
		}
		shares = append(shares, fmt.Sprintf("%s %d %%", name, (100*mix[kind]+total/2)/total))
	}
	what := "one box"
	if boxes != nil {
		what = fmt.Sprintf("random boxes over %s devices, %s quantities, %s s in cid %d",
			output.Thousands(boxes.Devices), output.Thousands(boxes.Quantities),
			output.Thousands(boxes.Slots), boxes.CID)
	}
	a.note("asking %s; %s", strings.Join(shares, ", "), what)
}

// queryWorker asks over one connection.
type queryWorker struct {
	db        *client.Client
	base      record.Query
	kinds     [load.NumKinds]int
	aggregate queryCall
	mix       load.Mix
	seed      uint64
	boxes     *load.Boxes // nil: the box of base

	kind  int
	query record.Query
}

// Prepare implements load.Worker.
func (w *queryWorker) Prepare(t load.Task) int {
	w.kind, w.query = w.mix.Kind(w.seed, t.Index), w.base
	if w.boxes != nil {
		w.query.Box = w.boxes.Box(w.kind, t.Index)
	}
	if w.kind == load.KindAggregate {
		w.query.Aggregate, w.query.GroupBy = w.aggregate.plugin, w.aggregate.group
	}
	return w.kinds[w.kind]
}

// Send implements load.Worker.
func (w *queryWorker) Send(ctx context.Context) (load.Answer, error) {
	switch w.kind {
	case load.KindCount:
		n, err := countRecords(ctx, w.db, &w.query)
		return load.Answer{Counted: int64(n)}, err
	case load.KindAggregate:
		groups, end, err := w.db.Aggregate(ctx, &w.query)
		if err != nil {
			return load.Answer{}, err
		}
		return load.Answer{Counted: int64(sumRecords(groups))}, checkEnd(end)
	}
	var answer load.Answer
	end, err := w.db.Scan(ctx, &w.query, func(b *record.Batch) error {
		answer.Records += int64(b.Len())
		answer.PayloadBytes += int64(len(b.Data))
		return nil
	})
	if err != nil {
		return load.Answer{}, err
	}
	return answer, checkEnd(end)
}
