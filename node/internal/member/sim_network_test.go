package member

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/sdk/wire"
)

// simNetwork decides what happens to messages between nodes, which it knows by their place.
type simNetwork struct {
	mu      sync.Mutex // guards everything below
	rng     *rand.Rand
	cuts    map[[2]int]time.Time // from, to: cut until then
	loss    float64
	twice   float64
	late    float64
	latency time.Duration
}

// fate says how often a message arrives, and when.
func (w *simNetwork) fate(from, to int, lossy bool) (delays []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Now().Before(w.cuts[[2]int{from, to}]) {
		return nil
	}
	for copies := 1; copies > 0; copies-- {
		d := 200*time.Microsecond + upTo(w.rng, w.latency)
		if w.rng.Float64() < w.loss {
			if lossy {
				continue
			}
			d += 200*time.Millisecond + upTo(w.rng, time.Second) // it is sent again
		}
		if w.rng.Float64() < w.late {
			d += upTo(w.rng, 3*time.Second)
		}
		if lossy && w.rng.Float64() < w.twice {
			copies++
		}
		delays = append(delays, d)
	}
	return delays
}

func (w *simNetwork) cut(from, to int, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if from != to && until.After(w.cuts[[2]int{from, to}]) {
		w.cuts[[2]int{from, to}] = until
	}
}

func (w *simNetwork) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.cuts)
	w.loss, w.twice, w.late = 0, 0, 0
}

// carry brings something to another process after the time that it takes, unless it is lost, or
// one of the two has ended by then.
func (p *simProcess) carry(q *simProcess, do func()) { p.send(q, false, do) }

func (p *simProcess) send(q *simProcess, lossy bool, do func()) {
	if p.ended() {
		return
	}
	for _, d := range p.s.net.fate(p.node.place, q.node.place, lossy) {
		time.AfterFunc(d, func() {
			if !q.ended() && !p.ended() {
				do()
			}
		})
	}
}

// Send is part of replica.Network.
func (p *simProcess) Send(node uint64, group cluster.GroupID, message []byte) bool {
	q := p.s.process(node)
	if q == nil || p.ended() {
		return false
	}
	p.send(q, true, func() {
		if there := q.groups.Load(); there != nil && there.core != nil {
			there.core.Deliver(uint64(p.id()), group, message)
		}
	})
	return true
}

var errBroken = errors.New("the connection broke")

// Open is part of replica.Network.
func (p *simProcess) Open(
	ctx context.Context, node uint64, f replica.SnapshotFile,
) (io.ReadCloser, error) {
	q := p.s.process(node)
	if q == nil || q.groups.Load() == nil {
		return nil, errBroken
	}
	file := &simTransfer{ctx: ctx, p: p, q: q}
	if err := file.wait(); err != nil {
		return nil, err
	}
	var err error
	file.ReadCloser, err = q.groups.Load().core.OpenSnapshot(f)
	if err != nil {
		return nil, err
	}
	p.s.count("fetches")
	return file, nil
}

// simTransfer is a file of a snapshot on its way.
type simTransfer struct {
	io.ReadCloser
	ctx  context.Context // of who fetches it
	p, q *simProcess
}

// wait lets a round trip pass.
func (f *simTransfer) wait() error {
	back := make(chan struct{}, 1)
	f.p.carry(f.q, func() { f.q.carry(f.p, func() { back <- struct{}{} }) })
	select {
	case <-back:
		return nil
	case <-f.ctx.Done():
		return f.ctx.Err()
	case <-f.p.gone:
	case <-f.q.gone:
	case <-time.After(5 * time.Second):
	}
	return errBroken
}

func (f *simTransfer) Read(b []byte) (int, error) {
	if err := f.wait(); err != nil {
		return 0, err
	}
	return f.ReadCloser.Read(b[:min(len(b), 64<<10)])
}

// RoundTrip brings a request to the member at an address.
func (p *simProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		_ = req.Body.Close() // it was read
	}
	q := p.s.at(req.URL.Hostname())
	if q == nil || q.member.Load() == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // as a server sees that the connection has ended
	answer := make(chan *http.Response, 1)
	p.carry(q, func() {
		q.groups.Load().serve(func() {
			if q.runs(q.groups.Load().closing) {
				resp := q.serve(ctx, req, body)
				q.carry(p, func() { answer <- resp })
			}
		})
	})
	select {
	case resp := <-answer:
		return resp, nil
	case <-req.Context().Done():
		return nil, req.Context().Err()
	case <-q.gone:
		return nil, errBroken
	case <-p.gone:
		return nil, errBroken
	}
}

// serve answers a request as the HTTP server of a node does.
func (p *simProcess) serve(ctx context.Context, req *http.Request, body []byte) *http.Response {
	query := req.URL.Query()
	text, known, err := p.member.Load().Serve(ctx, req.Method, req.URL.Path,
		req.Header.Get(KeyHeader), query.Get, body)
	status := http.StatusOK
	if !known || err != nil {
		status = http.StatusServiceUnavailable
		var e *wire.Error
		if !errors.As(err, &e) {
			e = &wire.Error{Kind: wire.KindInternal, Message: "unknown route"}
			if err != nil {
				e.Message = err.Error()
			}
		}
		text = wire.AppendError(nil, e)
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(text)),
		ContentLength: int64(len(text)), Request: req}
}

// simListener has an address and no connections.
type simListener string

func (l simListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (l simListener) Close() error              { return nil }
func (l simListener) Addr() net.Addr            { return l }
func (l simListener) Network() string           { return "tcp" }
func (l simListener) String() string            { return string(l) }

// What follows makes a process the network of its member.

func (p *simProcess) listen(addr string) (net.Listener, error) { return simListener(addr), nil }

func (p *simProcess) client() *http.Client { return &http.Client{Transport: p} }

func (p *simProcess) replicas(o replica.Options) (groups, replica.Report, error) {
	p.s.register(p, o.Node)
	run, report, err := newSimGroups(p, o)
	if err != nil {
		return nil, report, err
	}
	for group, err := range report.Quarantined {
		p.s.violated("node %d: the log of group %d is damaged: %v", p.node.place, group, err)
	}
	return run, report, nil
}

func (p *simProcess) gossip(o cluster.GossipOptions) (gossip, error) {
	g := &simGossip{p: p, seeds: o.Seeds, stop: make(chan struct{}),
		heard: map[cluster.NodeID]simRumour{}, lies: map[cluster.NodeID]simLie{}}
	g.heard[o.Meta.Node.ID] = simRumour{metadata: o.Meta, beat: uint64(time.Now().UnixNano())}
	g.self = o.Meta.Node.ID
	p.rumours.Store(g)
	g.wg.Go(g.run)
	return g, nil
}

const (
	simGossipEvery = 250 * time.Millisecond
	simSuspect     = 3 * time.Second // without a beat
	simDead        = 8 * time.Second
)

// simRumour is what was heard last of a node.
type simRumour struct {
	metadata cluster.GossipMeta
	beat     uint64 // rises with each round and each process of the node
	seen     time.Time
}

// simLie is a wrong state that a node believes of another for a while.
type simLie struct {
	state cluster.PeerState
	until time.Time
}

// simGossip stands in for gossip: each node has a heartbeat, and tells one other node at a time
// what it has heard. Who was not heard of for long looks dead.
type simGossip struct {
	p     *simProcess
	self  cluster.NodeID
	seeds []string
	stop  chan struct{}
	once  sync.Once
	wg    sync.WaitGroup

	mu    sync.Mutex // guards what follows
	heard map[cluster.NodeID]simRumour
	lies  map[cluster.NodeID]simLie
}

func (g *simGossip) run() {
	tick := time.NewTicker(simGossipEvery)
	defer tick.Stop()
	for round := 0; ; round++ {
		select {
		case <-tick.C:
		case <-g.stop:
			return
		}
		if !g.p.runs(g.stop) {
			return
		}
		g.mu.Lock()
		own := g.heard[g.self]
		own.beat, own.seen = own.beat+1, time.Now()
		g.heard[g.self] = own
		said := maps.Clone(g.heard)
		g.mu.Unlock()
		if q := g.p.s.at(g.someone(round)); q != nil && q != g.p {
			g.p.send(q, true, func() { q.hear(g.p, said, true) })
		}
	}
}

// someone returns the host of a seed, or of a peer.
func (g *simGossip) someone(round int) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var hosts []string
	for id, r := range g.heard {
		if host, _, err := net.SplitHostPort(r.metadata.Node.RaftAddr); err == nil && id != g.self {
			hosts = append(hosts, host)
		}
	}
	if len(g.seeds) > 0 && (len(hosts) == 0 || round%8 == 0) {
		host, _, _ := net.SplitHostPort(g.seeds[round/8%len(g.seeds)]) // checked by the config
		return host
	}
	if len(hosts) == 0 {
		return ""
	}
	slices.Sort(hosts)
	return hosts[round%len(hosts)]
}

// hear takes in what another process says, and answers with what is known here.
func (p *simProcess) hear(from *simProcess, said map[cluster.NodeID]simRumour, ask bool) {
	g := p.rumours.Load()
	if g == nil {
		return
	}
	g.mu.Lock()
	for id, r := range said {
		if id != g.self && r.beat > g.heard[id].beat {
			r.seen = time.Now()
			g.heard[id] = r
		}
	}
	known := maps.Clone(g.heard)
	g.mu.Unlock()
	if ask {
		p.send(from, true, func() { from.hear(p, known, false) })
	}
}

// lie lets the node believe something wrong of another.
func (g *simGossip) lie(id cluster.NodeID, l simLie) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lies[id] = l
}

func (g *simGossip) Peers() (out []cluster.Peer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for id, r := range g.heard {
		if id == g.self {
			continue
		}
		state := cluster.PeerAlive
		switch silent := now.Sub(r.seen); {
		case now.Before(g.lies[id].until):
			state = g.lies[id].state
		case silent > simDead:
			state = cluster.PeerDead
		case silent > simSuspect:
			state = cluster.PeerSuspect
		}
		out = append(out, cluster.Peer{Meta: r.metadata, State: state, Since: r.seen,
			Addr: r.metadata.Node.RaftAddr})
	}
	slices.SortFunc(out, func(a, b cluster.Peer) int {
		return cmp.Compare(a.Meta.Node.ID, b.Meta.Node.ID)
	})
	return out
}

func (g *simGossip) Update(_ context.Context, metadata cluster.GossipMeta) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := g.heard[g.self]
	own.metadata = metadata
	own.beat++
	g.heard[g.self] = own
	return nil
}

func (g *simGossip) Addr() string { return g.p.node.host + ":5152" }

func (g *simGossip) Close(context.Context) error {
	g.once.Do(func() { close(g.stop) })
	g.wg.Wait()
	return nil
}

// upTo draws a time below one.
func upTo(rng *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(below)))
}
