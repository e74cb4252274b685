package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/internal/accept"
	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/memory"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// Limits of the server. fasthttp has none of its own.
const (
	maxBodyBytes = wire.MaxFramePayload + 4096
	readTimeout  = time.Minute // of a whole request
	idleTimeout  = 2 * time.Minute
	// queryTimeout bounds a request, answer included.
	queryTimeout   = 10 * time.Minute
	maxConnections = 4096 // or what accept.AtMost leaves
	// headerBytes bounds the headers and the query string.
	headerBytes = 64 << 10
	// writeBufferBytes is the write buffer of a connection.
	writeBufferBytes = 64 << 10
)

// server speaks HTTP for a node.
type server struct {
	node     *Node
	listener *accept.Listener
	http     *fasthttp.Server
	// running is cancelled when a graceful end takes too long; every request's context comes
	// from it.
	running context.Context
	cancel  context.CancelFunc
	hosts   hostAllowList
	conns   conns
	feeds   feeds
	bodies  *budget.Budget
	routes  *router
}

func newServer(n *Node, l net.Listener, hosts hostAllowList) *server {
	s := &server{node: n, hosts: hosts, conns: conns{open: map[net.Conn]func(){}},
		feeds:  feeds{pages: map[string]int{}},
		bodies: newBodies(memory.Total(n.opt.MemoryBytes))}
	s.routes = newRouter(s.routeTable())
	s.listener = accept.New(l, s.conns.closeStalled)
	s.running, s.cancel = context.WithCancel(context.Background())
	s.http = &fasthttp.Server{
		Handler:            s.handle,
		Name:               "pentad",
		Concurrency:        accept.AtMost(maxConnections),
		MaxRequestBodySize: maxBodyBytes,
		StreamRequestBody:  true, // takeBody reads them
		ExpectHandler:      continued,

		DisablePreParseMultipartForm: true, // into files, else
		ReadBufferSize:               headerBytes,
		WriteBufferSize:              writeBufferBytes,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 queryTimeout,
		IdleTimeout:                  idleTimeout,
		CloseOnShutdown:              true,
		NoDefaultServerHeader:        true,
		NoDefaultDate:                true,
		ErrorHandler:                 rejectUnreadable,
		ConnState:                    s.conns.track,
		Logger:                       discardLog{},
	}
	return s
}

// discardLog discards what fasthttp would log, e.g. disconnects of clients.
type discardLog struct{}

func (discardLog) Printf(string, ...any) {}

// rejectUnreadable answers requests that fasthttp could not read.
func rejectUnreadable(ctx *fasthttp.RequestCtx, err error) {
	var network net.Error
	text, _, _ := strings.Cut(err.Error(), ": buffer size=") // the rest repeats the request
	switch {
	case errors.As(err, new(*fasthttp.ErrSmallBuffer)):
		writeProblem(ctx, http.StatusRequestHeaderFieldsTooLarge, &wire.Error{
			Kind: wire.KindTooLarge, Message: fmt.Sprintf("URL and headers over %d bytes; "+
				"POST /v1/query takes longer questions, in frames", headerBytes)})
	case errors.As(err, &network) && network.Timeout():
		writeProblem(ctx, http.StatusRequestTimeout, &wire.Error{Kind: wire.KindTimeout,
			Message: fmt.Sprintf("the request did not come whole within %s", readTimeout)})
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		writeError(ctx, &wire.Error{Kind: wire.KindTooLarge,
			Message: fmt.Sprintf("request body over %d bytes", maxBodyBytes)})
	default:
		writeError(ctx, &wire.Error{Kind: wire.KindBadFrame, Message: "read request: " + text})
	}
}

// problems returns the problems of the listener.
func (s *server) problems() []health.Problem {
	return s.listener.Problems("clients")
}

func (s *server) serve() error { return s.http.Serve(listener{s.listener}) }

// cancelRequests cancels the requests under way and hangs up on clients that do not read their
// answers.
func (s *server) cancelRequests() {
	s.cancel()
	s.conns.close(false)
}

// shutdown stops accepting, waits for requests under way and, when ctx ends, gives them up.
func (s *server) shutdown(ctx context.Context) error {
	defer s.cancelRequests()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { s.conns.sweep(done) })
	defer wg.Wait()
	defer close(done)
	err := s.http.ShutdownWithContext(ctx)
	// A serve that has not begun yet is not known to fasthttp; it then ends as it begins.
	if e := s.listener.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
		err = errors.Join(err, e)
	}
	stop := context.AfterFunc(ctx, s.cancelRequests)
	s.feeds.end() // they end when the node closes, or by cancelRequests
	if !stop() {
		err = cmp.Or(err, ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("end gracefully: %w", err)
	}
	return nil
}

// context returns the context of a request, which ends with the server or after queryTimeout.
func (s *server) context() (context.Context, context.CancelFunc) {
	return s.contextWith(requestOptions{})
}

func (s *server) handle(ctx *fasthttp.RequestCtx) {
	began := time.Now()
	defer func() {
		if fault := recover(); fault != nil {
			s.node.log.Error("panic in a request", "err", fmt.Sprint(fault), "stack",
				string(debug.Stack()))
			writeError(ctx, &wire.Error{Kind: wire.KindInternal,
				Message: "internal fault; see the node's log"})
		}
		s.node.metrics.request(ctx.Response.StatusCode(), time.Since(began))
	}()
	if err := s.takeBody(ctx); err != nil {
		refuseBody(ctx, err)
		return
	}
	if s.rejectHost(ctx) || rejectDotSegments(ctx) {
		return
	}
	s.route(ctx)
}

func (s *server) version(ctx *fasthttp.RequestCtx) {
	writeJSON(ctx, map[string]string{"name": "pentad", "version": version()})
}

func (s *server) metrics(ctx *fasthttp.RequestCtx) { s.node.metrics.handler(s.node)(ctx) }

func (s *server) horizon(ctx *fasthttp.RequestCtx) {
	rc, cancel := s.requestContext(ctx)
	defer cancel()
	q, err := s.parseBox(ctx)
	h := int64(0)
	if err == nil {
		h, err = s.node.horizonOf(rc, &q.Box)
	}
	if err != nil {
		writeError(ctx, toWire(err))
		return
	}
	writeJSON(ctx, api.Horizon{HorizonNs: h, Horizon: record.FormatNs(h)})
}

// speaksFrames reports whether a request speaks frames.
func speaksFrames(ctx *fasthttp.RequestCtx) bool {
	return string(ctx.Request.Header.ContentType()) == wire.ContentType
}

// writeError answers with an error frame or with problem+json, as the request was.
func writeError(ctx *fasthttp.RequestCtx, e *wire.Error) { writeProblem(ctx, status(e.Kind), e) }

// writeProblem is writeError with a status that HTTP has and kinds do not tell apart.
func writeProblem(ctx *fasthttp.RequestCtx, code int, e *wire.Error) {
	ctx.Response.Reset()
	ctx.SetStatusCode(code)
	if e.RetryAfterMs > 0 {
		seconds := max(1, int(e.RetryAfterMs/1000))
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(seconds))
	}
	if speaksFrames(ctx) {
		ctx.SetContentType(wire.ContentType)
		ctx.SetBody(wire.AppendError(nil, e))
		return
	}
	ctx.SetContentType("application/problem+json")
	body, err := json.Marshal(problemOf(code, e))
	if err != nil {
		panic("BUG: an error does not marshal: " + err.Error())
	}
	ctx.SetBody(append(body, '\n'))
}

func problemOf(code int, e *wire.Error) api.Error {
	p := api.Error{Type: "about:blank", Title: http.StatusText(code), Status: code,
		Detail: e.Message, Code: e.Kind.String(), Part: e.Part, Reason: e.Reason}
	if put, ok := e.Outcome(); ok {
		p.Part, p.Reason, p.Put = "", "", &put
	}
	if fault, ok := e.Fault(); ok {
		p.Part, p.Reason, p.Fault = "", "", &fault
	}
	return p
}

func writeJSON(ctx *fasthttp.RequestCtx, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		writeError(ctx, &wire.Error{Kind: wire.KindInternal, Message: err.Error()})
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(append(body, '\n'))
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}
