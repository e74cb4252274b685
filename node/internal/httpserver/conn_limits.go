package httpserver

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/pentad-db/pentad/node/internal/accept"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

const (
	maxConnections = 4096 // or what accept.AtMost leaves
	// Of the connections a probesPart-th, at most mostProbes, is for requests of monitoring alone.
	probesPart = 4
	mostProbes = 32
	// lingerTime is how long the rest of a request that was refused is read: unread bytes would
	// reset the connection, and the client might not see the answer.
	lingerTime = time.Second
	// tooManyRetryMs is the retry advice of a node with too many connections.
	tooManyRetryMs = 1000
)

// Kinds of connections, of which each is limited. That of a reader of changes is limited by feeds.
const (
	uncounted = iota
	ordinary
	monitoringOnly // only requests of monitoring are answered, and one at most
	connKinds
)

// connLimits is how many connections there may be, and are, of each kind.
type connLimits [connKinds]struct {
	most  int
	taken int // guarded by mu of conns
}

// newConnLimits divides what the descriptors of the process allow.
func newConnLimits(most int) (p connLimits) {
	p[monitoringOnly].most = min(most/probesPart, mostProbes)
	p[ordinary].most = most - p[monitoringOnly].most
	return p
}

// admit makes a new connection an ordinary one, if need be in place of one whose client has been
// silent between requests for stalledAfter, otherwise one for monitoring only, if need be in place
// of one whose client is waited for. It reports false if there is neither.
func (s *conns) admit(c *conn) bool {
	s.mu.Lock()
	kind := int32(ordinary)
	ok, done := s.makeSpace(ordinary)
	if !ok {
		kind = monitoringOnly
		ok, done = s.makeSpace(monitoringOnly)
	}
	if ok {
		s.move(c, kind)
		s.open[c] = nil
	}
	s.mu.Unlock()
	if done != nil {
		done()
	}
	return ok
}

// makeOrdinary makes a connection for monitoring only an ordinary one, if one more is allowed.
func (s *conns) makeOrdinary(c *conn) bool {
	s.mu.Lock()
	ok, done := s.makeSpace(ordinary)
	if ok {
		s.move(c, ordinary)
	}
	s.mu.Unlock()
	if done != nil {
		done()
	}
	return ok
}

// move changes the kind of a connection; the caller has locked mu.
func (s *conns) move(c *conn, kind int32) {
	s.limits[c.kind.Swap(kind)].taken--
	s.limits[kind].taken++
}

// makeSpace makes sure that one more connection of a kind is allowed, and returns what to call
// after mu, which the caller has locked, is unlocked; nil for nothing.
func (s *conns) makeSpace(kind int32) (ok bool, done func()) {
	if s.limits[kind].taken < s.limits[kind].most {
		return true, nil
	}
	var oldest *conn
	since := time.Now().UnixNano() + 1
	if kind == ordinary {
		since -= int64(stalledAfter)
	}
	for c := range s.open {
		own, _ := c.(*conn)
		if own == nil || own.kind.Load() != kind || kind == ordinary && own.asking.Load() {
			continue
		}
		waiting := own.waiting.Load()
		if kind == monitoringOnly && waiting == 0 && !own.spoke.Load() {
			waiting = since - 1 // it is about to be read
		}
		if waiting != 0 && waiting < since {
			oldest, since = own, waiting
		}
	}
	if oldest == nil {
		return false, nil
	}
	done = s.open[oldest]
	delete(s.open, oldest)
	s.move(oldest, uncounted)
	_ = oldest.Conn.Close() // its goroutine notices
	return true, done
}

// tooManyConnections is the error of a request on one connection too many.
func (s *Server) tooManyConnections() *wire.Error {
	return &wire.Error{Kind: wire.KindUnavailable, RetryAfterMs: tooManyRetryMs,
		Message: fmt.Sprintf("too many connections: the node serves %d at once; use fewer, or "+
			"try again later", s.conns.limits[ordinary].most)}
}

// turnAway answers a connection that is one too many, before its request has come.
func (s *Server) turnAway(c net.Conn) {
	var ctx fasthttp.RequestCtx
	WriteError(&ctx, s.tooManyConnections())
	code, body := ctx.Response.StatusCode(), ctx.Response.Body()
	if c.SetWriteDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nRetry-After: %s\r\n"+
			"Connection: close\r\nContent-Length: %d\r\n\r\n%s", code, http.StatusText(code),
			ctx.Response.Header.ContentType(), ctx.Response.Header.Peek("Retry-After"), len(body),
			body)
	}
	_ = c.Close()
}

// closeAfter closes the connection of a request after its answer.
func closeAfter(ctx *fasthttp.RequestCtx) {
	ctx.SetConnectionClose()
	if own := connOf(ctx); own != nil {
		own.lingers = true
	}
}

// linger ends what is sent, and reads what still comes, like a client that is waited for: a
// connection for monitoring only may replace it.
func (c *conn) linger() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil ||
		c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, c)
}

// listener hands out connections that were admitted, of type *conn.
type listener struct {
	*accept.Listener
	server *Server
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		own := &conn{Conn: c}
		if l.server.conns.admit(own) {
			return own, nil
		}
		l.server.turnAway(c)
	}
}
