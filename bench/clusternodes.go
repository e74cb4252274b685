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
	"github.com/pentad-db/pentad/bench/process"
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

	putters    = 8 // batches under way
	turns      = 6 // of each, in which the load is put
	quietFor   = 200 * time.Millisecond
	quietCores = 0.1 // what all nodes may use together while one side is measured
	probed     = 64  // devices that are written to while nodes are killed
)

// side is a node by itself, or a cluster, as clients see it.
type side struct {
	joined  bool // nodes of a cluster
	groups  int  // of it
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

// startSide starts so many nodes, which are joined to a cluster, or one that is by itself.
func (c *clusterRun) startSide(
	ctx context.Context, count int, joined bool, groups int,
) (s *side, err error) {
	s = &side{joined: joined, groups: groups, args: make([][]string, count)}
	token, err := cluster.NewToken(rand.Reader)
	if err != nil {
		return s, err
	}
	file := filepath.Join(c.work, fmt.Sprint("token-of-", count))
	if err := os.WriteFile(file, []byte(token.Text()), 0o600); err != nil {
		return s, err
	}
	first := ""
	for i := range count {
		if s.joined {
			gossip, err := freeAddress()
			raft, err2 := freeAddress()
			if err := errors.Join(err, err2); err != nil {
				return s, err
			}
			s.args[i] = []string{"--cluster-token", file, "--gossip-listen", gossip,
				"--raft-listen", raft, "--zone", fmt.Sprint("z", i)}
			if i == 0 {
				first = gossip
				s.args[i] = append(s.args[i], "--cluster-init", "--groups", strconv.Itoa(groups))
			} else {
				s.args[i] = append(s.args[i], "--join", first)
			}
		}
		n, err := serve(ctx, c.pentad, c.nodeDir(s, i), s.args[i]...)
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
	return s, s.ready(ctx)
}

func (c *clusterRun) nodeDir(s *side, i int) string {
	kind := "node"
	if s.joined {
		kind = "replica"
	}
	return filepath.Join(c.work, fmt.Sprintf("%s-%d-of-%d", kind, i+1, len(s.args)))
}

// ready waits until every node of a cluster knows of all, each leads some groups, and no change is
// under way.
func (s *side) ready(ctx context.Context) error {
	for _, db := range s.clients {
		for s.joined {
			st, err := db.Cluster(ctx)
			waiting := func(n client.ClusterNode) bool {
				return n.Leads == 0 || n.Replicas < s.groups
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

// nodes measures processes: a node by itself and a cluster beside it. For ingest there is a cluster
// of one as well, which does what a replica does, but for what goes over the network.
func (c *clusterRun) nodes(ctx context.Context) (err error) {
	one, err := c.startSide(ctx, 1, false, c.groups)
	defer func() { err = errors.Join(err, one.stop()) }()
	if err != nil {
		return err
	}
	three, err := c.startSide(ctx, 3, true, c.groups)
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

// ingest puts the same batches into all, in turns, and returns the stamps of the workload.
func (c *clusterRun) ingest(ctx context.Context, one, three *side) (stamps []int64, err error) {
	lone, err := c.startSide(ctx, 1, true, c.groups)
	defer func() { err = errors.Join(err, lone.stop()) }()
	if err != nil {
		return nil, err
	}
	sides := []*side{one, lone, three}
	config := meters.Sized(c.rows)
	stream := config.NewStream()
	perTurn := config.Devices * config.Slots / workload.BatchRows / turns
	used := make([]time.Duration, len(sides))
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
		for i, s := range sides {
			took, err := s.putAlone(ctx, batches, sides)
			if err != nil {
				return nil, err
			}
			used[i] += took
		}
	}
	c.tellIngest(sides, used)
	return stamps, stream.Err()
}

// putAlone puts batches while all sides do nothing else, and returns the processor time that the
// nodes of this side took.
func (s *side) putAlone(
	ctx context.Context, batches []*record.Batch, all []*side,
) (time.Duration, error) {
	if err := quiet(ctx, all...); err != nil {
		return 0, err
	}
	before, err := s.processor()
	if err == nil {
		err = s.put(ctx, batches)
	}
	if err != nil {
		return 0, err
	}
	after, err := s.processor()
	return after - before, err
}

// tellIngest says what a node, a cluster of one and a cluster took.
func (c *clusterRun) tellIngest(sides []*side, used []time.Duration) {
	rates, costs := make([]float64, len(sides)), make([]float64, len(sides))
	for i, name := range []string{"a node", "a cluster of one", "a cluster"} {
		rates[i] = rate(sides[i].records, sides[i].took)
		costs[i] = used[i].Seconds() / float64(sides[i].records) * 1e6
		c.figures.Add("durable ingest, "+name, rates[i], "M records/s")
		c.figures.Add("processor time of ingest, "+name, costs[i], "s/M records")
	}
	c.figures.AtLeast("durable ingest, a cluster / a node", rates[2]/rates[0], figure.Ratio,
		barClusterIngest)
	c.figures.Add("processor time, a cluster / three clusters of one", costs[2]/costs[1]/3,
		figure.Ratio)
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
		n, err := serve(ctx, c.pentad, c.nodeDir(s, victim),
			append(slices.Clone(s.args[victim]), "--listen", addr)...)
		if err != nil {
			return err
		}
		s.nodes[victim] = n
		if err := s.ready(ctx); err != nil {
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
		err := w.Add(ctx, record.Key{CID: 1, MID: int64(device) << 8, MOID: 1,
			CapNs: time.Now().UnixNano()}, make([]byte, system.NumberBytes))
		return errors.Join(err, w.Close(ctx))
	}
}
