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
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/bench/workload/meters"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// What is promised of a cluster.
const (
	barClusterIngest = 0.5 // of a single node's
	barClusterQuery  = 1.5 // times a single node's latency

	putters    = 8 // batches in progress
	turns      = 6 // of each, in which the load is put
	quietFor   = 200 * time.Millisecond
	quietCores = 0.1 // what all nodes may use together while one side is measured
)

// side is a node by itself, or a cluster, as clients see it.
type side struct {
	name    string // of its folders
	token   string // file of a cluster's token; "" for a node by itself
	gossip  string // of its first node
	groups  int    // of it
	empty   int    // nodes that hold no copies; the last ones
	nodes   []*served
	args    [][]string // of nodes of a cluster
	clients []*client.Client

	took    time.Duration // to take the load
	records int64
	acqs    []int64 // the first of each batch
}

// freeAddress is one that no one listens on now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// startSide starts nodes, which are joined to a cluster, or one that is by itself.
func (c *clusterRun) startSide(
	ctx context.Context, count int, joined bool, groups int,
) (s *side, err error) {
	s = &side{groups: groups, name: fmt.Sprintf("nodes-%d", count)}
	if joined {
		s.name = clusterName(count)
		s.token = filepath.Join(c.work, s.name+".token")
		token, err := cluster.NewToken(rand.Reader)
		if err == nil {
			err = os.WriteFile(s.token, []byte(token.Text()), 0o600)
		}
		if err != nil {
			return s, err
		}
	}
	for range count {
		if err := c.startNode(ctx, s, usualWeight); err != nil {
			return s, err
		}
	}
	return s, s.ready(ctx)
}

// clusterName is the folder of a cluster.
func clusterName(count int) string { return fmt.Sprintf("cluster-%d", count) }

const (
	// usualWeight is so large that a node of weight 1 has no part in the copies.
	usualWeight = 1_000_000
	emptyWeight = 1
)

// startEmpty adds a node to a cluster that holds no copies: all that it is asked, others know.
func (c *clusterRun) startEmpty(ctx context.Context, s *side) error {
	s.empty++
	if err := c.startNode(ctx, s, emptyWeight); err != nil {
		return err
	}
	return s.ready(ctx)
}

// startNode starts one more node of a side.
func (c *clusterRun) startNode(ctx context.Context, s *side, weight int) error {
	i := len(s.args)
	var args []string
	if c.slack > 0 {
		args = append(args, "--timer-slack", c.slack.String())
	}
	if s.token != "" {
		gossip, err := freeAddress()
		raft, err2 := freeAddress()
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		args = append(args, "--cluster-token", s.token, "--gossip-listen", gossip,
			"--raft-listen", raft, "--zone", fmt.Sprint("z", i), "--weight", strconv.Itoa(weight))
		if i == 0 {
			s.gossip = gossip
			args = append(args, "--cluster-init", "--groups", strconv.Itoa(s.groups))
		} else {
			args = append(args, "--join", s.gossip)
		}
	}
	s.args = append(s.args, args)
	n, err := serve(ctx, c.pentad, c.nodeDir(s, i), args...)
	if err != nil {
		return err
	}
	s.nodes = append(s.nodes, n)
	db, err := client.New(n.addr)
	if err == nil {
		s.clients = append(s.clients, db)
	}
	return err
}

// restart starts a node again that has ended, with its directory and at its address.
func (c *clusterRun) restart(ctx context.Context, s *side, i int, address string) (err error) {
	s.nodes[i], err = serve(ctx, c.pentad, c.nodeDir(s, i),
		append(slices.Clone(s.args[i]), "--listen", strings.TrimPrefix(address, "http://"))...)
	return err
}

func (c *clusterRun) nodeDir(s *side, i int) string {
	return filepath.Join(c.work, s.name, fmt.Sprint(i+1))
}

// remove stops all nodes and removes their files, so that others of as many nodes can come.
func (c *clusterRun) remove(s *side) error {
	return errors.Join(s.stop(), os.RemoveAll(filepath.Join(c.work, s.name)))
}

// ready waits until every node of a cluster knows of all, each leads some groups and holds all, but
// for those that hold none, and no change is in progress or due.
func (s *side) ready(ctx context.Context) error {
	for _, db := range s.clients {
		for s.token != "" {
			st, err := db.Cluster(ctx)
			if err == nil && st.Plans == 0 && st.Changes == 0 && s.placed(st.Nodes) {
				break
			}
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// placed reports whether copies and leaders are where they are to be.
func (s *side) placed(nodes []api.NodeStatus) bool {
	full, empty := 0, 0
	for _, n := range nodes {
		switch {
		case n.Leads > 0 && n.Replicas >= s.groups:
			full++
		case n.Replicas == 0 && n.State == "up":
			empty++
		}
	}
	return len(nodes) == len(s.nodes) && empty == s.empty && full == len(nodes)-empty
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

// put puts batches through nodes in turn, some at a time.
func (s *side) put(
	ctx context.Context, through []*client.Client, batches []*record.Batch,
) error {
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
				ack, err := through[at%len(through)].Put(ctx, batches[at], id, seq)
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
	defer func() { err = errors.Join(err, c.remove(one)) }()
	if err != nil {
		return err
	}
	three, err := c.startSide(ctx, 3, true, c.groups)
	defer func() { err = errors.Join(err, c.remove(three)) }()
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
	defer func() { err = errors.Join(err, c.remove(lone)) }()
	if err != nil {
		return nil, err
	}
	sides := []*side{one, lone, three}
	config := meters.Sized(c.rows)
	stream := config.NewStream()
	perTurn := config.Devices * config.Slots / workload.BatchRows / turns
	used := make([]time.Duration, len(sides))
	for {
		batches := take(stream, max(perTurn, 1), &stamps)
		if len(batches) == 0 {
			break
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

// take makes the next batches and adds their stamps, which the nodes give themselves; none at the
// end.
func take(stream workload.Stream, count int, stamps *[]int64) (batches []*record.Batch) {
	for len(batches) < count {
		var b record.Batch
		if !stream.Next(&b) {
			break
		}
		*stamps = append(*stamps, b.AcqNs[0])
		b.AcqNs = nil
		batches = append(batches, &b)
	}
	return batches
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
		err = s.put(ctx, s.clients, batches)
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
