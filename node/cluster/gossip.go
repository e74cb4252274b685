package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// GossipOptions say who a node is and where it finds others. Those without a default are needed.
type GossipOptions struct {
	Token     Token
	Meta      GossipMeta    // what the node says of itself at first
	Bind      string        // host:port to listen on, TCP and UDP; port 0: one that is free
	Advertise string        // host:port that others reach it at; default: found out from Bind
	Seeds     []string      // host:port of nodes that are likely to be there
	Rejoin    time.Duration // how often seeds are asked again, as cut networks heal; a minute
	Probe     time.Duration // how often one peer is asked whether it lives; a second
	Log       *slog.Logger  // default: nothing is logged
}

// PeerState is what gossip thinks of a peer. It is never the truth: who is slow looks dead.
type PeerState uint8

// States of a peer.
const (
	PeerAlive   PeerState = 1
	PeerSuspect PeerState = 2 // did not answer this node's last direct request
	PeerDead    PeerState = 3 // no node reaches it, or it has left
)

func (s PeerState) String() string {
	return name(map[PeerState]string{PeerAlive: "alive", PeerSuspect: "suspect",
		PeerDead: "dead"}, s)
}

// Peer is what gossip knows of another node.
type Peer struct {
	Meta     GossipMeta
	Addr     string // of its gossip
	State    PeerState
	Since    time.Time // by this node's clock
	Conflict string    // another address that says it is the same node; "": none

	change uint64
}

// maxPeers bounds what is remembered, the dead included; the plan is for 1,000 nodes.
const maxPeers = 4096

// Gossip finds peers and listens to whether they live. It has the goroutines of memberlist and one
// that asks seeds; Close stops them.
type Gossip struct {
	list   *memberlist.Memberlist
	addr   string
	self   NodeID
	log    *slog.Logger
	cancel context.CancelFunc
	wg     sync.WaitGroup

	updating sync.Mutex // one Update at a time; taken before mu
	closed   bool       // guarded by updating: memberlist panics when it is used then

	mu       sync.Mutex // guards all below; memberlist calls with its own locks held
	metadata []byte
	peers    map[NodeID]Peer
	changes  uint64
	changed  chan struct{} // closed when changes grows
	joined   error         // of the last time that seeds were asked
}

// StartGossip listens, and begins to look for peers.
func StartGossip(o GossipOptions) (*Gossip, error) {
	metadata, err := AppendGossipMeta(nil, o.Meta)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gossip{self: o.Meta.Node.ID, log: o.Log, metadata: metadata, peers: map[NodeID]Peer{},
		changed: make(chan struct{})}
	config, err := g.config(o)
	if err != nil {
		return nil, err
	}
	if g.list, err = memberlist.Create(config); err != nil {
		return nil, fmt.Errorf("gossip on %s: %w", o.Bind, err)
	}
	g.addr = g.list.LocalNode().Address()
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	g.wg.Go(func() { g.join(ctx, slices.Clone(o.Seeds), cmp.Or(o.Rejoin, time.Minute)) })
	return g, nil
}

func (g *Gossip) config(o GossipOptions) (*memberlist.Config, error) {
	key, err := o.Token.gossipKey()
	if err != nil {
		return nil, fmt.Errorf("key of gossip: %w", err)
	}
	c := memberlist.DefaultLANConfig()
	c.Name = g.self.String()
	c.Label = o.Token.Cluster.String()
	c.SecretKey = key
	if c.BindAddr, c.BindPort, err = hostPort(o.Bind); err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	c.AdvertisePort = c.BindPort
	if o.Advertise != "" {
		if c.AdvertiseAddr, c.AdvertisePort, err = hostPort(o.Advertise); err != nil {
			return nil, fmt.Errorf("gossip: %w", err)
		}
	}
	c.ProbeInterval = cmp.Or(o.Probe, time.Second)
	c.ProbeTimeout = c.ProbeInterval / 2
	c.GossipInterval = c.ProbeInterval / 5
	// A node that was killed and comes back at another address is let in again.
	c.DeadNodeReclaimTime = 10 * c.ProbeInterval
	c.Logger = gossipLogger(o.Log)
	hooks := (*hooks)(g)
	c.Delegate, c.Events, c.Alive, c.Conflict, c.Ping = hooks, hooks, hooks, hooks, hooks
	// memberlist does not tell whom it suspects, but it asks this when a request by UDP was not
	// answered in time.
	c.DisableTcpPingsForNode = func(name string) bool {
		g.note(name, PeerAlive, PeerSuspect)
		return false
	}
	return c, nil
}

func hostPort(addr string) (string, int, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("address %.80q: not HOST:PORT", addr)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("address %.80q: the port must be a number up to 65535", addr)
	}
	return cmp.Or(host, "0.0.0.0"), int(n), nil
}

// Addr returns the address that others reach the gossip of this node at.
func (g *Gossip) Addr() string { return g.addr }

// join asks the seeds now, and again and again.
func (g *Gossip) join(ctx context.Context, seeds []string, every time.Duration) {
	if len(seeds) == 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		n, err := g.list.Join(seeds)
		err = joinError(n, err)
		g.mu.Lock()
		news := fmt.Sprint(err) != fmt.Sprint(g.joined)
		if g.joined = err; news {
			g.bump()
		}
		g.mu.Unlock()
		if news && err != nil {
			g.log.Warn("no seed lets this node into the cluster", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Joined tells how the last round of asking seeds went; nil when one answered, or none was asked.
func (g *Gossip) Joined() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.joined
}

// Peers returns all that is known of others, by id.
func (g *Gossip) Peers() []Peer {
	peers, _ := g.since(0)
	return peers
}

// Wait waits until something has changed after what a call before returned, 0 at first, and returns
// the peers that have, and the number to go on from. Who is slow sees the last state of each peer.
// There are none when it was only how seeds answer.
func (g *Gossip) Wait(ctx context.Context, after uint64) ([]Peer, uint64, error) {
	for {
		g.mu.Lock()
		changes, changed := g.changes, g.changed
		g.mu.Unlock()
		if changes > after {
			peers, now := g.since(after)
			return peers, now, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, after, ctx.Err()
		}
	}
}

func (g *Gossip) since(after uint64) ([]Peer, uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []Peer
	for _, p := range g.peers {
		if p.change > after {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Peer) int { return cmp.Compare(a.Meta.Node.ID, b.Meta.Node.ID) })
	return out, g.changes
}

// Update tells others new gossip metadata, and returns when the first was told, or at the deadline
// of ctx. All nodes hear of each update, so it is not for what changes every second.
func (g *Gossip) Update(ctx context.Context, metadata GossipMeta) error {
	if metadata.Node.ID != g.self {
		return fmt.Errorf("BUG: node %v updates the gossip metadata of node %v", g.self,
			metadata.Node.ID)
	}
	text, err := AppendGossipMeta(nil, metadata)
	if err != nil {
		return err
	}
	g.updating.Lock()
	defer g.updating.Unlock()
	if g.closed {
		return errors.New("gossip is closed")
	}
	g.mu.Lock()
	g.metadata = text
	g.mu.Unlock()
	timeout := 10 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(deadline), time.Nanosecond)
	}
	if err := g.list.UpdateNode(timeout); err != nil {
		return fmt.Errorf("tell peers about node %v: %w", g.self, err)
	}
	return nil
}

// Close tells others that this node leaves, as far as that is done before ctx ends, and stops. A
// goroutine that has asked a peer whether it lives ends when its patience does, in some seconds:
// memberlist waits for none, and it does nothing more.
func (g *Gossip) Close(ctx context.Context) error {
	g.cancel()
	g.wg.Wait()
	timeout := 5 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(deadline), time.Nanosecond)
	}
	g.updating.Lock()
	defer g.updating.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	return errors.Join(g.list.Leave(timeout), g.list.Shutdown())
}
