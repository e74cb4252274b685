package runner

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pentad-db/pentad/bench/report"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	minRounds = 3 // timed, of each box; two at least when the budget is spent
	maxRounds = 25
	// aimed is how long the timed rounds of one box may take in the first system: fast queries are
	// asked more often, because one run of them says little.
	aimed = 50 * time.Millisecond
	// warmBelow is how fast a query must be to be asked once more, untimed, right before each timed
	// run: else it would be measured with the processor's caches full of what the last system did.
	warmBelow = 20 * time.Millisecond
	// minBoxes are asked of every system, whatever its budget.
	minBoxes = 3
)

// queries asks the queries of a phase that the journal does not have.
func (r *Runner) queries(ctx context.Context, phase int) ([]report.Query, error) {
	asked := r.Workload.Phases[phase].Queries(r.survey)
	out := make([]report.Query, len(asked))
	var open []workload.Query
	var places []int
	for i, q := range asked {
		done, err := r.Journal.Done(r.step("ask", phase, q.Name), &out[i])
		if err != nil {
			return nil, err
		}
		if !done {
			open, places = append(open, q), append(places, i)
		}
	}
	if len(open) == 0 {
		return out, nil
	}
	began := time.Now()
	want, err := workload.Answers(r.Workload.Phases[:phase+1], open)
	if err != nil {
		return nil, err
	}
	r.say("the oracle took %.1f s", time.Since(began).Seconds())
	if err := r.openAll(ctx); err != nil {
		return nil, err
	}
	return out, r.passes(ctx, open, want, func(i int, q report.Query) error {
		out[places[i]] = q
		return r.Journal.Record(r.step("ask", phase, q.Name), q)
	})
}

// passes goes through queries as often as there are passes and hands each to done after its last.
func (r *Runner) passes(
	ctx context.Context, open []workload.Query, want [][]workload.Answer,
	done func(i int, q report.Query) error,
) error {
	all := make([]*times, len(open))
	passes := max(1, r.Passes)
	for pass := range passes {
		for i, q := range open {
			if pass == 0 {
				all[i] = newTimes(len(r.running), len(q.Boxes))
			}
			all[i].begin(pass, r.Budget/time.Duration(passes))
			if err := r.query(ctx, q, want[i], all[i]); err != nil {
				return err
			}
			if pass < passes-1 {
				continue
			}
			result := r.summary(q, want[i], all[i])
			r.sayQuery(&result)
			if err := done(i, result); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Runner) sayQuery(q *report.Query) {
	var line strings.Builder
	fmt.Fprintf(&line, "%-8s %8.0f rows", q.Name, q.Rows)
	for i, x := range r.running {
		fmt.Fprintf(&line, "  %s %s", x.kind.Name, report.Duration(q.Times[i].MedianUs))
		if ratio := q.Times[i].ToTwin; ratio > 0 {
			fmt.Fprintf(&line, " (%.2f times as long as with ids)", ratio)
		}
	}
	r.say("%s", &line)
}

// query asks all boxes of a query of all systems in turn.
func (r *Runner) query(
	ctx context.Context, q workload.Query, want []workload.Answer, t *times,
) error {
	runtime.GC() // of what the last query left
	for box := range q.Boxes {
		if err := r.askBox(ctx, q, box, want[box], t); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) summary(q workload.Query, want []workload.Answer, t *times) report.Query {
	out := report.Query{Name: q.Name, About: q.About, Count: q.Want() == system.WantCount,
		Times: make([]report.Time, len(r.running))}
	for _, w := range want {
		out.Rows += float64(w.Rows) / float64(len(want))
	}
	for s := range r.running {
		out.Times[s] = t.summary(s)
	}
	return out
}

// askBox asks one box of every system once to check the answer, then as often as the budgets allow,
// all in turn. No run that is timed is the first one or checks more than the number of rows.
func (r *Runner) askBox(
	ctx context.Context, q workload.Query, box int, want workload.Answer, t *times,
) error {
	query := q.Boxes[box]
	if err := query.Normalize(); err != nil {
		return err
	}
	// What may be spent up to this box, so that systems that are slow are asked boxes of all kinds
	// rather than the first ones often.
	part := t.budget * time.Duration(box+1) / time.Duration(len(q.Boxes))
	asked := make([]bool, len(r.running))
	for s := range asked {
		asked[s] = box < minBoxes || t.spent[s] <= part
	}
	rounds := minRounds
	for round := 0; round <= rounds; round++ {
		for _, s := range order(len(r.running), box, round) {
			if !asked[s] || t.unsupported[s] != "" || round > 2 && t.spent[s] > t.budget ||
				round > minRounds && t.spent[s] > part {
				continue
			}
			if round == 0 && t.pass > 0 && t.last[s] >= warmBelow {
				continue // checked before, and slow: caches are a small part of it
			}
			_, describes := r.running[s].db.(system.Describer)
			if round > 0 && q.Twins != nil && describes {
				if err := r.askTwin(ctx, q, box, round, s, want, t); err != nil {
					return err
				}
			}
			took, err := r.askRound(ctx, q, box, round, s, &query, want, t.last[s] < warmBelow)
			if reason, ok := leaves(err); ok {
				t.leave(s, reason)
				continue
			}
			if err != nil {
				return err
			}
			if x, ok := r.running[s].db.(system.Explained); ok && t.pass == 0 && round == 0 {
				t.costs[s] = append(t.costs[s], x.Cost())
			}
			t.spent[s] += took
			t.last[s] = took
			if round > 0 {
				t.add(s, box, round, took)
			}
			if round == 0 && s == 0 {
				rounds = min(max(minRounds, int(aimed/max(took, 1))), maxRounds)
			}
		}
	}
	return nil
}

// askRound asks once in a round: the first checks the answer in full, others are timed. A fast
// query is asked once more right before.
func (r *Runner) askRound(
	ctx context.Context, q workload.Query, box, round, s int, query *system.Query,
	want workload.Answer, fast bool,
) (time.Duration, error) {
	checked := round == 0
	var extra *system.Query
	switch {
	case checked && r.Growing: // what is timed has no end in acq, and cannot be compared in full
		known := r.known(query)
		extra = &known
	case !checked && fast:
		extra = query
	}
	if extra != nil {
		if _, err := r.askOnce(ctx, q, box, s, extra, want, checked); err != nil {
			return 0, err
		}
	}
	return r.askOnce(ctx, q, box, s, query, want, checked && !r.Growing)
}

// askTwin asks a twin and its box, in another order each round, and notes how many times as long
// the box takes.
func (r *Runner) askTwin(
	ctx context.Context, q workload.Query, box, round, s int, want workload.Answer, t *times,
) error {
	both := [2]system.Query{q.Boxes[box], q.Twins[box]}
	var took [2]time.Duration
	for i := range both {
		at := (i + round) % 2
		if err := both[at].Normalize(); err != nil {
			return err
		}
		for range 2 { // the first one warms
			var err error
			if took[at], err = r.askOnce(ctx, q, box, s, &both[at], want, false); err != nil {
				return err
			}
		}
	}
	t.twins[s] = append(t.twins[s], float64(took[0])/float64(max(took[1], 1)))
	return nil
}

// known returns a query bounded to the records that the oracle knows, when more come meanwhile.
func (r *Runner) known(query *system.Query) system.Query {
	out := *query
	end := r.survey.Shape.Extent[record.Acq].To
	if out.View == record.ViewLatest {
		out.View, out.AsOfAcqNs = record.ViewAsOf, end
		return out
	}
	set := out.Box[record.Acq]
	if len(set) == 0 {
		set = record.RangeSet{{From: math.MinInt64, To: end}}
	}
	bounded := record.RangeSet{}
	for _, x := range set {
		if x.To = min(x.To, end); x.From < x.To {
			bounded = append(bounded, x)
		}
	}
	out.Box[record.Acq] = bounded
	return out
}

// order is the order in which systems are asked in a round: another in each, so that what one
// leaves behind, garbage or caches full of its data, does not always meet the same one.
func order(systems, box, round int) []int {
	return rand.New(rand.NewPCG(uint64(box), uint64(round))).Perm(systems)
}

// askOnce asks and checks: in full or, so that checking is not measured, only the number of rows.
func (r *Runner) askOnce(
	ctx context.Context, q workload.Query, box, s int, query *system.Query, want workload.Answer,
	full bool,
) (time.Duration, error) {
	var got workload.Answer
	take := func(b *record.Batch) { got.Rows += uint64(b.Len()) }
	if full {
		take = func(b *record.Batch) { got.Add(b, query.Want, r.survey.Stamps) }
	}
	if err := ctx.Err(); err != nil { // not every system looks
		return 0, err
	}
	own := *query
	began := time.Now()
	rows, err := r.running[s].db.Ask(ctx, &own, take)
	took := time.Since(began)
	if err != nil {
		return took, fmt.Errorf("%s, %s: %w", r.running[s].kind.Name, q, err)
	}
	if query.Want == system.WantCount {
		got.Rows = rows
	}
	wrong := rows != want.Rows || got.Rows != want.Rows ||
		full && !got.Equals(want, r.running[s].kind.NoAcq)
	if r.Growing && !full {
		wrong = rows < want.Rows || got.Rows != rows
	}
	if wrong {
		return took, fmt.Errorf("WRONG ANSWER of %s to %s, box %d %v: %d rows, "+
			"the oracle says %d (sums %x, %x)", r.running[s].kind.Name, q, box, query.Box,
			rows, want.Rows, got.Sum, want.Sum)
	}
	return took, nil
}

// times are the measurements of one query.
type times struct {
	runs        [][][]run       // by system and box
	costs       [][]system.Cost // by system, of the answers that are checked
	twins       [][]float64     // by system, ratios of boxes to their twins
	pass        int
	budget      time.Duration
	spent       []time.Duration // in this pass
	last        []time.Duration
	unsupported []string
}

// run is one timed run, in microseconds.
type run struct {
	pass, round int
	us          float64
}

func newTimes(systems, boxes int) *times {
	t := &times{spent: make([]time.Duration, systems), last: make([]time.Duration, systems),
		unsupported: make([]string, systems)}
	for range systems {
		t.runs = append(t.runs, make([][]run, boxes))
	}
	t.costs, t.twins = make([][]system.Cost, systems), make([][]float64, systems)
	return t
}

func (t *times) begin(pass int, budget time.Duration) {
	t.pass, t.budget = pass, budget
	clear(t.spent)
}

func (t *times) add(system, box, round int, took time.Duration) {
	t.runs[system][box] = append(t.runs[system][box], run{t.pass, round, micros(took)})
}

// leave ends the part of a system that cannot answer; what it did answer is no figure of the query.
func (t *times) leave(system int, reason string) {
	t.unsupported[system] = reason
	clear(t.runs[system])
}

// summary summarises a system: its median is that of the medians of the boxes; its ratios are those
// of runs of the same round.
func (t *times) summary(s int) report.Time {
	var all, medians, ratios []float64
	for box, runs := range t.runs[s] {
		first := t.runs[0][box]
		var us []float64
		for _, x := range runs {
			us = append(us, x.us)
			if ratio, ok := pair(x, first); ok {
				ratios = append(ratios, ratio)
			}
		}
		if len(us) > 0 {
			medians = append(medians, median(us))
			all = append(all, us...)
		}
	}
	out := report.Summarise(all)
	out.Unsupported = t.unsupported[s]
	if len(medians) > 0 {
		out.MedianUs = median(medians)
	}
	if s > 0 {
		out.Ratio = report.SummariseRatios(ratios)
	}
	if len(t.twins[s]) > 0 {
		out.ToTwin = median(t.twins[s])
	}
	if costs := t.costs[s]; len(costs) > 0 {
		var blocks, examined []float64
		for _, c := range costs {
			blocks = append(blocks, float64(c.Blocks))
			examined = append(examined, float64(c.Examined))
		}
		out.Blocks, out.Examined = median(blocks), median(examined)
	}
	return out
}

// pair returns the ratio of a run to the first system's of the same round, if there is one.
func pair(x run, first []run) (float64, bool) {
	for _, f := range first {
		if f.pass == x.pass && f.round == x.round {
			return x.us / f.us, true
		}
	}
	return 0, false
}

// median of an even number of values lies between the middle ones: of two runs the slower would
// else be the figure.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
