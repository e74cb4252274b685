package node

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// sweepEvery is how often silent connections are closed while the server ends.
const sweepEvery = 50 * time.Millisecond

// conn knows whether its client has ever said anything. fasthttp counts a connection that never
// carried a byte, such as a client's pool holds ready, among those with a request under way.
type conn struct {
	net.Conn
	spoken atomic.Bool
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.spoken.Load() {
		c.spoken.Store(true)
	}
	return n, err
}

// listener hands out connections of type *conn.
type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// conns is the set of open connections.
type conns struct {
	mu   sync.Mutex
	open map[net.Conn]struct{} // guarded by mu
}

// track is told of every change of a connection.
func (s *conns) track(c net.Conn, state fasthttp.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case fasthttp.StateNew:
		s.open[c] = struct{}{}
	case fasthttp.StateClosed:
		delete(s.open, c)
	}
}

// close closes all connections, or those alone that never said anything.
func (s *conns) close(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if own, ok := c.(*conn); !silent || ok && !own.spoken.Load() {
			_ = c.Close() // closed twice at worst
		}
	}
}

// sweep closes silent connections until done is closed.
func (s *conns) sweep(done <-chan struct{}) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		s.close(true)
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}
