package node

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// sweepEvery is how often silent connections are closed while the server ends.
	sweepEvery = 50 * time.Millisecond
	// stalledAfter is how long a client may keep an ending server waiting for the next bytes of a
	// request: longer than lost packets take to be sent again.
	stalledAfter = 3 * time.Second
)

// conn knows whether its client has ever said anything, and since when the server waits for more.
// fasthttp counts a connection that never carried a byte, such as a client's pool holds ready, and
// one that carried half a request among those with a request under way.
type conn struct {
	net.Conn
	spoken  atomic.Bool
	waiting atomic.Int64 // ns on the clock when the read under way began; 0: none is

	// Used by the goroutine that answers alone.
	end  answerEnd
	held *[]byte // of frameBuffers: what is written and not yet sent
}

// answerEnd is how far the end of an answer in chunks has come.
type answerEnd int

const (
	endNone    answerEnd = iota
	endNear              // what is written from now on is the last rows and the end
	endWritten           // but for the empty line behind the last chunk
)

const (
	lastChunk = "0\r\n"
	// mostHeld is more than the last rows of an answer take with all that is around them.
	mostHeld = 64 << 10
)

// answerEnds makes the rest of an answer in chunks go out as one. fasthttp sends the last chunk and
// the empty line behind it by themselves: three system calls, and the client wakes up for each. To
// a client that asked on already it sends that line with the next answer: all else goes before.
func (c *conn) answerEnds() {
	c.end, c.held = endNear, frameBuffers.Get().(*[]byte)
	*c.held = (*c.held)[:0]
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if c.end == endNone {
		return c.Conn.Write(b)
	}
	*c.held = append(*c.held, b...)
	switch {
	case c.end == endNear && bytes.HasSuffix(b, []byte(lastChunk)): // rows may end like that, too
		c.end = endWritten
	case c.end == endWritten, len(*c.held) > mostHeld:
		return len(b), c.release()
	}
	return len(b), nil
}

// release sends what is held, and holds nothing any more.
func (c *conn) release() error {
	if c.held == nil {
		return nil
	}
	_, err := c.Conn.Write(*c.held)
	frameBuffers.Put(c.held)
	c.end, c.held = endNone, nil
	return err
}

// Read implements net.Conn. fasthttp reads while it wants more of a request or another one, and
// never while one is answered.
func (c *conn) Read(b []byte) (int, error) {
	c.waiting.Store(time.Now().UnixNano())
	n, err := c.Conn.Read(b)
	c.waiting.Store(0)
	if n > 0 && !c.spoken.Load() {
		c.spoken.Store(true)
	}
	return n, err
}

// idle reports whether nothing is lost when the connection is closed: nothing was ever said, or
// the rest of a request does not come.
func (c *conn) idle(now time.Time) bool {
	waiting := c.waiting.Load()
	return !c.spoken.Load() || waiting != 0 && now.UnixNano()-waiting > int64(stalledAfter)
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
	open map[net.Conn]func() // guarded by mu; what is called when it is closed, nil for nothing
}

// track is told of every change of a connection.
func (s *conns) track(c net.Conn, state fasthttp.ConnState) {
	s.mu.Lock()
	var done func()
	switch state {
	case fasthttp.StateNew:
		s.open[c] = nil
	case fasthttp.StateIdle: // on the goroutine that answers
		if own, ok := c.(*conn); ok {
			defer func() { _ = own.release() }() // who reads or writes next has the error, too
		}
	case fasthttp.StateClosed:
		done = s.open[c]
		delete(s.open, c)
	}
	s.mu.Unlock()
	if done != nil {
		done()
	}
}

// atEnd has done called when a connection is closed, for whatever reason; once for each.
func (s *conns) atEnd(c net.Conn, done func()) {
	s.mu.Lock()
	_, open := s.open[c]
	if open {
		s.open[c] = done
	}
	s.mu.Unlock()
	if !open {
		done()
	}
}

// close closes all connections, or those alone that are idle.
func (s *conns) close(idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for c := range s.open {
		if own, ok := c.(*conn); !idle || ok && own.idle(now) {
			_ = c.Close() // closed twice at worst
		}
	}
}

// sweep closes idle connections until done is closed.
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
