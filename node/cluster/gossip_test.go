package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/freeaddr"
)

// logLines keeps what was logged.
type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func testToken() Token { return Token{Cluster: ID{1: 9}, Secret: [32]byte{3: 7}} }

// testGossip starts node n on a port that is free.
func testGossip(t *testing.T, n int, change func(o *GossipOptions), seeds ...string) *Gossip {
	t.Helper()
	o := GossipOptions{Token: testToken(), Meta: GossipMeta{Node: testNode(n, "a")},
		Bind: "127.0.0.1:0", Seeds: seeds, Rejoin: 200 * time.Millisecond,
		Probe: 200 * time.Millisecond}
	if change != nil {
		change(&o)
	}
	g, err := StartGossip(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = g.Close(ctx) // no one may be there any more to hear of it
	})
	return g
}

// until waits for what a node knows to be as wanted.
func until(t *testing.T, g *Gossip, what string, f func(peers map[NodeID]Peer) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	known := map[NodeID]Peer{}
	for after := uint64(0); ; {
		peers, next, err := g.Wait(ctx, after)
		if err != nil {
			t.Fatalf("node %v waits for %s: %v; it knows %+v, seeds: %v", g.self, what, err, known,
				g.Joined())
		}
		for _, p := range peers {
			known[p.Meta.Node.ID] = p
		}
		if after = next; f(known) {
			return
		}
	}
}

// kill stops a node without a word to others.
func (g *Gossip) kill(t *testing.T) {
	t.Helper()
	g.cancel()
	g.wg.Wait()
	g.updating.Lock()
	defer g.updating.Unlock()
	g.closed = true
	if err := g.list.Shutdown(); err != nil {
		t.Fatal(err)
	}
}

func TestGossipFindsAndForgets(t *testing.T) {
	first := testGossip(t, 1, nil)
	var others []*Gossip
	for n := 2; n <= 5; n++ {
		seed := first.Addr()
		if len(others) > 0 {
			seed = others[len(others)-1].Addr() // whoever is there will do
		}
		others = append(others, testGossip(t, n, nil, seed))
	}
	for _, g := range append(others, first) {
		until(t, g, "all others", func(peers map[NodeID]Peer) bool { return len(peers) == 4 })
	}
	for _, p := range first.Peers() {
		if want := testNode(int(p.Meta.Node.ID), "a"); p.Meta.Node != want {
			t.Errorf("node %v says %+v, want %+v", p.Meta.Node.ID, p.Meta.Node, want)
		}
	}

	metadata := GossipMeta{Node: testNode(3, "moved"), Epoch: 77}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := others[1].Update(ctx, metadata); err != nil {
		t.Fatal(err)
	}
	until(t, first, "the new gossip metadata of node 3", func(peers map[NodeID]Peer) bool {
		return peers[3].Meta == metadata
	})

	killed := others[3]
	killed.kill(t)
	until(t, first, "the death of node 5", func(peers map[NodeID]Peer) bool {
		return peers[5].State == PeerDead
	})
	again := func(o *GossipOptions) { o.Meta.Node.Incarnation = 2 }
	back := testGossip(t, 5, again, first.Addr()) // at another port
	until(t, first, "node 5 again", func(peers map[NodeID]Peer) bool {
		p := peers[5]
		return p.State == PeerAlive && p.Meta.Node.Incarnation == 2 && p.Addr == back.Addr()
	})

	if err := others[0].Close(ctx); err != nil {
		t.Fatal(err)
	}
	until(t, first, "node 2 to leave", func(peers map[NodeID]Peer) bool {
		return peers[2].State == PeerDead
	})
}

// TestGossipRefusesStrangers has one with the wrong secret, and one of another cluster.
func TestGossipRefusesStrangers(t *testing.T) {
	f := func(change func(o *GossipOptions), want, wantLog string) {
		t.Helper()
		var logged logLines
		first := testGossip(t, 1, func(o *GossipOptions) {
			o.Log = slog.New(slog.NewTextHandler(&logged, nil))
		})
		g := testGossip(t, 2, change, first.Addr())
		until(t, g, want, func(map[NodeID]Peer) bool {
			return strings.Contains(fmt.Sprint(g.Joined()), want)
		})
		if a, b := first.Peers(), g.Peers(); len(a)+len(b) > 0 {
			t.Errorf("they know each other: %v, %v", a, b)
		}
		if !strings.Contains(logged.String(), wantLog) {
			t.Errorf("no %q was logged:\n%s", wantLog, logged.String())
		}
	}
	f(func(o *GossipOptions) { o.Token.Secret[0]++ }, "the secret in the token file is not",
		"no installed keys could decrypt")
	f(func(o *GossipOptions) { o.Token.Cluster[0]++ }, "the token is of another cluster",
		"unacceptable label")
}

func TestGossipStartsBeforeItsSeeds(t *testing.T) {
	addr := freeaddr.New(t)
	early := testGossip(t, 2, nil, addr)
	until(t, early, "no answer", func(map[NodeID]Peer) bool { return early.Joined() != nil })
	testGossip(t, 1, func(o *GossipOptions) { o.Bind = addr })
	until(t, early, "the seed", func(peers map[NodeID]Peer) bool {
		return len(peers) == 1 && early.Joined() == nil
	})
}

// TestNewsThatMakesNoSense calls the hook that memberlist asks about news of nodes.
func TestNewsThatMakesNoSense(t *testing.T) {
	g := &Gossip{self: 1, peers: map[NodeID]Peer{}, changed: make(chan struct{})}
	h := (*hooks)(g)
	f := func(want string, name NodeID, n Node) {
		t.Helper()
		err := h.NotifyAlive(newsOf(t, name, n))
		if got := fmt.Sprint(err); (want == "") != (err == nil) || !strings.Contains(got, want) {
			t.Errorf("%v, want %q", err, want)
		}
		if err == nil {
			h.NotifyJoin(newsOf(t, name, n))
		}
	}
	n := testNode(2, "a")
	n.Incarnation = 5
	f("", 2, n)
	f("it claims to be node 0000000000000002", 3, n)
	n.Incarnation = 4
	f("it is of start 4 of node 0000000000000002, which has been started 5 times", 2, n)
	f("", 1, testNode(1, "a")) // about this node itself
	if len(g.peers) != 1 {
		t.Fatalf("%v", g.peers)
	}
	if err := h.NotifyAlive(newsOf(t, 9, Node{})); err == nil {
		t.Error("news without gossip metadata was believed")
	}

	for i := 3; len(g.peers) < maxPeers; i++ {
		f("", NodeID(i), testNode(i, "a"))
	}
	f("there are 4096 peers", 1<<20, testNode(1<<20, "a"))
	g.note(NodeID(77).String(), PeerAlive, PeerDead)
	f("", 1<<20, testNode(1<<20, "a"))
	if _, there := g.peers[77]; there || len(g.peers) != maxPeers {
		t.Errorf("%d peers, of whom a dead one should have gone", len(g.peers))
	}
}

func TestSuspicionsComeAndGo(t *testing.T) {
	g := &Gossip{self: 1, peers: map[NodeID]Peer{}, changed: make(chan struct{})}
	h := (*hooks)(g)
	news := newsOf(t, 2, testNode(2, "a"))
	h.NotifyJoin(news)
	f := func(want PeerState) {
		t.Helper()
		if p := g.Peers(); len(p) != 1 || p[0].State != want {
			t.Errorf("%+v, want %v", p, want)
		}
	}
	f(PeerAlive)
	g.note(news.Name, PeerAlive, PeerSuspect)
	f(PeerSuspect)
	h.NotifyPingComplete(news, 0, nil)
	f(PeerAlive)
	h.NotifyLeave(news)
	f(PeerDead)
	g.note(news.Name, PeerAlive, PeerSuspect)
	h.NotifyPingComplete(news, 0, nil)
	f(PeerDead) // only news of its own brings it back
	h.NotifyJoin(news)
	f(PeerAlive)
}
