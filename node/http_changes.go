package node

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

const (
	// maxFeeds bounds the readers of changes; an idle one costs some 15 KiB.
	maxFeeds = 1 << 14
	// maxPageFeeds bounds the readers of one site's pages. A browser opens six to a name, but a
	// page may have others load it.
	maxPageFeeds = 32
	// stallTimeout is how long a reader of changes may take nothing.
	stallTimeout = time.Minute
	// leastBeat keeps a reader from being told all the time how far it is.
	leastBeat = 50 * time.Millisecond
)

var (
	changesParams = []string{"cid", "mid", "moid", "cap", "filter", "filter_params", "unchecked",
		"keys", "type", "format", "since", "follow"}
	horizonParams = []string{"cid", "mid", "moid", "cap", paramGroups, paramWithin,
		paramAfter, paramRead}
	followParams = []string{"since", "follow", "beat_ms", paramGroups, paramWithin,
		paramAfter}
)

var frameBuffers = sync.Pool{New: func() any { return new([]byte) }}

// feeds are the connections that changes are written to. fasthttp has let go of them, with all
// buffers that it has per connection.
type feeds struct {
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

// room returns an error when a feed of a site, or of none, is one too many.
func (f *feeds) room(site string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.open >= maxFeeds:
		return errTooBusy
	case site != "" && f.pages[site] >= maxPageFeeds:
		return fmt.Errorf("%w: pages of %q read %d streams of changes already", errTooBusy, site,
			maxPageFeeds)
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

// changesRequest is a parsed request for changes.
type changesRequest struct {
	q      *record.Query
	fromNs int64
	follow bool
	beat   time.Duration // how often it is told how far it is; 0 for the usual
	asked  requestOptions
	out    changesWriter
}

// changes answers with what came to a box in the order of acq. The answer is written on a goroutine
// of its own, because it may go on for years.
func (s *server) changes(ctx *fasthttp.RequestCtx) {
	r, err := s.parseChanges(ctx)
	done := func() {}
	if err == nil {
		rc, cancel := s.requestContext(ctx)
		defer cancel()
		done, err = s.node.precheckChanges(rc, r.q, r.fromNs)
	}
	site := siteOf(ctx)
	if err == nil {
		err = s.feeds.room(site)
	}
	if err != nil {
		done()
		writeError(ctx, toWire(err))
		return
	}
	ctx.SetContentType(contentTypes[r.out.form])
	if string(ctx.Method()) == http.MethodHead {
		done()
		return
	}
	s.conns.onClose(ctx.Conn(), done) // a feed ends with its connection, and may not even begin
	out := &feedConn{conn: ctx.Conn(), chunked: ctx.Request.Header.IsHTTP11()}
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {
		if own, ok := out.conn.(*conn); ok {
			own.detach() // a feed closes it
		}
		if !s.feeds.start(site, func() { s.feed(out, r) }) {
			s.hangUp(out)
		}
	})
}

func (s *server) parseChanges(ctx *fasthttp.RequestCtx) (r *changesRequest, err error) {
	r = &changesRequest{q: new(record.Query)}
	args := ctx.QueryArgs()
	if string(ctx.Method()) == http.MethodPost {
		r.out.form = changesFrames
		err = wire.ParseQuery(ctx.PostBody(), r.q)
	} else if r.q, err = s.parseBox(ctx); err == nil {
		if r.out.payloads, err = parsePayloadType(ctx); err == nil {
			r.out.form, err = parseChangesForm(ctx)
		}
	}
	if err == nil {
		r.follow, err = parseFlag(args, "follow")
	}
	if err != nil {
		return r, err
	}
	r.asked, _ = parseRequestOptions(args) // handle has checked it
	if text := string(ctx.Request.Header.Peek(wire.FeedHeader)); text != "" {
		if r.asked.feedID, err = strconv.ParseUint(text, 10, 64); err != nil {
			return r, badParam(wire.FeedHeader, fmt.Errorf("%q is not a number", clip(text)))
		}
	}
	if r.beat, err = parseBeat(args); err != nil {
		return r, err
	}
	r.out.keys = r.q.KeysOnly
	r.fromNs, err = parseSince(ctx, s.node.now())
	return r, err
}

// parseBeat parses the heartbeat interval that another node wants for a feed that it merges.
func parseBeat(args *fasthttp.Args) (time.Duration, error) {
	text := string(args.Peek("beat_ms"))
	if text == "" {
		return heartbeat, nil
	}
	ms, err := strconv.ParseUint(text, 10, 31)
	beat := time.Duration(ms) * time.Millisecond
	if err != nil || beat < leastBeat || beat > heartbeat {
		return 0, badParam("beat_ms", fmt.Errorf("%q is not a time of %s to %s in ms", clip(text),
			leastBeat, heartbeat))
	}
	return beat, nil
}

// parseSince parses where changes begin. Browsers send Last-Event-ID when they reconnect.
func parseSince(ctx *fasthttp.RequestCtx, now time.Time) (int64, error) {
	part, text := "Last-Event-ID", string(ctx.Request.Header.Peek("Last-Event-ID"))
	if text == "" {
		part, text = "since", string(ctx.QueryArgs().Peek("since"))
	}
	if text == "" {
		return math.MinInt64, nil // restored records may have acqs before 1970
	}
	if text == "now" {
		return SinceNow, nil
	}
	if ns, err := strconv.ParseInt(text, 10, 64); err == nil && ns != SinceNow {
		return ns, nil
	}
	at, err := timeparse.Parse(text, now)
	if err != nil {
		return 0, badParam(part, err)
	}
	return at.FromNs, nil
}

func parseChangesForm(ctx *fasthttp.RequestCtx) (changesForm, error) {
	switch format := string(ctx.QueryArgs().Peek("format")); format {
	case "ndjson":
		return changesLines, nil
	case "sse":
		return changesEvents, nil
	case "":
	default:
		return 0, badParam("format", fmt.Errorf("%q is not ndjson or sse", clip(format)))
	}
	accept := string(ctx.Request.Header.Peek("Accept"))
	for form, contentType := range contentTypes {
		if form > 0 && strings.Contains(accept, contentType) {
			return changesForm(form), nil
		}
	}
	return changesLines, nil
}

// feed writes changes until they end, the client disconnects or the node closes.
func (s *server) feed(out *feedConn, r *changesRequest) {
	defer s.hangUp(out)
	defer func() {
		if fault := recover(); fault != nil {
			s.node.log.Error("panic in changes", "err", fmt.Sprint(fault), "stack",
				string(debug.Stack()))
		}
	}()
	if out.begin(contentTypes[r.out.form]) != nil {
		return // the client has disconnected
	}
	gone := false
	write := func(produce func(w *bufio.Writer) error) error {
		buf := answerBuffers.Get().(*bufio.Writer)
		defer answerBuffers.Put(buf)
		buf.Reset(out)
		defer buf.Reset(nil)
		err := cmp.Or(produce(buf), buf.Flush())
		gone = gone || err != nil
		return err
	}
	running, cancel := context.WithCancel(withOptions(s.running, r.asked))
	defer cancel()
	// Without it only a write would detect a disconnect, and heartbeats are rare.
	defer watchDisconnect(out.conn, cancel)()
	closed, err := s.node.changesWith(running, r.q, r.fromNs, r.follow, r.beat,
		func(b *store.Slice) error {
			return write(func(w *bufio.Writer) error { return r.out.slice(w, b) })
		})
	if gone {
		return
	}
	if write(func(w *bufio.Writer) error { return r.out.end(w, closed, err) }) == nil {
		_ = out.end() // the client has disconnected
	}
}

// hangUp closes the connection of a reader.
func (s *server) hangUp(out *feedConn) {
	s.conns.track(out.conn, fasthttp.StateClosed)
	_ = out.conn.Close() // it may be closed already
}

// feedConn writes an answer to a connection that fasthttp has let go of.
type feedConn struct {
	conn    net.Conn
	chunked bool // HTTP/1.1; before it an answer ends with its connection
}

// begin writes the header, which tells proxies not to buffer the answer.
func (c *feedConn) begin(contentType string) error {
	head := "HTTP/1.1 200 OK\r\nServer: pentad\r\nContent-Type: " + contentType +
		"\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\nConnection: close\r\n"
	if c.chunked {
		head += "Transfer-Encoding: chunked\r\n"
	}
	return c.send([]byte(head + "\r\n"))
}

// Write implements io.Writer.
func (c *feedConn) Write(p []byte) (int, error) {
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

// end completes the answer.
func (c *feedConn) end() error {
	if !c.chunked {
		return nil
	}
	return c.send([]byte("0\r\n\r\n"))
}

func (c *feedConn) send(parts ...[]byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(stallTimeout)); err != nil {
		return err
	}
	to := c.conn
	if own, ok := to.(*conn); ok {
		to = own.Conn // which writes several parts at once
	}
	buffers := net.Buffers(parts)
	_, err := buffers.WriteTo(to)
	return err
}
