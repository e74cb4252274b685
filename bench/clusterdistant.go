package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/peers/pentad"
	"github.com/pentad-db/pentad/bench/report"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/bench/workload/meters"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// distant measures a cluster through a node that holds no copy of any group, in turn with nodes
// that hold one of each: what the way over another node costs.
func (c *clusterRun) distant(ctx context.Context) (err error) {
	s, err := c.startSide(ctx, 3, true, c.groups)
	defer func() { err = errors.Join(err, c.remove(s)) }()
	if err == nil {
		err = c.startEmpty(ctx, s)
	}
	if err != nil {
		return err
	}
	near, far := s.clients[:3], s.clients[3:]
	stamps, err := c.putDistant(ctx, s, near, far)
	if err != nil {
		return err
	}
	queries := meters.Sized(c.rows).Queries(stamps)
	want, err := workload.Answers(meters.Sized(c.rows).Workload().Phases, queries)
	if err != nil {
		return err
	}
	for i, query := range queries {
		boxes, err := s.boxes(&query, stamps)
		if err == nil {
			err = c.askDistant(ctx, &query, boxes, want[i], near, far[0])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", query.Name, err)
		}
	}
	return nil
}

// putDistant puts the load, in turns through nodes with copies and the one without, and returns the
// stamps of the workload.
func (c *clusterRun) putDistant(
	ctx context.Context, s *side, near, far []*client.Client,
) (stamps []int64, err error) {
	config := meters.Sized(c.rows)
	stream := config.NewStream()
	perTurn := max(1, config.Devices*config.Slots/workload.BatchRows/(2*turns))
	var took [2]time.Duration
	var records [2]int64
	for i := 0; ; i++ {
		batches := take(stream, perTurn, &stamps)
		if len(batches) == 0 {
			break
		}
		if err := quiet(ctx, s); err != nil {
			return nil, err
		}
		before, had := s.took, s.records
		if err := s.put(ctx, [][]*client.Client{near, far}[i%2], batches); err != nil {
			return nil, err
		}
		took[i%2] += s.took - before
		records[i%2] += s.records - had
	}
	s.sortAcqs()
	if records[1] > 0 {
		a, b := rate(records[0], took[0]), rate(records[1], took[1])
		c.figures.Add("durable ingest through nodes with all copies", a, "M records/s")
		c.figures.Add("durable ingest through a node without copies", b, "M records/s")
		c.figures.Add("durable ingest, through a node without copies / with all", b/a,
			figure.Ratio)
	}
	return stamps, quiet(ctx, s)
}

// boxes are those of a query with windows of acq that this side gave.
func (s *side) boxes(query *workload.Query, stamps []int64) (out []system.Query, err error) {
	for _, own := range query.Boxes {
		own.Box[record.Acq] = s.acquired(own.Box[record.Acq], stamps)
		if err := own.Normalize(); err != nil {
			return nil, err
		}
		out = append(out, own)
	}
	return out, nil
}

// askDistant asks the node without copies and each of the others in turn. Before what is timed,
// both answer each box once; these answers are the same, and as many rows as the oracle has.
func (c *clusterRun) askDistant(
	ctx context.Context, query *workload.Query, boxes []system.Query, want []workload.Answer,
	near []*client.Client, far *client.Client,
) error {
	var times [2][]float64
	for _, holder := range near {
		both := [2]*client.Client{holder, far}
		for i := range boxes {
			if err := sameAnswer(ctx, both, &boxes[i], want[i]); err != nil {
				return err
			}
		}
		for i := range askedOfNode {
			for k := range both {
				k = (k + i) % len(both) // each is the first half of the time
				began := time.Now()
				if _, err := answerOf(ctx, both[k], &boxes[i%len(boxes)], false); err != nil {
					return err
				}
				times[k] = append(times[k], us(time.Since(began)))
			}
		}
	}
	a, b := median(times[0]), median(times[1])
	c.say("%-4s %-40s a node with all copies %9s  one without %9s", query.Name, query.About,
		report.Duration(a), report.Duration(b))
	c.figures.Add(query.Name+" of a node with all copies", a, "us")
	c.figures.Add(query.Name+" of a node without copies", b, "us")
	c.figures.Add(query.Name+", of a node without copies / with all", b/a, figure.Ratio)
	return nil
}

// answerOf asks a node; in full: with the hashes of all rows.
func answerOf(
	ctx context.Context, of *client.Client, box *system.Query, full bool,
) (got workload.Answer, err error) {
	asked := *box
	rows, err := pentad.Of(nil, of).Ask(ctx, &asked, func(b *record.Batch) {
		if full {
			got.Add(b, system.WantGroups, nil) // with acqs as they are
		}
	})
	got.Rows = rows
	return got, err
}

// sameAnswer asks two nodes of a cluster and compares the rows, and their number with the oracle's
// unless the box has a window of acq: batches that are put side by side share one.
func sameAnswer(
	ctx context.Context, of [2]*client.Client, box *system.Query, want workload.Answer,
) error {
	var got [2]workload.Answer
	for k := range of {
		var err error
		if got[k], err = answerOf(ctx, of[k], box, true); err != nil {
			return err
		}
	}
	if got[0] != got[1] || len(box.Box[record.Acq]) == 0 && got[0].Rows != want.Rows {
		return fmt.Errorf("WRONG ANSWER to %v: a node with copies has %d rows, one without %d "+
			"(sums %x, %x), the oracle %d", box.Box, got[0].Rows, got[1].Rows, got[0].Sum,
			got[1].Sum, want.Rows)
	}
	return nil
}
