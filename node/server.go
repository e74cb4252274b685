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
	// writeBufferBytes is what a connection holds while it answers.
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
	hosts   hostNames
	conns   conns
	feeds   feeds
	bodies  *budget.Budget
}

func newServer(n *Node, l net.Listener, hosts hostNames) *server {
	s := &server{node: n, hosts: hosts, conns: conns{open: map[net.Conn]func(){}},
		feeds:  feeds{pages: map[string]int{}},
		bodies: newBodies(memory.Total(n.opt.MemoryBytes))}
	s.listener = accept.New(l, s.conns.spare)
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
		KeepHijackedConns:            true, // by feeds, which close them
		NoDefaultServerHeader:        true,
		NoDefaultDate:                true,
		ErrorHandler:                 refuse,
		ConnState:                    s.conns.track,
		Logger:                       quiet{},
	}
	return s
}

// quiet drops what fasthttp would print: peers that vanish are no news.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// refuse answers requests that fasthttp could not read.
func refuse(ctx *fasthttp.RequestCtx, err error) {
	var network net.Error
	text, _, _ := strings.Cut(err.Error(), ": buffer size=") // what follows repeats the request
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

// problems returns what is wrong with the server and stays wrong.
func (s *server) problems() []health.Problem {
	return s.listener.Problems("clients")
}

func (s *server) serve() error { return s.http.Serve(listener{s.listener}) }

// giveUp cancels the requests under way and hangs up on clients that do not read their answers.
func (s *server) giveUp() {
	s.cancel()
	s.conns.close(false)
}

// shutdown stops accepting, waits for requests under way and, when ctx ends, gives them up.
func (s *server) shutdown(ctx context.Context) error {
	defer s.giveUp()
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
	stop := context.AfterFunc(ctx, s.giveUp)
	s.feeds.end() // the node has told them, and giveUp makes them
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
	return s.under(scope{})
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
	if s.refuseHost(ctx) || refuseDots(ctx) {
		return
	}
	if fromPage(ctx) && changes(string(ctx.Method()), string(ctx.Path())) {
		refusePage(ctx)
		return
	}
	if err := s.checkScope(ctx.QueryArgs()); err != nil {
		writeError(ctx, toWire(err))
		return
	}
	s.route(ctx)
}

// route finds the handler of a request.
func (s *server) route(ctx *fasthttp.RequestCtx) {
	method, path := string(ctx.Method()), string(ctx.Path())
	if method == http.MethodHead {
		method = http.MethodGet // fasthttp leaves the body out
	}
	if coding := string(ctx.Request.Header.ContentEncoding()); coding != "" &&
		coding != "identity" {
		writeProblem(ctx, http.StatusUnsupportedMediaType, &wire.Error{Kind: wire.KindInvalid,
			Part: "body", Message: fmt.Sprintf("Content-Encoding %q is not understood; send the "+
				"body as it is", clip(coding))})
		return
	}
	if s.routeCluster(ctx, method, path) || s.routeEdge(ctx, method, path) ||
		s.routeOne(ctx, method, path) || s.routeHealth(ctx, method+" "+path) ||
		s.routeVersions(ctx, method+" "+path) || s.routeSync(ctx, method+" "+path) {
		return
	}
	switch method + " " + path {
	case "POST /v1/put":
		s.put(ctx)
	case "POST /v1/query":
		s.query(ctx)
	case "GET /v1/records":
		s.getRecords(ctx)
	case "POST /v1/records":
		s.postRecords(ctx)
	case "GET /v1/count":
		s.count(ctx)
	case "POST /v1/count":
		s.countFrame(ctx)
	case "GET /v1/explain":
		s.explain(ctx)
	case "GET /v1/windows":
		s.windows(ctx)
	case "POST /v1/explain":
		s.explainFrame(ctx)
	case "POST /v1/erase":
		s.hide(ctx, record.ViewLatest, s.node.Erase)
	case "POST /v1/purge":
		s.hide(ctx, record.ViewAll, s.node.Purge)
	case "GET /v1/events":
		s.events(ctx)
	case "GET /v1/retention", "PUT /v1/retention", "DELETE /v1/retention", "POST /v1/retention":
		s.routeRetention(ctx, method)
	case "GET /v1/horizon":
		s.horizon(ctx)
	case "GET /v1/changes", "POST /v1/changes":
		s.changes(ctx)
	case "GET /v1/cursors":
		s.listCursors(ctx)
	case "GET /v1/plugins":
		s.listPlugins(ctx)
	case "POST /v1/plugins":
		s.checkPlugin(ctx)
	case "GET /v1/failures":
		s.listFailures(ctx)
	case "GET /v1/quantities":
		s.listQuantities(ctx)
	case "GET /v1/snapshots":
		s.listSnapshots(ctx)
	case "POST /v1/snapshots":
		s.createSnapshot(ctx)
	case "POST /v1/verify":
		s.verify(ctx)
	default:
		noRoute(ctx, path)
	}
}

// routeOne answers what is asked of one thing by its name.
func (s *server) routeOne(ctx *fasthttp.RequestCtx, method, path string) bool {
	for prefix, handle := range map[string]func(*fasthttp.RequestCtx, string, string){
		"/v1/plugins/": s.routePlugin, "/v1/quantities/": s.routeQuantity,
		"/v1/snapshots/": s.routeSnapshot, "/v1/cursors/": s.routeCursor} {
		if name, ok := strings.CutPrefix(path, prefix); ok {
			handle(ctx, method, name)
			return true
		}
	}
	return false
}

// routeHealth answers what watches a node asks for.
func (s *server) routeHealth(ctx *fasthttp.RequestCtx, route string) bool {
	switch route {
	case "GET /healthz":
		s.alive(ctx)
	case "GET /readyz":
		s.ready(ctx)
	case "GET /v1/health":
		s.healthState(ctx)
	case "GET /version":
		writeJSON(ctx, map[string]string{"name": "pentad", "version": version()})
	case "GET /metrics":
		s.node.metrics.handler(s.node)(ctx)
	default:
		return false
	}
	return true
}

// routeSync answers what nodes, copies and comparisons of nodes ask for.
func (s *server) routeSync(ctx *fasthttp.RequestCtx, route string) bool {
	switch route {
	case "POST /v1/states":
		s.states(ctx)
	case "GET /v1/digest":
		s.digest(ctx)
	case "POST /v1/digest":
		s.digestFrame(ctx)
	case "GET /v1/sync":
		s.syncState(ctx)
	case "POST /v1/sync":
		s.putRange(ctx)
	case "DELETE /v1/sync":
		s.releaseCopy(ctx)
	default:
		return false
	}
	return true
}

// methods returns what a path that [server.route] knows takes, "" for another.
func methods(path string) string {
	switch path {
	case "/v1/put", "/v1/query", "/v1/states", "/v1/verify", "/v1/erase", "/v1/purge":
		return "POST"
	case "/v1/retention":
		return "DELETE, GET, HEAD, POST, PUT"
	case "/v1/sync":
		return "DELETE, GET, HEAD, POST"
	case "/v1/records", "/v1/count", "/v1/explain", "/v1/snapshots", "/v1/plugins",
		"/v1/changes", "/v1/diff", "/v1/versions", "/v1/digest":
		return "GET, HEAD, POST"
	case "/v1/latest", "/v1/asof":
		return "GET, HEAD"
	case "/v1/horizon", "/v1/failures", "/v1/quantities", "/v1/events", "/v1/cursors", "/v1/health",
		"/healthz", "/readyz", "/version", "/metrics", "/v1/windows":
		return "GET, HEAD"
	}
	return ""
}

func noRoute(ctx *fasthttp.RequestCtx, path string) {
	if allowed := methods(path); allowed != "" {
		wrongMethod(ctx, path, allowed)
		return
	}
	writeError(ctx, &wire.Error{Kind: wire.KindNotFound, Message: fmt.Sprintf(
		"no route %s %.100s; there are /v1/records, /v1/count, /v1/explain, /v1/plugins, "+
			"/v1/latest, /v1/asof, /v1/diff, /v1/versions, /v1/windows, "+
			"/v1/failures, /v1/quantities, "+
			"/v1/horizon, /v1/changes, /v1/cursors, "+
			"/v1/put, /v1/query, /v1/states, /v1/erase, /v1/purge, /v1/events, /v1/retention, "+
			"/v1/snapshots, /v1/verify, /v1/digest, /v1/sync, /v1/health, /healthz, /readyz, "+
			"/version and /metrics", ctx.Method(), path)})
}

// wrongMethod says which methods a path takes: as an answer to OPTIONS, else as an error.
func wrongMethod(ctx *fasthttp.RequestCtx, path, allowed string) {
	if ctx.IsOptions() {
		ctx.SetStatusCode(http.StatusNoContent)
	} else {
		writeProblem(ctx, http.StatusMethodNotAllowed, &wire.Error{Kind: wire.KindNotFound,
			Message: fmt.Sprintf("%.100s takes %s, not %.20s", path, allowed, ctx.Method())})
	}
	ctx.Response.Header.Set("Allow", allowed)
}

func (s *server) horizon(ctx *fasthttp.RequestCtx) {
	rc, cancel := s.scoped(ctx)
	defer cancel()
	q, err := s.parseBox(ctx, horizonParams)
	h := int64(0)
	if err == nil {
		h, err = s.node.horizonOf(rc, &q.Box)
	}
	if err != nil {
		writeError(ctx, toWire(err))
		return
	}
	writeJSON(ctx, map[string]any{"horizon_ns": h, "horizon": record.FormatNs(h)})
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

// problem is an error for people, RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
	Part   string `json:"part,omitempty"`
	Reason string `json:"reason,omitempty"`

	Fault *wire.Fault   `json:"fault,omitempty"` // in place of part and reason
	Put   *wire.Outcome `json:"put,omitempty"`   // likewise
}

func problemOf(code int, e *wire.Error) problem {
	p := problem{Type: "about:blank", Title: http.StatusText(code), Status: code,
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
