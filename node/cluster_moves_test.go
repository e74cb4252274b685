package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// join starts one node more.
func (c *nodesTogether) join(zone string) *Node {
	c.Helper()
	opt := c.options[0]
	seed := opt.Cluster.Bind
	opt.Cluster.Init, opt.Cluster.Groups, opt.Cluster.Join = false, 0, []string{seed}
	opt.Dir, opt.Listen = c.TempDir(), freeaddr.New(c.T)
	opt.Cluster.RaftBind, opt.Cluster.Bind = freeaddr.New(c.T), freeaddr.New(c.T)
	opt.Cluster.Zone = zone
	n := openTest(c.T, opt)
	c.nodes, c.options = append(c.nodes, n), append(c.options, opt)
	return n
}

// forget leaves a node out of what is waited for and compared.
func (c *nodesTogether) forget(n *Node) {
	i := slices.Index(c.nodes, n)
	c.nodes, c.options = slices.Delete(c.nodes, i, i+1), slices.Delete(c.options, i, i+1)
}

// self is what the cluster calls a node.
func self(n *Node) string { return n.member.Load().Self().String() }

// decidedOf is what another node says that the cluster has decided about a node, and what it holds.
func decidedOf(from *Node, id string) (state string, replicas int) {
	for _, n := range from.member.Load().Status().Nodes {
		if n.ID == id {
			return n.State, n.Replicas
		}
	}
	return "", 0
}

// kindOf is the kind of an error that a node answered.
func kindIs(err error, want wire.Kind, text string) bool {
	var remote *wire.Error
	return errors.As(err, &remote) && remote.Kind == want && strings.Contains(remote.Message, text)
}

// load writes and reads while a cluster changes, with the retries that clients have by default.
type load struct {
	*nodesTogether
	stop   chan struct{}
	wg     sync.WaitGroup
	stored atomic.Int64 // acknowledged
	asked  atomic.Int64
}

// startLoad writes through one node and reads through another.
func (c *nodesTogether) startLoad(write, read *Node) *load {
	l := &load{nodesTogether: c, stop: make(chan struct{})}
	c.until("both nodes follow leaders", func() bool {
		return write.member.Load().Ready(c.Context()) == nil &&
			read.member.Load().Ready(c.Context()) == nil
	})
	for k := range 2 {
		l.wg.Go(func() { l.write(dial(c.T, write), int64(k)) })
	}
	reader, err := client.New(read.Addr().String()) // and no other node, which may be behind it
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = reader.Close() })
	l.wg.Go(func() { l.read(reader) })
	return l
}

// write stores records of its own devices until it is stopped.
func (l *load) write(to *client.Client, number int64) {
	w := to.NewWriter(client.WriterOptions{BatchRecords: 50})
	ctx := context.Background()
	var sent int64
	for {
		for range 50 {
			k := record.Key{CID: 1, MID: (sent%512*2 + number) * 256, MOID: 1, CapNs: 1 + sent}
			if err := w.Add(ctx, k, f64(float64(sent))); err != nil {
				l.Errorf("add: %v", err)
				return
			}
			sent++
		}
		if err := w.Flush(ctx); err != nil {
			l.Errorf("flush: %v", err)
			return
		}
		l.stored.Add(50)
		select {
		case <-l.stop:
			if err := w.Close(ctx); err != nil {
				l.Errorf("close the writer: %v", err)
			}
			return
		case <-time.After(20 * time.Millisecond): // what came is copied, again and again
		}
	}
}

// read counts everything; no record may go missing that an answer has shown once.
func (l *load) read(from *client.Client) {
	var least uint64
	for {
		pause := 2 * time.Millisecond
		count, end, err := from.Count(context.Background(), &record.Query{})
		var remote *wire.Error
		switch {
		case errors.As(err, &remote) && remote.Kind.Temporary():
			l.Logf("count again: %v", err)
			pause = time.Duration(remote.RetryAfterMs) * time.Millisecond
		case err != nil || !end.Complete:
			l.Errorf("count: %v %+v", err, end)
			return
		case count < least:
			l.Errorf("%d records, and before there were %d", count, least)
		default:
			least = count
			l.asked.Add(1)
		}
		select {
		case <-l.stop:
			return
		case <-time.After(pause):
		}
	}
}

// goesOn waits until more was stored and read.
func (l *load) goesOn() {
	l.Helper()
	stored, asked := l.stored.Load(), l.asked.Load()
	l.until("writes and reads go on", func() bool {
		return l.Failed() || l.stored.Load() > stored+200 && l.asked.Load() > asked
	})
}

// end stops and compares what all nodes have.
func (l *load) end() {
	l.Helper()
	close(l.stop)
	l.wg.Wait()
	want := uint64(l.stored.Load())
	for i, n := range l.nodes {
		for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
			l.until("a node has what was acknowledged", func() bool {
				return l.count(n, &record.Query{View: view}) >= want
			})
			if got := l.count(n, &record.Query{View: view}); got != want {
				l.Errorf("node %d counts %d in view %v, %d were acknowledged", i, got, view, want)
			}
		}
	}
	l.sameReplicas()
}

func TestAClusterMovesUnderLoad(t *testing.T) {
	c := openTogether(t, 3, 4)
	l := c.startLoad(c.nodes[1], c.nodes[1])
	l.goesOn()

	fourth := c.join("z3")
	c.until("the fourth node has its share", func() bool {
		_, held := decidedOf(c.nodes[1], self(fourth))
		return held >= 2 && c.settled(3)
	})
	l.goesOn()

	first := c.nodes[0] // it made the cluster, and leads it
	p, err := dial(t, first).DrainNode(t.Context(), client.ClusterAct{Node: self(first)})
	if err != nil || !p.Changed || p.State != "draining" {
		t.Fatalf("drain: %v, %+v", err, p)
	}
	c.until("the first node has left", func() bool {
		state, held := decidedOf(c.nodes[1], self(first))
		return state == "left" && held == 0
	})
	l.goesOn()
	c.until("the first node brings queries to others", func() bool {
		count, _, err := first.Count(t.Context(), &record.Query{})
		return err == nil && count > 0
	})
	seed := c.options[1].Cluster.Bind
	c.forget(first)
	c.until("all is where it should be", func() bool { return c.settled(3) })
	c.removeAndReplace(l, c.nodes[1], seed)
	l.end()
}

// removeAndReplace kills a node, has its copies made again on another one, and lets it come back.
func (c *nodesTogether) removeAndReplace(l *load, dead *Node, seed string) {
	c.Helper()
	by := dial(c.T, c.nodes[0])
	act := client.ClusterAct{Node: self(dead)}
	if _, err := by.RemoveNode(c.Context(), act); !kindIs(err, wire.KindForbidden, "answers") {
		c.Fatalf("remove a node that lives: %v", err)
	}
	at := slices.Index(c.nodes, dead)
	opt := c.options[at]
	c.stop(at)
	c.forget(dead)
	l.goesOn()
	c.until("the dead node may be removed", func() bool {
		p, err := by.RemoveNode(c.Context(), act)
		if err != nil {
			c.Log(err)
		}
		return err == nil && p.State == "removing"
	})
	c.options[0].Cluster.Bind = seed
	c.join("z4")
	c.until("its copies are made again", func() bool {
		state, held := decidedOf(c.nodes[0], act.Node)
		return state == "left" && held == 0 && c.settled(3)
	})
	l.goesOn()

	said := make(chan error, 8)
	opt.Fail = func(err error) { said <- err }
	opt.Cluster.Init, opt.Cluster.Groups, opt.Cluster.Join = false, 0, []string{seed}
	back := openTest(c.T, opt)
	if err := <-said; !errors.Is(err, member.ErrRemoved) {
		c.Errorf("a removed node comes back: %v", err)
	}
	l.goesOn()
	if state, _ := decidedOf(c.nodes[0], self(back)); state != "left" {
		c.Errorf("the node that came back is %s", state)
	}
}

// TestActsOnACluster: two operators at once, dry runs, what is refused, and what can be seen.
func TestActsOnACluster(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters do the same under load")
	c := openTogether(t, 3, 4)
	db := []*client.Client{dial(t, c.nodes[0]), dial(t, c.nodes[1]), dial(t, c.nodes[2])}
	ctx := t.Context()
	refused := func(what string, kind wire.Kind, text string, err error) {
		t.Helper()
		if !kindIs(err, kind, text) {
			t.Errorf("%s: %v, want %v with %q", what, err, kind, text)
		}
	}
	second := client.ClusterAct{Node: c.nodes[1].Addr().String()}
	_, err := db[0].DrainNode(ctx, second)
	refused("drain one of three", wire.KindForbidden, "copies of everything", err)
	second.FewerCopies, second.DryRun = true, true
	p, err := db[2].DrainNode(ctx, second)
	if err != nil || !p.Changed || p.State != "draining" || len(p.Changes) != 5 ||
		!slices.ContainsFunc(p.Notes, func(s string) bool {
			return strings.Contains(s, `last of zone "z1"`)
		}) {
		t.Fatalf("dry run: %v, %+v", err, p)
	}
	if state, _ := decidedOf(c.nodes[0], self(c.nodes[1])); state != "up" {
		t.Fatalf("after a dry run the node is %s", state)
	}
	for what, node := range map[string]string{"": "wanted", "ffffffffffffffff": "no such node"} {
		_, err := db[0].DrainNode(ctx, client.ClusterAct{Node: what})
		if err == nil || !strings.Contains(err.Error(), node) {
			t.Errorf("drain %q: %v", what, err)
		}
	}
	copies, rate := uint32(7), uint64(5<<20)
	p, err = db[1].Rebalance(ctx, client.ClusterLimits{Copies: &copies, BytesPerSec: &rate}, false)
	if err != nil || p.Copies != 7 || p.BytesPerSec != 5<<20 || !p.Changed {
		t.Fatalf("rebalance: %v, %+v", err, p)
	}
	rate = 1
	_, err = db[1].Rebalance(ctx, client.ClusterLimits{BytesPerSec: &rate}, false)
	refused("too slow", wire.KindInvalid, "are possible", err)
	c.twoOperators(db, second)
	c.looks(db[2])
}

// twoOperators drain one node each of three at the same time, and would leave one copy.
func (c *nodesTogether) twoOperators(db []*client.Client, second client.ClusterAct) {
	c.Helper()
	ctx := c.Context()
	second.DryRun = false
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i, node := range []string{self(c.nodes[0]), self(c.nodes[1]), self(c.nodes[2])} {
		wg.Go(func() {
			_, errs[i] = db[(i+1)%3].DrainNode(ctx, client.ClusterAct{Node: node,
				FewerCopies: true})
		})
	}
	wg.Wait()
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
			if !kindIs(err, wire.KindForbidden, "the only one that is up") {
				c.Errorf("drain: %v", err)
			}
		}
	}
	if failed != 1 {
		c.Fatalf("three nodes were drained at the same time: %v", errs)
	}
	for i, n := range c.nodes {
		if _, err := db[0].UndrainNode(ctx, client.ClusterAct{Node: self(n)}); err != nil {
			c.Logf("undrain %d: %v", i, err) // it may have left
		}
	}
}

// looks asks for all that is shown of a cluster that rests.
func (c *nodesTogether) looks(db *client.Client) {
	c.Helper()
	ctx := c.Context()
	var groups []api.ClusterGroup
	c.until("nothing moves", func() bool {
		all, err := db.Cluster(ctx)
		return err == nil && all.Changes+len(all.Running)+len(all.Blocked)+all.Plans == 0
	})
	c.until("all groups are closed", func() bool {
		var err error
		groups, err = db.ClusterGroups(ctx)
		return err == nil && !slices.ContainsFunc(groups, func(s api.ClusterGroup) bool {
			return s.Group > 0 && s.ClosedNs == 0
		})
	})
	slot := uint32(0)
	for _, s := range groups {
		leads := 0
		for _, x := range s.Copies {
			if x.Error != "" || x.Learner || x.Applied == 0 {
				c.Errorf("group %d: %+v", s.Group, x)
			}
			if x.Leads {
				leads++
			}
		}
		if leads != 1 || s.Group > 0 && (s.FromSlot != slot || s.Bytes == 0) {
			c.Errorf("%+v", s)
		}
		slot = s.ToSlot
	}
	nodes, err := db.ClusterNodes(ctx)
	if err != nil || len(nodes) != 3 || slot != 16384 {
		c.Fatalf("%v: %d nodes, slots up to %d", err, len(nodes), slot)
	}
	for _, n := range nodes {
		if n.State == "up" && (n.Error != "" || n.Bytes == 0 || n.GossipAddr == "" ||
			n.Weight != 100 || n.Starts != 1) {
			c.Errorf("%+v", n)
		}
	}
}
