package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/internal/places"
	"github.com/valyala/fasthttp"
)

const (
	// sweepEvery is how often silent connections are closed while the server ends.
	sweepEvery = 50 * time.Millisecond
	// stalledAfter is how long a client may keep an ending server waiting for the next bytes of a
	// request: longer than lost packets take to be sent again.
	stalledAfter = 3 * time.Second
	// pauseAfter is how long a client may let an answer wait before others get the place of its
	// question, and stallTime after which it is hung up on: its question holds memory and files.
	pauseAfter = 100 * time.Millisecond
	stallTime  = time.Minute
)

// conn knows whether its client has ever said anything, and since when the server waits for more.
// fasthttp counts a connection that never carried a byte, such as a client's pool holds ready, and
// one that carried half a request among those with a request under way.
type conn struct {
	net.Conn
	spoken  atomic.Bool
	waiting atomic.Int64 // ns on the clock when the read under way began; 0: none is
	kept    atomic.Bool  // the next Close does nothing

	// Used by the goroutine that answers alone.
	body *body // of the request, until it is answered; nil for none
	end  answerEnd
	held *[]byte // of frameBuffers: what is written and not yet sent

	// Set while an answer is produced in a place: by the goroutine that answers, before and after
	// others write.
	place *places.Place
	asked context.Context // of the question
	until time.Time       // when all of the answer must be written
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
		return c.send(b)
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

// asks begins to give the place of a question to others while its client does not read, until
// asksNoMore.
func (c *conn) asks(ctx context.Context, place *places.Place) { c.asked, c.place = ctx, place }

func (c *conn) asksNoMore() { c.asked, c.place = nil, nil }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.until = t
	return c.Conn.SetWriteDeadline(t)
}

// send writes, and lets others have the place of the question meanwhile when that takes long. A
// client that takes nothing for stallTime is hung up on.
func (c *conn) send(b []byte) (n int, err error) {
	if c.place == nil {
		return c.Conn.Write(b)
	}
	if n, err = c.sendFor(b, pauseAfter); !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	c.place.Pause(func() { _ = c.Conn.Close() }) // the write under way fails
	for n < len(b) {
		more, err := c.sendFor(b[n:], stallTime)
		if n += more; more == 0 && err != nil ||
			err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, fmt.Errorf("the client has not read for %v: %w", stallTime, err)
		}
	}
	return n, c.place.Resume(c.asked)
}

// sendFor writes for some time at most.
func (c *conn) sendFor(b []byte, most time.Duration) (int, error) {
	deadline := time.Now().Add(most)
	if !c.until.IsZero() && c.until.Before(deadline) {
		deadline = c.until
	}
	if err := c.Conn.SetWriteDeadline(deadline); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	if err == nil {
		err = c.Conn.SetWriteDeadline(c.until)
	}
	return n, err
}

// keep lets the connection outlive its next Close, by fasthttp, which has handed it over: of those
// that fasthttp does not close it never uses the read buffer of 64 KiB again.
func (c *conn) keep() { c.kept.Store(true) }

// Close implements net.Conn.
func (c *conn) Close() error {
	if c.kept.Swap(false) {
		return nil
	}
	return c.Conn.Close()
}

// endBody gives the memory of the request back.
func (c *conn) endBody() {
	c.body.end()
	c.body = nil
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

// rests reports whether the client has been silent for long, between requests or within one.
func (c *conn) rests(now time.Time) bool {
	waiting := c.waiting.Load()
	return waiting != 0 && now.UnixNano()-waiting > int64(stalledAfter)
}

// idle reports whether nothing is lost when the connection is closed: nothing was ever said, or
// the rest of a request does not come.
func (c *conn) idle(now time.Time) bool {
	return !c.spoken.Load() || c.rests(now)
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
			own.endBody()
		}
	case fasthttp.StateClosed:
		if own, ok := c.(*conn); ok {
			own.endBody()
		}
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
	now := time.Now()
	s.closeThose(func(c *conn) bool { return !idle || c != nil && c.idle(now) })
}

// spare closes the connections that can be done without when there are no descriptors left.
func (s *conns) spare() {
	now := time.Now()
	s.closeThose(func(c *conn) bool { return c != nil && c.rests(now) })
}

// closeThose closes the connections that which picks; it is given nil for what is no *conn.
func (s *conns) closeThose(which func(*conn) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if own, _ := c.(*conn); which(own) {
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
