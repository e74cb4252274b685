package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/peers/pentad"
	"github.com/pentad-db/pentad/bench/process"
	"github.com/pentad-db/pentad/bench/report"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/bench/workload/meters"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// What is promised of a cluster.
const (
	barClusterIngest = 0.5 // of a single node's
	barClusterQuery  = 1.5 // times a single node's latency
	barOutage        = 0.8 // s, median
	barLongestOutage = 1.5 // s

	putters      = 8  // batches under way
	turns        = 6  // of each, in which the load is put
	askedOfQuery = 40 // times of each query and system
	quietFor     = 200 * time.Millisecond
	quietCores   = 0.1 // what all nodes may use together while one side is measured
	probed       = 64  // devices that are written to while nodes are killed
)

// side is a node by itself, or a cluster, as clients see it.
type side struct {
	nodes   []*served
	args    [][]string // of nodes of a cluster
	clients []*client.Client

	took    time.Duration // to take the load
	records int64
	acqs    []int64 // the first of each batch
}

// freeAddress is one that nobody listens on now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// startSide starts so many nodes; more than one are a cluster.
func (c *clusterRun) startSide(ctx context.Context, count int) (s *side, err error) {
	s = &side{args: make([][]string, count)}
	token, err := cluster.NewToken(rand.Reader)
	if err != nil {
		return s, err
	}
	file := filepath.Join(c.work, "token")
	if err := os.WriteFile(file, []byte(token.Text()), 0o600); err != nil {
		return s, err
	}
	first := ""
	for i := range count {
		if count > 1 {
			gossip, err := freeAddress()
			raft, err2 := freeAddress()
			if err := errors.Join(err, err2); err != nil {
				return s, err
			}
			s.args[i] = []string{"--cluster-token", file, "--gossip-listen", gossip,
				"--raft-listen", raft, "--zone", fmt.Sprint("z", i)}
			if i == 0 {
				first = gossip
				s.args[i] = append(s.args[i], "--cluster-init", "--groups", strconv.Itoa(c.groups))
			} else {
				s.args[i] = append(s.args[i], "--join", first)
			}
		}
		n, err := serve(ctx, c.pentad, c.nodeDir(count, i), s.args[i]...)
		if err != nil {
			return s, err
		}
		s.nodes = append(s.nodes, n)
		db, err := client.New(n.addr)
		if err != nil {
			return s, err
		}
		s.clients = append(s.clients, db)
	}
	return s, s.ready(ctx, c.groups)
}

func (c *clusterRun) nodeDir(count, i int) string {
	return filepath.Join(c.work, fmt.Sprintf("node-%d-of-%d", i+1, count))
}

// ready waits until every node of a cluster knows of all, each leads some groups, and no change is
// under way.
func (s *side) ready(ctx context.Context, groups int) error {
	for _, db := range s.clients {
		for len(s.nodes) > 1 {
			st, err := db.Cluster(ctx)
			waiting := func(n client.ClusterNode) bool {
				return n.Leads == 0 || n.Replicas < groups
			}
			if err == nil && len(st.Nodes) == len(s.nodes) && st.Plans == 0 &&
				!slices.ContainsFunc(st.Nodes, waiting) {
				break
			}
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *side) stop() (err error) {
	for _, db := range s.clients {
		err = errors.Join(err, db.Close())
	}
	for _, n := range s.nodes {
		if n != nil {
			err = errors.Join(err, n.stop())
		}
	}
	return err
}

// processor is the time that all nodes have used.
func (s *side) processor() (sum time.Duration, err error) {
	for _, n := range s.nodes {
		used, one := process.CPU(n.cmd.Process.Pid)
		sum, err = sum+used, errors.Join(err, one)
	}
	return sum, err
}

// put puts batches through all nodes in turn, some at a time.
func (s *side) put(ctx context.Context, batches []*record.Batch) error {
	var next, stored atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, putters)
	acqs := make([]int64, len(batches))
	began := time.Now()
	for i := range errs {
		wg.Go(func() {
			var id [16]byte
			_, errs[i] = rand.Read(id[:])
			for seq := uint64(1); errs[i] == nil; seq++ {
				at := int(next.Add(1)) - 1
				if at >= len(batches) {
					return
				}
				ack, err := s.clients[at%len(s.clients)].Put(ctx, batches[at], id, seq)
				errs[i], acqs[at] = err, ack.FirstAcqNs
				stored.Add(int64(batches[at].Len()))
			}
		})
	}
	wg.Wait()
	s.took += time.Since(began)
	s.records += stored.Load()
	s.acqs = append(s.acqs, acqs...)
	return errors.Join(errs...)
}

// nodes measures processes: a node by itself and a cluster beside it.
func (c *clusterRun) nodes(ctx context.Context) (err error) {
	one, err := c.startSide(ctx, 1)
	defer func() { err = errors.Join(err, one.stop()) }()
	if err != nil {
		return err
	}
	three, err := c.startSide(ctx, 3)
	defer func() { err = errors.Join(err, three.stop()) }()
	if err != nil {
		return err
	}
	stamps, err := c.ingest(ctx, one, three)
	if err != nil {
		return err
	}
	if err := c.ask(ctx, one, three, stamps); err != nil {
		return err
	}
	return c.kill(ctx, three)
}

// ingest puts the same batches into both, in turns, and returns the stamps of the workload.
func (c *clusterRun) ingest(ctx context.Context, one, three *side) (stamps []int64, err error) {
	config := meters.Sized(c.rows)
	stream := config.NewStream()
	perTurn := config.Devices * config.Slots / workload.BatchRows / turns
	used := [2]time.Duration{}
	for more := true; more; {
		var batches []*record.Batch
		for len(batches) < max(perTurn, 1) {
			var b record.Batch
			if more = stream.Next(&b); !more {
				break
			}
			stamps = append(stamps, b.AcqNs[0])
			b.AcqNs = nil
			batches = append(batches, &b)
		}
		for i, s := range []*side{one, three} {
			if err := quiet(ctx, one, three); err != nil {
				return nil, err
			}
			before, err := s.processor()
			if err == nil {
				err = s.put(ctx, batches)
			}
			if err != nil {
				return nil, err
			}
			after, err := s.processor()
			if err != nil {
				return nil, err
			}
			used[i] += after - before
		}
	}
	a, b := rate(one.records, one.took), rate(three.records, three.took)
	c.figures.Add("durable ingest, a node", a, "M records/s")
	c.figures.Add("durable ingest, a cluster", b, "M records/s")
	c.figures.AtLeast("durable ingest, a cluster / a node", b/a, figure.Ratio, barClusterIngest)
	perM := func(d time.Duration) float64 { return d.Seconds() / float64(one.records) * 1e6 }
	c.figures.Add("processor time of ingest, a node", perM(used[0]), "s/M records")
	c.figures.Add("processor time of ingest, all of a cluster", perM(used[1]), "s/M records")
	return stamps, stream.Err()
}

// quiet waits until no node works: what one side has put off, seals and merges, would else be paid
// for by the other.
func quiet(ctx context.Context, all ...*side) error {
	used := func() (sum time.Duration, err error) {
		for _, s := range all {
			one, err := s.processor()
			if err != nil {
				return 0, err
			}
			sum += one
		}
		return sum, nil
	}
	for {
		before, err := used()
		if err == nil {
			err = pause(ctx, quietFor)
		}
		if err != nil {
			return err
		}
		after, err := used()
		if err != nil {
			return err
		}
		if (after - before).Seconds() <= quietCores*quietFor.Seconds() {
			return nil
		}
	}
}

// ask asks the ten queries of both in turn.
func (c *clusterRun) ask(ctx context.Context, one, three *side, stamps []int64) error {
	slower := 0
	if err := quiet(ctx, one, three); err != nil {
		return err
	}
	for _, q := range meters.Sized(c.rows).Queries(stamps) {
		var times [2][]float64
		for i := range askedOfQuery {
			var rows [2]uint64
			box := q.Boxes[i%len(q.Boxes)]
			for k, s := range []*side{one, three} {
				own := box
				own.Box[record.Acq] = s.acquired(box.Box[record.Acq], stamps)
				if err := own.Normalize(); err != nil {
					return err
				}
				db := pentad.Of(nil, s.clients[i%len(s.clients)])
				began := time.Now()
				n, err := db.Ask(ctx, &own, func(*record.Batch) {})
				if err != nil {
					return fmt.Errorf("%s: %w", q.Name, err)
				}
				rows[k] = n
				times[k] = append(times[k], us(time.Since(began)))
			}
			if rows[0] != rows[1] && len(box.Box[record.Acq]) == 0 {
				return fmt.Errorf("%s: a node has %d rows, a cluster %d", q.Name, rows[0], rows[1])
			}
		}
		slices.Sort(times[0])
		slices.Sort(times[1])
		a, b := times[0][askedOfQuery/2], times[1][askedOfQuery/2]
		c.say("%-4s %-40s a node %9s  a cluster %9s", q.Name, q.About, report.Duration(a),
			report.Duration(b))
		c.figures.AtMost(q.Name+", a cluster / a node", b/a, figure.Ratio, barClusterQuery)
		if b/a > barClusterQuery {
			slower++
		}
	}
	c.say("%d queries take more than %g times as long", slower, barClusterQuery)
	return nil
}

// acquired gives ranges of the workload's stamps, which begin and end with batches, the stamps that
// this side gave to those. Batches come side by side, so some rows may differ.
func (s *side) acquired(ranges record.RangeSet, stamps []int64) (out record.RangeSet) {
	own := func(ns int64) int64 {
		i, _ := slices.BinarySearch(stamps, ns)
		if i >= len(stamps) {
			return record.Acq.Max()
		}
		return s.acqs[i]
	}
	for _, r := range ranges {
		from, to := own(r.From), own(r.To)
		out = append(out, record.Range{From: min(from, to), To: max(from, to)})
	}
	return out
}

// kill kills nodes of a cluster, one after the other, while devices of all groups are written to
// through the others.
func (c *clusterRun) kill(ctx context.Context, s *side) error {
	var outages []time.Duration
	for round := range c.rounds {
		victim := 1 + round%(len(s.nodes)-1)
		through := []*client.Client{s.clients[0], s.clients[len(s.nodes)-victim]}
		var p probes
		all := make([]int, probed)
		for i := range all {
			all[i] = i
			p.start(ctx, prober(through[i%2], i))
		}
		addr := strings.TrimPrefix(s.nodes[victim].addr, "http://")
		err := pause(ctx, 3*time.Second)
		if err == nil {
			p.reset()
			err = s.nodes[victim].kill()
			s.nodes[victim] = nil
		}
		if err == nil {
			err = pause(ctx, 6*time.Second)
		}
		for _, gap := range p.longest(all) {
			if gap > noOutage {
				outages = append(outages, gap)
			}
		}
		if err := errors.Join(err, p.stop()); err != nil {
			return err
		}
		n, err := serve(ctx, c.pentad, c.nodeDir(len(s.nodes), victim),
			append(slices.Clone(s.args[victim]), "--listen", addr)...)
		if err != nil {
			return err
		}
		s.nodes[victim] = n
		if err := s.ready(ctx, c.groups); err != nil {
			return err
		}
	}
	slices.Sort(outages)
	c.say("%d kills, %d of %d devices had an outage", c.rounds, len(outages), c.rounds*probed)
	if len(outages) > 0 {
		c.figures.AtMost("outage after kill -9 of a leader, median",
			outages[len(outages)/2].Seconds(), "s", barOutage)
		c.figures.AtMost("outage after kill -9 of a leader, longest",
			outages[len(outages)-1].Seconds(), "s", barLongestOutage)
	}
	return nil
}

// noOutage is what a put may take while nothing is wrong: shorter than any election.
const noOutage = 300 * time.Millisecond

// prober puts readings of one device, as a writer with its default retries does.
func prober(db *client.Client, device int) func(context.Context) error {
	return func(ctx context.Context) error {
		w := db.NewWriter(client.WriterOptions{})
		err := w.Add(ctx, record.Key{CID: 1, MID: int64(device) << 6, MOID: 1,
			CapNs: time.Now().UnixNano()}, make([]byte, system.NumberBytes))
		return errors.Join(err, w.Close(ctx))
	}
}
