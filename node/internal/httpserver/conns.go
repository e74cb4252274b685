package httpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/valyala/fasthttp"
)

const (
	// sweepEvery is how often silent connections are closed during shutdown.
	sweepEvery = 50 * time.Millisecond
	// stalledAfter is how long shutdown waits for the next bytes of a request: longer than the
	// retransmission of lost packets takes.
	stalledAfter = 3 * time.Second
	// pauseAfter is how long a client may stop reading before the permit of its query is lent to
	// others. After stallTime its connection is closed: its query holds memory and files.
	pauseAfter = 100 * time.Millisecond
	stallTime  = time.Minute
)

// conn records whether its client has ever sent anything, and since when the server waits for more.
// fasthttp counts a connection that never carried a byte, e.g. of a client's pool, and one that
// carried half a request among those with a running request.
type conn struct {
	net.Conn
	spoke    atomic.Bool
	waiting  atomic.Int64 // ns on the clock when the pending read began; 0: none is
	detached atomic.Bool  // the next Close does nothing
	asking   atomic.Bool  // from the first byte of a request until it is answered
	kind     atomic.Int32 // changed under mu of conns

	// Used only by the goroutine that answers.
	body    *body // of the request, until it is answered; nil for none
	ended   bool  // a read has found that the client sends no more
	lingers bool  // the client may still send when the connection is closed

	// pending has what is written but not sent yet, nil while writes are sent at once. Only the
	// goroutine that answers writes; whichever takes the buffer out sends it.
	pending atomic.Pointer[[]byte] // of pendingBuffers

	// Set while an answer is produced under a permit: by the goroutine that answers, before and
	// after others write.
	permit *admission.Permit
	asked  context.Context // of the query
	until  time.Time       // write deadline of the whole answer
}

var pendingBuffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPending is larger than the last rows of an answer with their framing.
const maxPending = 64 << 10

// bufferEnd makes the rest of an answer go out in one write, when fasthttp reports the connection
// as idle or closes it. fasthttp writes the last chunk and the empty line after it separately:
// three system calls, each of which wakes the client. If the client has sent another request
// already, fasthttp sends that line with the next answer; all else is sent before.
func (c *conn) bufferEnd() {
	pending := pendingBuffers.Get().(*[]byte)
	*pending = (*pending)[:0]
	c.pending.Store(pending)
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	pending := c.pending.Load()
	if pending == nil {
		return c.send(b)
	}
	if *pending = append(*pending, b...); len(*pending) > maxPending {
		return len(b), c.flushPending()
	}
	return len(b), nil
}

// lend lends the permit of a query to others while its client does not read, until keepPermit.
func (c *conn) lend(ctx context.Context, permit *admission.Permit) {
	c.asked, c.permit = ctx, permit
}

func (c *conn) keepPermit() { c.asked, c.permit = nil, nil }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.until = t
	return c.Conn.SetWriteDeadline(t)
}

// send writes, and lends the permit of the query to others when that takes longer than pauseAfter.
// It closes the connection of a client that reads nothing for stallTime.
func (c *conn) send(b []byte) (n int, err error) {
	if c.permit == nil {
		return c.Conn.Write(b)
	}
	if n, err = c.sendFor(b, pauseAfter); !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	c.permit.Pause(func() { _ = c.Conn.Close() }) // the pending write fails
	for n < len(b) {
		more, err := c.sendFor(b[n:], stallTime)
		if n += more; more == 0 && err != nil ||
			err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, fmt.Errorf("the client has not read for %v: %w", stallTime, err)
		}
	}
	return n, c.permit.Resume(c.asked)
}

// sendFor writes, and fails after a timeout.
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

// detach makes the next Close, by fasthttp after a hijack, do nothing: fasthttp reuses the read
// buffer of 64 KiB only for connections that it closes.
func (c *conn) detach() { c.detached.Store(true) }

// Close implements net.Conn. It sends what is pending: an answer may end with its connection.
func (c *conn) Close() error {
	if c.detached.Swap(false) {
		return nil
	}
	err := c.flushPending()
	if err == nil && c.lingers {
		c.linger()
	}
	return errors.Join(err, c.Conn.Close())
}

// endBody frees the memory of the request body.
func (c *conn) endBody() {
	c.body.end()
	c.body = nil
}

// flushPending sends what is pending.
func (c *conn) flushPending() error {
	pending := c.pending.Swap(nil)
	if pending == nil {
		return nil
	}
	_, err := c.Conn.Write(*pending)
	pendingBuffers.Put(pending)
	return err
}

// Read implements net.Conn. fasthttp reads only while it waits for a request or the rest of one.
func (c *conn) Read(b []byte) (int, error) {
	c.waiting.Store(time.Now().UnixNano())
	n, err := c.Conn.Read(b)
	c.ended = errors.Is(err, io.EOF)
	if n > 0 && !c.asking.Load() {
		c.spoke.Store(true)
		c.asking.Store(true)
	}
	c.waiting.Store(0)
	return n, err
}

// stalled reports whether the client has been silent for stalledAfter, between requests or within
// one.
func (c *conn) stalled(now time.Time) bool {
	waiting := c.waiting.Load()
	return waiting != 0 && now.UnixNano()-waiting > int64(stalledAfter)
}

// idle reports whether the connection can be closed without loss: the client never sent anything,
// or does not send the rest of a request.
func (c *conn) idle(now time.Time) bool {
	return !c.spoke.Load() || c.stalled(now)
}

// conns is the set of open connections.
type conns struct {
	mu     sync.Mutex
	open   map[net.Conn]func() // guarded by mu; what is called when it is closed, nil for nothing
	limits connLimits
}

// track is called by fasthttp for every change of a connection's state.
func (s *conns) track(c net.Conn, state fasthttp.ConnState) {
	s.mu.Lock()
	var done func()
	own, ok := c.(*conn)
	switch state {
	case fasthttp.StateNew:
		s.open[c] = nil
	case fasthttp.StateActive:
		// Before the first byte of the first request, and behind that of others, which may have
		// come with the request before.
		if ok && own.spoke.Load() {
			own.asking.Store(true)
		}
	case fasthttp.StateIdle: // on the goroutine that answers
		if ok {
			own.asking.Store(false)
			// The next read or write returns its error, too.
			defer func() { _ = own.flushPending() }()
			own.endBody()
		}
	case fasthttp.StateHijacked:
		if ok {
			s.move(own, uncounted)
		}
	case fasthttp.StateClosed:
		if ok {
			own.endBody()
			s.move(own, uncounted)
		}
		done = s.open[c]
		delete(s.open, c)
	}
	s.mu.Unlock()
	if done != nil {
		done()
	}
}

// onClose calls done once when a connection is closed.
func (s *conns) onClose(c net.Conn, done func()) {
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

// close closes all connections, or only idle ones.
func (s *conns) close(idle bool) {
	now := time.Now()
	s.closeIf(func(c *conn) bool { return !idle || c != nil && c.idle(now) })
}

// closeStalled closes connections whose clients are silent, when no descriptors are left.
func (s *conns) closeStalled() {
	now := time.Now()
	s.closeIf(func(c *conn) bool { return c != nil && c.stalled(now) })
}

// closeIf closes the connections that which selects; its argument is nil for other types than
// *conn.
func (s *conns) closeIf(which func(*conn) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		switch own, _ := c.(*conn); {
		case !which(own):
		case own != nil:
			_ = own.Conn.Close() // closed twice at worst
		default:
			_ = c.Close()
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
