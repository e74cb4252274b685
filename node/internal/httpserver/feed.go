package httpserver

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

const (
	// maxPageFeeds bounds the readers of one site's pages. A browser opens six to a name, but a
	// page may have others load it.
	maxPageFeeds = 32
	// stallTimeout is how long a reader of changes may take nothing, and shortStallTimeout while
	// such readers hold the memory of others.
	stallTimeout      = time.Minute
	shortStallTimeout = 5 * time.Second
	// feedSendBuffer is what the system may hold of an answer that is not taken; the default is
	// some MiB. It lets a writer go on when a third is free, so a reader of 10 kB a second is not
	// taken for one that takes nothing.
	feedSendBuffer = 256 << 10
	// feedPiece is what is written under one timeout.
	feedPiece = 64 << 10
)

// feeds are the connections that changes are written to. fasthttp has let go of them, with all
// buffers that it has per connection.
type feeds struct {
	most  int // open at once
	mu    sync.Mutex
	open  int            // guarded by mu
	pages map[string]int // guarded by mu: those of open that are of web pages, by site
	ended bool           // guarded by mu: none begins any more
	wg    sync.WaitGroup // of open; Go is called under mu while ended is false
}

// start runs a feed, of a page's site or "", on a goroutine of its own, unless the server ends.
func (f *feeds) start(site string, feed func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false
	}
	f.add(site, 1)
	f.wg.Go(func() {
		feed()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.add(site, -1)
	})
	return true
}

// add counts a feed that begins or ends, under mu.
func (f *feeds) add(site string, n int) {
	f.open += n
	if site == "" {
		return
	}
	if f.pages[site] += n; f.pages[site] == 0 {
		delete(f.pages, site)
	}
}

// checkLimit returns an error when a feed of a site, or of none, is one too many.
func (f *feeds) checkLimit(site string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.open >= f.most:
		return tooBusy(fmt.Sprintf(": %d readers of changes are served; with more --memory there "+
			"may be more", f.most))
	case site != "" && f.pages[site] >= maxPageFeeds:
		return tooBusy(fmt.Sprintf(": pages of %q read %d streams of changes already", site,
			maxPageFeeds))
	}
	return nil
}

func (f *feeds) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

// end lets none start and waits for those that are open.
func (f *feeds) end() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.wg.Wait()
}

// tooBusy is the error of one feed too many.
func tooBusy(detail string) *wire.Error {
	return &wire.Error{Kind: wire.KindOverloaded, RetryAfterMs: retryAfterMs,
		Message: "too many requests at once" + detail}
}

// Feeds returns the number of open feeds.
func (s *Server) Feeds() int { return s.feeds.count() }

// CheckFeed returns an error when a feed of this request would be one too many, of all or of those
// of a web page's site.
func (s *Server) CheckFeed(ctx *fasthttp.RequestCtx) error {
	return s.feeds.checkLimit(siteOf(ctx))
}

// StartFeed answers with what run writes, on a goroutine of its own, because it may go on for
// years. fasthttp lets go of the connection, which is closed when run returns. done is called once
// when the connection is closed: run may not even begin.
func (s *Server) StartFeed(ctx *fasthttp.RequestCtx, done func(), run func(*Feed)) {
	s.conns.onClose(ctx.Conn(), done)
	site := siteOf(ctx)
	out := &Feed{conn: ctx.Conn(), chunked: ctx.Request.Header.IsHTTP11(), short: s.opt.FeedsShort}
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {
		if own, ok := out.conn.(*conn); ok {
			own.detach() // a feed closes it
		}
		if !s.feeds.start(site, func() { s.feed(out, run) }) {
			s.hangUp(out)
		}
	})
}

func (s *Server) feed(out *Feed, run func(*Feed)) {
	defer s.hangUp(out)
	defer func() {
		if fault := recover(); fault != nil {
			s.logPanic("panic in changes", fault)
		}
	}()
	run(out)
}

// hangUp closes the connection of a reader.
func (s *Server) hangUp(out *Feed) {
	s.conns.track(out.conn, fasthttp.StateClosed)
	_ = out.conn.Close() // it may be closed already
}

// Feed is an answer without an end of its own, on a connection that fasthttp has let go of. It is
// used by one goroutine.
type Feed struct {
	conn    net.Conn
	chunked bool // HTTP/1.1; before it an answer ends with its connection
	short   func() bool
}

// Begin writes the header, which tells proxies not to buffer the answer.
func (c *Feed) Begin(contentType string) error {
	if own, ok := c.netConn().(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = own.SetWriteBuffer(feedSendBuffer) // only slow readers feel a greater one
	}
	head := "HTTP/1.1 200 OK\r\nServer: pentad\r\nContent-Type: " + contentType +
		"\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\nConnection: close\r\n"
	if c.chunked {
		head += "Transfer-Encoding: chunked\r\n"
	}
	return c.send([]byte(head + "\r\n"))
}

// Watch calls gone when the client disconnects, until stop is called. Without it only a write would
// detect that, and writes may be rare.
func (c *Feed) Watch(gone func()) (stop func()) { return WatchDisconnect(c.conn, gone) }

// Produce writes what produce writes, buffered, and sends it.
func (c *Feed) Produce(produce func(w *bufio.Writer) error) error {
	buf := answerBuffers.Get().(*bufio.Writer)
	defer answerBuffers.Put(buf)
	buf.Reset(c)
	defer buf.Reset(nil)
	return cmp.Or(produce(buf), buf.Flush())
}

// Write implements io.Writer.
func (c *Feed) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil // would end the answer
	}
	parts := [][]byte{p}
	if c.chunked {
		parts = [][]byte{fmt.Appendf(nil, "%x\r\n", len(p)), p, []byte("\r\n")}
	}
	if err := c.send(parts...); err != nil {
		return 0, err
	}
	return len(p), nil
}

// End completes the answer.
func (c *Feed) End() error {
	if !c.chunked {
		return nil
	}
	return c.send([]byte("0\r\n\r\n"))
}

// netConn returns the connection that writes several parts at once.
func (c *Feed) netConn() net.Conn {
	if own, ok := c.conn.(*conn); ok {
		return own.Conn
	}
	return c.conn
}

// send writes parts, and gives each piece of them the time that a reader may take nothing.
func (c *Feed) send(parts ...[]byte) error {
	for len(parts) > 0 {
		var piece net.Buffers
		for left := feedPiece; left > 0 && len(parts) > 0; {
			n := min(left, len(parts[0]))
			piece = append(piece, parts[0][:n])
			if parts[0] = parts[0][n:]; len(parts[0]) == 0 {
				parts = parts[1:]
			}
			left -= n
		}
		timeout := stallTimeout
		if c.short() {
			timeout = shortStallTimeout
		}
		if err := c.conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
			return err
		}
		if _, err := piece.WriteTo(c.netConn()); err != nil {
			return err
		}
	}
	return nil
}
