package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/bench/meters"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// warmRuns is how often each box is asked; the first run is checked and not timed.
const warmRuns = 7

// queries asks the ten queries embedded and over HTTP and checks every answer.
func (q *quick) queries(ctx context.Context, n *node.Node, db *client.Client) error {
	asked := q.config.Queries(q.acqs)
	began := time.Now()
	want, err := q.oracle(asked)
	if err != nil {
		return err
	}
	q.say("the oracle took %.1f s", time.Since(began).Seconds())
	for i, query := range asked {
		inside, err := q.time(query, want[i], func(box *record.Query, a *meters.Answer) error {
			if query.Count {
				count, _, err := n.Count(ctx, box)
				a.Rows = count
				return err
			}
			_, err := n.Query(ctx, box, q.taker(a))
			return err
		})
		if err != nil {
			return err
		}
		rows := uint64(0)
		for _, a := range want[i] {
			rows += a.Rows
		}
		q.figures.Add(fmt.Sprintf("%s, %d rows", query, rows/uint64(len(want[i]))), inside, "us")
		if query.Count {
			continue
		}
		network, err := q.time(query, want[i], func(box *record.Query, a *meters.Answer) error {
			_, err := db.Scan(ctx, box, q.taker(a))
			return err
		})
		if err != nil {
			return err
		}
		q.figures.Add(query.Name+" over HTTP", network, "us")
	}
	return nil
}

// taker takes an answer: in full when it is to be checked, else only its rows.
func (q *quick) taker(a *meters.Answer) func(b *record.Batch) error {
	if a.Sum == unchecked {
		return func(b *record.Batch) error {
			a.Rows += uint64(b.Len())
			return nil
		}
	}
	return func(b *record.Batch) error {
		a.Add(b, q.acqs)
		return nil
	}
}

// unchecked marks an answer of which only the number of rows is compared.
const unchecked = ^uint64(0)

// time returns the median over the boxes of the median over the warm runs, in microseconds.
func (q *quick) time(
	query meters.Query, want []meters.Answer, ask func(*record.Query, *meters.Answer) error,
) (float64, error) {
	var medians []float64
	for i := range query.Boxes {
		box := query.Boxes[i]
		var got meters.Answer
		if err := ask(&box, &got); err != nil {
			return 0, fmt.Errorf("%s: %w", query, err)
		}
		if got != want[i] {
			return 0, fmt.Errorf("WRONG ANSWER to %s, box %d %v: %+v, the oracle says %+v", query,
				i, query.Boxes[i].Box, got, want[i])
		}
		var runs []float64
		for range warmRuns {
			box, got := query.Boxes[i], meters.Answer{Sum: unchecked}
			began := time.Now()
			err := ask(&box, &got)
			runs = append(runs, float64(time.Since(began).Nanoseconds())/1e3)
			if err != nil || got.Rows != want[i].Rows {
				return 0, fmt.Errorf("%s: %d rows, want %d, %v", query, got.Rows, want[i].Rows, err)
			}
		}
		medians = append(medians, median(runs))
	}
	return median(medians), nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// oracle makes the workload again and looks at every row, the boxes divided among the processors.
func (q *quick) oracle(asked []meters.Query) ([][]meters.Answer, error) {
	workers := runtime.GOMAXPROCS(0)
	answers := make([][][]meters.Answer, workers)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { answers[w], errs[w] = q.shareOfOracle(asked, w, workers) })
	}
	wg.Wait()
	out := make([][]meters.Answer, len(asked))
	for w := range workers {
		if errs[w] != nil {
			return nil, errs[w]
		}
		for i := range answers[w] {
			for j, a := range answers[w][i] {
				for len(out[i]) <= j*workers+w {
					out[i] = append(out[i], meters.Answer{})
				}
				out[i][j*workers+w] = a
			}
		}
	}
	return out, nil
}

// shareOfOracle answers every box whose number leaves remainder w.
func (q *quick) shareOfOracle(asked []meters.Query, w, workers int) ([][]meters.Answer, error) {
	mine := slices.Clone(asked)
	for i := range mine {
		var boxes []record.Query
		for j := w; j < len(asked[i].Boxes); j += workers {
			boxes = append(boxes, asked[i].Boxes[j])
		}
		mine[i].Boxes = boxes
	}
	o, err := meters.NewOracle(mine)
	if err != nil {
		return nil, err
	}
	var b record.Batch
	for s := q.config.NewStream(); s.Next(&b); {
		o.Add(&b)
	}
	return o.Answers(), nil
}
