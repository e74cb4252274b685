package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/load"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// benchQueryFlags say what is asked, besides the flags of every load.
type benchQueryFlags struct {
	benchFlags
	benchSeries
	queryflags.Flags
	queries                     int64
	mix, plugin, params, groups string
}

func (a *app) benchQueryCommand() *cobra.Command {
	var f benchQueryFlags
	c := &cobra.Command{
		Use:   "query",
		Short: "Run a query load and report latency",
		Long: fmt.Sprintf(`Run a query load and report how long the node takes to answer completely.

--mix sets the shares of three kinds of queries: rows returns records, count counts them, aggregate
runs --plugin over them. With --mid, --moid, --cap or --acq every query uses these selectors, in cid
%d unless --cid is given ("*" is all). Without them queries select random parts of what bench
write stored with the same --cid, --devices, --quantities and --seed:

  rows       one device and quantity, a quarter of the time, at most 1,000 readings
  count      a tenth of the devices, all quantities, half of the time
  aggregate  100 devices, one quantity, a quarter of the time

A failed query is counted and not repeated. --rate counts queries. For counts and aggregates the
records are those that the node examined; all counts only those that were sent.`, benchCID),
		Args: cli.NoCommand,
		Example: `  pentad bench query --queries 300
  pentad bench query --for 1s --rate 100 --clients 8 --mix rows=9,aggregate=1
  pentad bench query --queries 100 --mix aggregate --cid '*' --mid 7 --group cap=1h -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.benchQuery(c.Context(), c.Flags().Changed, &f)
		},
	}
	f.AddBox(c)
	f.AddFilter(c)
	if cid := c.Flags().Lookup("cid"); cid != nil {
		f.Parts[record.CID] = strconv.Itoa(benchCID)
		cid.DefValue, cid.Usage = f.Parts[record.CID], "tenant that bench write stored in"
	}
	flags := c.Flags()
	flags.Int64Var(&f.queries, "queries", 0, "number of queries, instead of --for")
	f.addRate(c, "queries")
	f.benchSeries.add(c)
	flags.StringVar(&f.mix, "mix", "rows=8,count=1,aggregate=1",
		"kinds of queries with their shares")
	flags.StringVar(&f.plugin, "plugin", "stats", "aggregate plugin of aggregate queries")
	flags.StringVar(&f.params, "params", "", "parameters of the plugin: NAME=VALUE,...")
	flags.StringVar(&f.groups, "group", "",
		"groups of aggregate queries: cid, mid, moid, cap=LENGTH, e.g. mid,cap=1h")
	f.benchFlags.add(c, "clients", 4, "number of connections, each with one query at a time")
	return c
}

func (a *app) benchQuery(ctx context.Context, given func(string) bool, f *benchQueryFlags) error {
	random := true
	for d := record.MID; d < record.NumDims; d++ {
		random = random && !given(d.String())
	}
	base, mix, err := f.check(ctx, a, given)
	if err != nil {
		return err
	}
	gen := load.Generator{}
	if random {
		cids := base.Box[record.CID]
		if len(cids) != 1 || cids[0].To != cids[0].From+1 {
			return cli.Usagef("--cid %s: random queries need the tenant of bench write; add "+
				"--mid, --moid, --cap or --acq for other selectors", f.Parts[record.CID])
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
	if base.Filters, err = f.Calls(ctx, dbs[0], &base.Box); err != nil {
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
	if err == nil && f.FailEmpty && summary.records == 0 {
		return cli.ErrEmpty
	}
	return err
}

// check finds what is wrong with the flags, and returns what every query has in common.
func (f *benchQueryFlags) check(
	ctx context.Context, a *app, given func(string) bool,
) (q *record.Query, mix load.Mix, err error) {
	if err = f.benchFlags.check("clients"); err != nil {
		return nil, mix, err
	}
	if err = checkUntil(given, "queries", f.queries, &f.benchFlags); err != nil {
		return nil, mix, err
	}
	if mix, err = parseMix(f.mix); err != nil {
		return nil, mix, err
	}
	if _, err = queryflags.ParseGroup(f.groups); err != nil {
		return nil, mix, err
	}
	q, err = f.Query(ctx, a.App)
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
				return mix, cli.Usagef("--mix %q: the share of %s must be an integer from 1", text,
					name)
			}
		}
		for i, n := range names {
			if n == name {
				kind = i
			}
		}
		if kind < 0 || mix[kind] > 0 {
			return mix,
				cli.Usagef("--mix %q: malformed; use %s, separated by commas, each once, "+
					"optionally with =SHARE", text, strings.Join(names, ", "))
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
	info, doc, found, err := queryflags.FindPlugin(ctx, db, f.plugin)
	if err != nil {
		return call, err
	}
	if !info.Aggregate {
		return call, cli.Usagef("--plugin %s: a filter, not an aggregate; use --filter",
			f.plugin)
	}
	call.plugin = found
	call.plugin.Params, err = f.EncodeParams(ctx, db, doc, f.params, box)
	if err != nil {
		return call, err
	}
	call.group, err = queryflags.ParseGroup(f.groups)
	return call, err
}

// benchBoxes asks how much bench write has stored.
func (a *app) benchBoxes(ctx context.Context, db *client.Client, gen load.Generator) (*load.Boxes,
	error) {
	first := gen.MID(0)
	slots, err := load.CountSlots(func(slot int64) (bool, error) {
		n, err := queryflags.Count(ctx, db, &record.Query{Box: record.Box{
			record.CID: {record.At(int64(gen.CID))},
			record.MID: {{From: first, To: first + int64(gen.Devices)}},
			record.Cap: {{From: load.SlotNs(slot), To: record.Cap.Max()}}}})
		return n > 0, err
	})
	switch {
	case err != nil:
		return nil, err
	case slots == 0:
		return nil,
			cli.Usagef("cid %d: no records of bench write with --seed %d; run pentad bench "+
				"write first, or use --mid, --moid, --cap or --acq", gen.CID, gen.Seed)
	}
	last, err := queryflags.Count(ctx, db, &record.Query{Box: record.Box{
		record.CID:  {record.At(int64(gen.CID))},
		record.MID:  {record.At(first + int64(gen.Devices) - 1)},
		record.MOID: {record.At(int64(gen.Quantities))}}})
	if err != nil {
		return nil, err
	}
	if last == 0 {
		a.Note("the last of --devices %d and --quantities %d has no records: some queries find "+
			"nothing and are too fast; use the values of bench write, or store more", gen.Devices,
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
	a.Note("querying %s; %s", strings.Join(shares, ", "), what)
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
		n, err := queryflags.Count(ctx, w.db, &w.query)
		return load.Answer{Counted: int64(n)}, err
	case load.KindAggregate:
		groups, end, err := w.db.Aggregate(ctx, &w.query)
		if err != nil {
			return load.Answer{}, err
		}
		return load.Answer{Counted: int64(queryflags.SumRecords(groups))}, queryflags.CheckEnd(end)
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
	return answer, queryflags.CheckEnd(end)
}
