package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// before and after are the programs of an upgrade: the later one also runs the level that is in
// development, and neither says or writes anything of it below that level.
func before(opt *Options) {
	opt.Cluster.Program = "v1"
	opt.Cluster.Features = cluster.InDevelopment()
	opt.Cluster.Features.Last--
}

func after(opt *Options) {
	opt.Cluster.Program, opt.Cluster.Features = "v2", cluster.InDevelopment()
}

// upgradeLoad is a client with the retries that it has by default, which puts, asks and follows
// changes while each node ends and comes back.
type upgradeLoad struct {
	*nodesTogether
	addrs string
	stop  chan struct{}
	wg    sync.WaitGroup
	asked atomic.Int64

	mu    sync.Mutex
	acked map[record.Key]byte // guarded by mu
	fed   map[record.Key]byte // guarded by mu: acq is 0
}

func (c *nodesTogether) startUpgradeLoad() *upgradeLoad {
	l := &upgradeLoad{nodesTogether: c, stop: make(chan struct{}), acked: map[record.Key]byte{},
		fed: map[record.Key]byte{}}
	var addrs []string
	for _, n := range c.nodes {
		c.until("a node is ready", func() bool { return n.member.Load().Ready(c.Context()) == nil })
		addrs = append(addrs, n.Addr().String())
	}
	l.addrs = strings.Join(addrs, ",")
	ctx, cancel := context.WithCancel(context.Background())
	put, ask, follow := l.client(), l.client(), l.client()
	l.wg.Go(func() { l.put(put) })
	l.wg.Go(func() { l.ask(ask) })
	var feed sync.WaitGroup
	feed.Go(func() { l.follow(ctx, follow) })
	c.Cleanup(func() {
		cancel()
		feed.Wait()
	})
	return l
}

func (l *upgradeLoad) client() *client.Client {
	c, err := client.New(l.addrs)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = c.Close() })
	return c
}

// put stores batches until it is stopped; what is acknowledged is the truth.
func (l *upgradeLoad) put(to *client.Client) {
	w := to.NewWriter(client.WriterOptions{BatchRecords: 50})
	ctx := context.Background()
	for sent, going := int64(0), true; going; {
		batch := map[record.Key]byte{}
		for range 50 {
			k := record.Key{CID: 1, MID: sent % 512 * 256, MOID: 1, CapNs: 1 + sent}
			if err := w.Add(ctx, k, []byte{byte(sent)}); err != nil {
				l.Errorf("add: %v", err)
				return
			}
			batch[k] = byte(sent)
			sent++
		}
		if err := w.Flush(ctx); err != nil {
			l.Errorf("flush: %v", err)
			return
		}
		l.mu.Lock()
		for k, v := range batch {
			l.acked[k] = v
		}
		l.mu.Unlock()
		select {
		case <-l.stop:
			going = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err := w.Close(ctx); err != nil {
		l.Errorf("close the writer: %v", err)
	}
}

// ask counts everything: what was acknowledged before must be there.
func (l *upgradeLoad) ask(from *client.Client) {
	for {
		pause := 30 * time.Millisecond // a count costs all nodes
		l.mu.Lock()
		least := uint64(len(l.acked))
		l.mu.Unlock()
		count, end, err := from.Count(context.Background(), &record.Query{})
		var remote *wire.Error
		switch {
		case errors.As(err, &remote) && remote.Kind.Temporary(): // the client is told when to retry
			l.Logf("ask again: %v", err)
			pause = time.Duration(remote.RetryAfterMs) * time.Millisecond
		case err != nil || !end.Complete:
			l.Errorf("count: %v %+v", err, end)
			return
		default:
			l.asked.Add(1)
			l.atLeast(count, least)
		}
		select {
		case <-l.stop:
			return
		case <-time.After(pause):
		}
	}
}

// atLeast is of an answer of a client that did not put: another node may answer that is behind, but
// never by more than a moment.
func (l *upgradeLoad) atLeast(count, least uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if count > uint64(len(l.acked))+50 {
		l.Errorf("%d records, %d were acknowledged and 50 in flight", count, len(l.acked))
	}
	if count < least {
		l.Logf("%d records of %d: the node that is asked is behind", count, least)
	}
}

func (l *upgradeLoad) follow(ctx context.Context, from *client.Client) {
	for x, err := range from.Changes(ctx, &record.Query{}, 0) {
		if err != nil {
			l.Errorf("changes: %v", err)
			return
		}
		if x.Record == nil {
			continue
		}
		k := x.Record.Key
		k.AcqNs = 0
		l.mu.Lock()
		if _, twice := l.fed[k]; twice {
			l.Errorf("%v came twice", k)
		}
		l.fed[k] = x.Record.Payload[0]
		l.mu.Unlock()
	}
}

// goesOn waits until more was stored, asked and fed.
func (l *upgradeLoad) goesOn() {
	l.Helper()
	figures := func() (stored, fed, asked int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.acked), len(l.fed), int(l.asked.Load())
	}
	stored, fed, asked := figures()
	l.until("puts, queries and changes go on", func() bool {
		s, f, a := figures()
		return l.Failed() || s > stored+100 && f > fed+100 && a > asked
	})
}

// end compares what was acknowledged with what all nodes have, and with what was fed.
func (l *upgradeLoad) end() {
	l.Helper()
	close(l.stop)
	l.wg.Wait()
	l.until("all was fed", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.Failed() || len(l.fed) >= len(l.acked)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, v := range l.acked {
		if got, ok := l.fed[k]; !ok || got != v {
			l.Errorf("%v was fed as %d, %v, want %d", k, got, ok, v)
		}
	}
	want := uint64(len(l.acked))
	for i, n := range l.nodes {
		l.until("a node has what was acknowledged", func() bool {
			return l.count(n, &record.Query{}) >= want
		})
		if got := l.count(n, &record.Query{}); got != want {
			l.Errorf("node %d counts %d, %d were acknowledged", i, got, want)
		}
	}
	l.sameReplicas()
}

// restartAs ends a node and starts another version of its program.
func (c *nodesTogether) restartAs(i int, version func(*Options)) {
	c.Helper()
	c.stop(i)
	c.options[i].Cluster.Init, c.options[i].Cluster.Groups = false, 0
	version(&c.options[i])
	c.nodes[i] = openTest(c.T, c.options[i])
	want := c.options[i].Cluster.Features
	c.until("the cluster knows what the node runs", func() bool {
		m := c.nodes[i].member.Load()
		n, _ := m.View().Node(m.Self())
		return c.settled(len(c.nodes)) && m.Ready(c.Context()) == nil &&
			n.MinFeature == want.First && n.MaxFeature == want.Last
	})
}

// programs returns the versions that the nodes of a cluster say they run.
func programs(t *testing.T, db *client.Client) (out []string) {
	t.Helper()
	all, err := db.ClusterNodes(t.Context())
	if err != nil {
		t.Log(err)
	}
	for _, n := range all {
		out = append(out, n.Program)
	}
	return out
}

// TestAClusterIsUpgradedUnderLoad upgrades a cluster node by node, and one node back and up again,
// without an error that a client sees, and then raises it.
func TestAClusterIsUpgradedUnderLoad(t *testing.T) {
	c := openTogetherWith(t, 3, 2, before)
	l := c.startUpgradeLoad()
	l.goesOn()
	db := l.client()
	level := cluster.InDevelopment()
	for i, version := range []func(*Options){after, before, after} { // there and back
		c.restartAs(0, version)
		c.notYet(db, i != 1)
	}
	l.goesOn()
	c.restartAs(1, after)
	l.goesOn()
	c.notYet(db, true)
	c.restartAs(2, after)
	l.goesOn()

	is := func(feature uint32) (known bool) {
		c.until("the cluster says what it can be raised to", func() bool {
			all, err := db.Cluster(t.Context())
			known = all.Feature == feature && all.Raisable == level.Last
			return err == nil
		})
		return known
	}
	if !is(level.Last - 1) {
		t.Error("all nodes run the next level, and the cluster does not say that it can be raised")
	}
	if got := strings.Join(programs(t, db), ""); got != "" {
		t.Errorf("below its level, nodes tell %q", got)
	}
	p, err := db.RaiseFeature(t.Context(), true)
	if err != nil || !p.Changed || p.Feature != level.Last || !is(level.Last-1) {
		t.Errorf("dry: %+v, %v", p, err)
	}
	c.raise(db)
	c.until("nodes tell their versions", func() bool {
		return strings.Join(programs(t, db), " ") == "v2 v2 v2"
	})
	l.goesOn()
	l.end()
}

// notYet wants a cluster in which some node does not run the next level to say so.
func (c *nodesTogether) notYet(db *client.Client, some bool) {
	c.Helper()
	var p api.ClusterPreview
	var err error
	c.until("who leads answers", func() bool {
		var remote *wire.Error
		p, err = db.RaiseFeature(c.Context(), false)
		return err == nil || errors.As(err, &remote) && !remote.Kind.Temporary()
	})
	switch {
	case some && !kindIs(err, wire.KindForbidden, "upgrade it first"):
		c.Errorf("raised while a node does not run the level: %+v, %v", p, err)
	case !some && (err != nil || p.Changed):
		c.Errorf("no node runs a next level: %+v, %v", p, err)
	}
}

// raise raises a cluster, and waits until all nodes know.
func (c *nodesTogether) raise(db *client.Client) {
	c.Helper()
	last := cluster.InDevelopment().Last
	c.until("the cluster is raised", func() bool {
		p, err := db.RaiseFeature(c.Context(), false)
		if err != nil {
			c.Log(err)
		}
		return err == nil && p.Feature == last
	})
	c.until("all nodes know", func() bool {
		for _, n := range c.nodes {
			if n.member.Load().View().Feature != last {
				return false
			}
		}
		return true
	})
}

// TestNodesOfTheLevelBefore: they join a cluster that could be raised, and after the raise neither
// join nor come back; what they have is not damaged.
func TestNodesOfTheLevelBefore(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters start again")
	c := openTogetherWith(t, 1, 1, after)
	before(&c.options[0]) // of what joins
	second := c.join("z1")
	c.until("a node of the level before has joined", func() bool { return c.settled(2) })
	after(&c.options[0])
	db := dial(t, c.nodes[0])
	c.notYet(db, true)
	c.put(second, readings(0, 100), store.WriterSeq{})
	c.restartAs(1, after)
	view := filepath.Join(c.options[1].Dir, "cluster", "VIEW")
	early, err := os.ReadFile(view)
	if err != nil {
		t.Fatal(err)
	}
	c.raise(db)
	c.until("nodes tell their versions", func() bool {
		return strings.Join(programs(t, db), " ") == "v2 v2"
	})

	c.stop(1)
	ids := c.replicasOn(1)
	late, err := os.ReadFile(view)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{late, early} { // else it learns of the raise from its log
		if err := os.WriteFile(view, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.ends(c.options[1]); !ofOtherLevel(err) {
			t.Errorf("a node of the level before comes back: %v", err)
		}
	}
	c.nodes[1] = openTest(t, c.options[1])
	c.until("the node is back as it was", func() bool { return c.settled(2) })
	if got := c.count(c.nodes[1], &record.Query{}); got != 100 {
		t.Errorf("%d records, want 100", got)
	}
	if now := c.replicasOn(1); !slices.Equal(ids, now) {
		t.Errorf("its replicas are %v and were %v", now, ids)
	}

	opt := c.options[1]
	opt.Dir, opt.Listen = t.TempDir(), "127.0.0.1:0"
	opt.Cluster.RaftBind, opt.Cluster.Bind = "127.0.0.1:0", freeaddr.New(t)
	if err := c.ends(opt); !ofOtherLevel(err) {
		t.Errorf("a node of the level before joins: %v", err)
	}
}

// ends starts a node with the version before, and returns why it ends.
func (c *nodesTogether) ends(opt Options) error {
	c.Helper()
	before(&opt)
	failed := make(chan error, 1)
	opt.Fail = func(err error) {
		select {
		case failed <- err:
		default:
		}
	}
	n, err := Open(c.Context(), opt)
	if err != nil {
		return err
	}
	c.until("the node ends", func() bool { return len(failed) > 0 })
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := n.Close(ctx); err != nil && !errors.Is(err, nodeerror.ErrClosing) {
		c.Log(err) // its replica of the state has stopped
	}
	return <-failed
}

// ofOtherLevel reports whether an error says which levels there are, and what to do.
func ofOtherLevel(err error) bool {
	return errors.Is(err, cluster.ErrOtherRules) && strings.Contains(err.Error(),
		"was written by feature level 11, this program knows levels up to 10: start the version")
}
