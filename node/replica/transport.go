package replica

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// maxQueueBytes waits for one peer; what comes beyond it is dropped, and the library told.
	maxQueueBytes = 32 << 20
	// maxConns bounds the connections: a thousand peers in both directions, and files.
	maxConns = 4096
	// handshakeTime is for a connection to say who it is; writeTime for one write to be taken.
	handshakeTime = 5 * time.Second
	writeTime     = 10 * time.Second
	minBackoff    = 50 * time.Millisecond
	maxBackoff    = 2 * time.Second
	// A node whose connection ended is looked for after firstProbe, and then after twice as long
	// each time, up to lastProbe: what a killed process had open is closed one after the other.
	firstProbe   = 5 * time.Millisecond
	lastProbe    = 160 * time.Millisecond
	probeTimeout = 500 * time.Millisecond
	// inboxBytes is for what is small: entries are read to where they are kept.
	inboxBytes = 4 << 10
)

// TLSName is the name that the certificate of a node must have, for both directions.
func TLSName(node uint64) string { return fmt.Sprintf("node-%d", node) }

// transport has one connection to each peer for messages, which the peer only reads, and one more
// for each file that is fetched.
type transport struct {
	opt     Options
	core    *Core
	closing chan struct{}
	wg      sync.WaitGroup
	pace    pace

	calls    calls
	mistaken atomic.Uint64 // who looked for another node here last

	mu     sync.Mutex // guards everything below
	closed bool
	peers  map[uint64]*peer
	conns  map[net.Conn]bool
	heard  map[uint64]net.Conn // who sends messages here
	// answering counts the requests of each node that are being answered.
	answering map[uint64]int
}

// peer is where messages to a node wait.
type peer struct {
	t    *transport
	node uint64
	wake chan struct{}
	back chan struct{} // the node has connected here: it is there again

	mu    sync.Mutex // guards everything below
	queue []outMessage
	bytes int  // of the queue
	down  bool // the last attempt to reach it failed
	conn  *dialedConn
	gone  chan struct{} // closed when the connection is hung up
}

func newTransport(opt Options) *transport {
	return &transport{opt: opt, closing: make(chan struct{}), peers: map[uint64]*peer{},
		conns: map[net.Conn]bool{}, heard: map[uint64]net.Conn{},
		calls: newCalls(), answering: map[uint64]int{},
		pace: pace{bytesPerSec: opt.SnapshotBytesPerSec}}
}

// Send is part of Network.
func (t *transport) Send(node uint64, group GroupID, message []byte) bool {
	t.mu.Lock()
	p := t.peers[node]
	if p == nil && !t.closed {
		p = &peer{t: t, node: node, wake: make(chan struct{}, 1), back: make(chan struct{}, 1)}
		t.peers[node] = p
		t.wg.Go(p.run)
	}
	t.mu.Unlock()
	return p != nil && p.add(group, message)
}

func (p *peer) add(group GroupID, message []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := maxQueueBytes
	switch {
	case len(message) <= maxPulseBytes:
		most = 2 * maxQueueBytes // it may go before what is large
	case group == NoGroup && message[0] == askRequest:
		most = maxAskQueueBytes
	}
	if p.down || p.bytes > 0 && p.bytes+len(message) > most {
		return false
	}
	m := newOutMessage(group, message)
	p.queue = append(p.queue, m)
	p.bytes += m.size()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return true
}

// run sends what waits, and connects again when that fails.
func (p *peer) run() {
	backoff := minBackoff
	for p.t.wait(0) {
		conn, err := p.t.dial(context.Background(), p.node, purposeMessages)
		if err == nil {
			p.setDown(false)
			backoff = minBackoff
			p.write(conn, p.begin(conn))
			p.t.forget(conn)
		}
		p.setDown(true)
		select {
		case <-time.After(backoff/2 + rand.N(backoff/2)):
			backoff = min(2*backoff, maxBackoff)
		case <-p.back:
			backoff = minBackoff
		case <-p.t.closing:
			return
		}
		// The next sender shall wait for the attempt, not fail for the last one.
		p.setDown(false)
		select {
		case <-p.wake:
		case <-p.t.closing:
		}
	}
}

func (p *peer) setDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	if down {
		p.queue, p.bytes = nil, 0
		p.t.calls.lose(p.node)
	}
}

// begin notes a connection, and returns what is closed when it is hung up.
func (p *peer) begin(conn *dialedConn) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.back: // which this connection was for
	default:
	}
	p.conn, p.gone = conn, make(chan struct{})
	return p.gone
}

// hangUp ends the connection to a node that has ended its own: the system takes what is written to
// a process that is gone, once, and says nothing.
func (p *peer) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		_ = p.conn.Close()
		close(p.gone)
		p.conn = nil
	}
}

// take returns the messages of the next batch, or one that is large.
func (p *peer) take() []outMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, bytes := 0, 0
	for n < len(p.queue) && bytes < fullBatchBytes && (n == 0 || !p.queue[n].isLarge()) {
		bytes += p.queue[n].size()
		n++
	}
	out := p.queue[:n:n]
	p.queue, p.bytes = p.queue[n:], p.bytes-bytes
	if len(p.queue) == 0 {
		p.queue = nil
	}
	return out
}

// write sends what waits: small messages together, large ones from where they lie.
func (p *peer) write(conn *dialedConn, gone <-chan struct{}) {
	w := bufio.NewWriterSize(conn, 64<<10)
	for {
		batch := p.take()
		if len(batch) > 0 {
			if p.send(conn, w, batch) != nil {
				return
			}
			continue
		}
		if w.Flush() != nil || conn.flush() != nil {
			return
		}
		select {
		case <-p.wake:
			runtime.Gosched() // other groups may have messages, too
		case <-gone:
			return
		case <-p.t.closing:
			return
		}
	}
}

// send writes what take returned.
func (p *peer) send(conn net.Conn, w *bufio.Writer, batch []outMessage) error {
	_ = conn.SetWriteDeadline(time.Now().Add(writeTime))
	if !batch[0].isLarge() {
		err := writeBatch(w, batch)
		for i := range batch {
			spare(batch[i].message)
		}
		return err
	}
	return writeFragments(w, &batch[0], func() error {
		_ = conn.SetWriteDeadline(time.Now().Add(writeTime))
		if pulses := p.takePulses(); len(pulses) > 0 { // small ones, of which no memory is spared
			return writeBatch(w, pulses)
		}
		return nil
	})
}

// wait returns false when the transport is closing before the time is over.
func (t *transport) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-t.closing:
		return false
	case <-timer.C:
		return true
	}
}

// dial connects to a node and says who is there.
func (t *transport) dial(ctx context.Context, node uint64, purpose uint8) (*dialedConn, error) {
	addr, ok := t.opt.Resolve(node)
	select {
	case <-t.closing:
		return nil, ErrClosed
	default:
	}
	if !ok {
		return nil, fmt.Errorf("connect to node %016x: its address is not known", node)
	}
	d := net.Dialer{Timeout: handshakeTime}
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to node %016x: %w", node, err)
	}
	setSocketOptions(raw)
	conn := &dialedConn{Conn: raw}
	if t.opt.TLS != nil {
		config := t.opt.TLS.Clone()
		config.ServerName = TLSName(node)
		conn.under = newLink(raw)
		conn.Conn = tls.Client(conn.under, config)
	}
	if !t.keep(conn) {
		return nil, errors.Join(fmt.Errorf("connect to node %016x: there are %d connections", node,
			maxConns), conn.Close())
	}
	_ = conn.SetDeadline(time.Now().Add(handshakeTime))
	_, err = conn.Write(appendHello(nil, hello{purpose: purpose, cluster: t.opt.Cluster,
		from: t.opt.Node, to: node}))
	if err = errors.Join(err, conn.flush()); err != nil {
		t.forget(conn)
		return nil, fmt.Errorf("connect to node %016x at %s: %w", node, addr, err)
	}
	_ = conn.SetDeadline(time.Time{})
	return conn, nil
}

// keep notes a connection, so that close ends it, unless there are too many.
func (t *transport) keep(conn net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || len(t.conns) >= maxConns {
		return false
	}
	t.conns[conn] = true
	return true
}

func (t *transport) forget(conn net.Conn) {
	_ = conn.Close()
	t.mu.Lock()
	delete(t.conns, conn)
	t.mu.Unlock()
}

// listen takes connections until the listener is closed.
func (t *transport) listen() {
	for {
		conn, err := t.opt.Listener.Accept()
		if err != nil {
			return
		}
		setSocketOptions(conn)
		if t.opt.TLS != nil {
			conn = tls.Server(newAcceptedConn(conn), t.opt.TLS)
		}
		if !t.keep(conn) {
			_ = conn.Close()
			continue
		}
		t.wg.Go(func() {
			defer t.forget(conn)
			t.serve(conn)
		})
	}
}

// serve hears out one connection. Who is no node of this cluster is hung up on.
func (t *transport) serve(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(handshakeTime))
	var head [helloBytes]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return
	}
	h, ok := parseHello(head[:])
	if !ok || h.cluster != t.opt.Cluster || !t.isCertified(conn, h.from) {
		return
	}
	if h.to != t.opt.Node {
		t.mistaken.Store(h.from)
		return
	}
	if h.purpose == purposeFile {
		t.serveFile(conn)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	t.mu.Lock()
	old, p := t.heard[h.from], t.peers[h.from]
	t.heard[h.from] = conn
	t.mu.Unlock()
	if p != nil {
		p.setDown(false)
		select {
		case p.back <- struct{}{}:
		default:
		}
	}
	if old != nil {
		_ = old.Close() // the peer has begun again
	}
	in := inbox{r: bufio.NewReaderSize(conn, inboxBytes)}
	for {
		err := in.read(func(group GroupID, message []byte) {
			if group == NoGroup {
				t.hear(h.from, message)
				return
			}
			t.core.Deliver(h.from, group, message)
		})
		if err != nil {
			break
		}
	}
	t.mu.Lock()
	last := t.heard[h.from] == conn
	if last {
		delete(t.heard, h.from)
		if p = t.peers[h.from]; p != nil {
			p.hangUp()
		}
	}
	t.mu.Unlock()
	t.calls.lose(h.from)
	if last {
		t.probe(h.from)
	}
}

// probe finds out whether the process of a node has ended, after its connection did: then nothing
// listens at its address, which the system there says at once. A machine that is gone, too, says
// nothing, and what its nodes led waits until it is missed.
func (t *transport) probe(node uint64) {
	for d := firstProbe; d <= lastProbe && t.wait(d) && !t.hasInbound(node); d *= 2 {
		addr, ok := t.opt.Resolve(node)
		if !ok {
			return
		}
		conn, err := net.DialTimeout("tcp", addr, probeTimeout)
		if errors.Is(err, syscall.ECONNREFUSED) {
			t.core.NodeEnded(node)
			return
		}
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

func (t *transport) hasInbound(node uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heard[node] != nil
}

// isCertified reports whether the certificate of the other side has the name of the node that it
// says it is.
func (t *transport) isCertified(conn net.Conn, node uint64) bool {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return t.opt.PlainTCP
	}
	certs := secure.ConnectionState().PeerCertificates
	return len(certs) > 0 && certs[0].VerifyHostname(TLSName(node)) == nil
}

// close hangs up and waits for all goroutines.
func (t *transport) close() {
	t.mu.Lock()
	t.closed = true
	close(t.closing)
	for conn := range t.conns {
		_ = conn.Close()
	}
	t.mu.Unlock()
	_ = t.opt.Listener.Close()
	t.wg.Wait()
}
