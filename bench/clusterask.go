package main

import (
	"context"
	"fmt"
	"slices"
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

// askedOfNode is how often each query is asked of each node of a cluster.
const askedOfNode = 40

// ask asks the ten queries of both in turn. The nodes of the cluster are asked one after the other:
// on machines of their own they would keep what they hold in caches of their own, as the node by
// itself does here. What it takes where each question goes to the next node, so that the three push
// each other out of one cache, is printed beside that.
func (c *clusterRun) ask(ctx context.Context, one, three *side, stamps []int64) error {
	slower := 0
	for _, s := range []*side{one, three} {
		s.sortAcqs()
	}
	if err := quiet(ctx, one, three); err != nil {
		return err
	}
	queries := meters.Sized(c.rows).Queries(stamps)
	want, err := workload.Answers(meters.Sized(c.rows).Workload().Phases, queries)
	if err != nil {
		return err
	}
	for k, query := range queries {
		q, err := pairOf(ctx, &query, one, three, stamps)
		if err != nil {
			return fmt.Errorf("%s: %w", query.Name, err)
		}
		q.want = want[k]
		var nearby, around [2][]float64
		for i := range askedOfNode * len(three.clients) {
			if i%askedOfNode == 0 {
				err = q.warm(ctx, three.clients[i/askedOfNode])
			}
			if err == nil {
				err = q.ask(ctx, three.clients[i/askedOfNode], i, &nearby)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", query.Name, err)
			}
		}
		for i := range askedOfNode * len(three.clients) {
			if err := q.ask(ctx, three.clients[i%len(three.clients)], i, &around); err != nil {
				return fmt.Errorf("%s: %w", query.Name, err)
			}
		}
		a, b := median(nearby[0]), median(nearby[1])
		c.say("%-4s %-40s a node %9s  a cluster %9s  its nodes in turn %9s, %.2f of a node",
			q.name, query.About, report.Duration(a), report.Duration(b),
			report.Duration(median(around[1])), median(around[1])/median(around[0]))
		c.figures.AtMost(q.name+", a cluster / a node", b/a, figure.Ratio, barClusterQuery)
		if b/a > barClusterQuery {
			slower++
		}
	}
	c.say("%d queries take more than %g times as long", slower, barClusterQuery)
	return nil
}

// pair is a query as a node by itself and a cluster are asked it.
type pair struct {
	name  string
	one   *client.Client
	boxes [2][]system.Query // one for one
	want  []workload.Answer // of the oracle
}

// pairOf gives the windows of acq of a query, which begin and end with batches, the acqs of either
// side. A cluster stores batches side by side: where there is nothing but such a window, it is made
// to hold as many rows.
func pairOf(
	ctx context.Context, query *workload.Query, one, three *side, stamps []int64,
) (q pair, err error) {
	q.name, q.one = query.Name, one.clients[0]
	for _, box := range query.Boxes {
		var own [2]system.Query
		for k, s := range []*side{one, three} {
			own[k] = box
			own[k].Box[record.Acq] = s.acquired(box.Box[record.Acq], stamps)
			if err := own[k].Normalize(); err != nil {
				return q, err
			}
		}
		if only(box.Box, record.Acq) {
			if err := evenOut(ctx, &own[0], one, &own[1], three); err != nil {
				return q, err
			}
		}
		for k := range own {
			q.boxes[k] = append(q.boxes[k], own[k])
		}
	}
	return q, nil
}

// only reports whether a box says something of one part of the key and of no other.
func only(box record.Box, part record.Dim) bool {
	for d, set := range box {
		if (len(set) > 0) != (record.Dim(d) == part) {
			return false
		}
	}
	return true
}

func (s *side) sortAcqs() { slices.Sort(s.acqs) }

// acquired gives ranges of the workload's stamps the acqs of as many batches of this side.
func (s *side) acquired(ranges record.RangeSet, stamps []int64) (out record.RangeSet) {
	own := func(ns int64) int64 {
		i, _ := slices.BinarySearch(stamps, ns)
		if i >= len(stamps) {
			return record.Acq.Max()
		}
		return s.acqs[i]
	}
	for _, r := range ranges {
		out = append(out, record.Range{From: own(r.From), To: own(r.To)})
	}
	return out
}

// evenOut moves the end of the window of acq of b to where it has as many rows as a, or just more
// where several have the same acq.
func evenOut(
	ctx context.Context, a *system.Query, ofA *side, b *system.Query, ofB *side,
) error {
	rows := func(q system.Query, s *side) (uint64, error) {
		q.Want = system.WantCount
		return pentad.Of(nil, s.clients[0]).Ask(ctx, &q, nil)
	}
	wanted, err := rows(*a, ofA)
	if err != nil {
		return err
	}
	from := b.Box[record.Acq][0].From
	low, high := from+1, ofB.acqs[len(ofB.acqs)-1]+int64(time.Minute) // above all rows
	for low < high {
		middle := low + (high-low)/2
		b.Box[record.Acq] = record.RangeSet{{From: from, To: middle}}
		switch n, err := rows(*b, ofB); {
		case err != nil:
			return err
		case n < wanted:
			low = middle + 1
		default:
			high = middle
		}
	}
	b.Box[record.Acq] = record.RangeSet{{From: from, To: low}}
	n, err := rows(*b, ofB)
	if err == nil && (n < wanted || n > wanted+wanted/100) {
		err = fmt.Errorf("no window of the cluster has the %d rows of one of the node, but %d",
			wanted, n)
	}
	return err
}

// warm asks both everything, untimed: no question that counts is the first of its kind to a node.
func (q *pair) warm(ctx context.Context, of *client.Client) (err error) {
	for i := 0; err == nil && i < len(q.boxes[0]); i++ {
		err = q.ask(ctx, of, i, new([2][]float64))
	}
	return err
}

// ask asks both box i and adds the times, in us.
func (q *pair) ask(
	ctx context.Context, of *client.Client, i int, times *[2][]float64,
) error {
	var rows [2]uint64
	for k, db := range []*client.Client{q.one, of} {
		box := &q.boxes[k][i%len(q.boxes[k])]
		began := time.Now()
		n, err := pentad.Of(nil, db).Ask(ctx, box, func(*record.Batch) {})
		if err != nil {
			return err
		}
		rows[k] = n
		times[k] = append(times[k], us(time.Since(began)))
	}
	i %= len(q.boxes[0])
	if want := q.want[i].Rows; (rows[0] != want || rows[1] != want) &&
		len(q.boxes[0][i].Box[record.Acq]) == 0 {
		return fmt.Errorf("WRONG ANSWER: a node has %d rows, a cluster %d, the oracle %d", rows[0],
			rows[1], want)
	}
	return nil
}
