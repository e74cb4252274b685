// Package httpapi is the HTTP interface of a node: its table of routes, and their handlers, which
// parse requests, call the parts of the node and write answers as frames or JSON.
//
// It knows nothing of how the parts are made, queries run, rows are written or groups agree, and
// leaves connections to [httpserver.Server]. Its main type is [Server], which starts no goroutines
// of its own.
package httpapi

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/memory"
	"github.com/pentad-db/pentad/node/internal/nodecursors"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/internal/release"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/snapshots"
	"github.com/pentad-db/pentad/node/internal/verify"
	"github.com/pentad-db/pentad/node/internal/writes"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
)

// Requests that arrive or are being stored have a bodiesPart-th of the node's memory, at most
// mostBodies. Released memory is available at once, although it is not collected yet.
const (
	bodiesPart = 12
	// A body has a bodyPart-th at most, and leastBody if that is more: with it some five times as
	// much is in memory.
	bodyPart   = 16
	leastBody  = 4 << 20
	mostBodies = 512 << 20
	// feedCost is what a reader of changes costs that takes nothing, beside its slice.
	feedCost  = 32 << 10
	mostFeeds = 1 << 14
)

// Parts are the parts of a node that handlers call. All are needed unless they say otherwise; they
// stay the caller's, and are closed after the server has ended.
type Parts struct {
	Engine    *engine.Engine
	Writes    *writes.Dispatcher
	Plugins   *registry.Registry
	Cursors   *nodecursors.Cursors
	Snapshots *snapshots.Folder
	Verifier  *verify.Verifier
	Clock     *clock.Clock
	Member    *atomic.Pointer[member.Member] // holds nil until the node has joined its cluster
	Shipper   Shipper                        // nil: the node is not an edge node
}

// Shipper says how the shipping of an edge node goes.
type Shipper interface {
	// Status returns the state of shipping, for JSON.
	Status() any
}

// Options of a server. All fields are needed.
type Options struct {
	Hosts       httpserver.Hosts // names that requests may have
	InCluster   bool             // the node is to be a member of a cluster
	MemoryBytes int64            // of the node
	Log         *slog.Logger
	Open        context.Context // ends when the node begins to close
	// Problems returns the current problems of the node.
	Problems func() []health.Problem
	// Metrics answers /metrics.
	Metrics http.Handler
	// Answered is called after the handler of each request.
	Answered func(status int, took time.Duration)
}

// Server serves the HTTP interface of a node. All methods may be called from many goroutines.
type Server struct {
	Parts
	opt    Options
	http   *httpserver.Server
	bodies *budget.Budget // of requests
}

// New returns a server of a listener, which it owns from then on. Serve begins.
func New(l net.Listener, parts Parts, opt Options) *Server {
	total := memory.Total(opt.MemoryBytes)
	s := &Server{Parts: parts, opt: opt, bodies: httpserver.NewBodies(
		total.Part(bodiesPart, mostBodies), max(leastBody, total.Part(bodyPart, mostBodies)))}
	monitors := map[string]bool{}
	for _, r := range s.healthRoutes() {
		monitors[r.Path] = true
	}
	var routes []httpserver.Route
	for _, r := range s.routeTable() {
		routes = append(routes, httpserver.Route{Method: r.Method, Path: r.Path,
			Mutates: r.Mutates, Params: r.Params, Handle: r.Handle,
			Deep: strings.HasPrefix(r.Path, routeDevices+"/")})
	}
	s.http = httpserver.New(l, httpserver.Options{
		Hosts:  opt.Hosts,
		Bodies: s.bodies,
		Log:    opt.Log,
		Routes: routes,
		Parse:  s.parseOptions,
		Other: func(ctx *fasthttp.RequestCtx, method, path string) bool {
			return strings.HasPrefix(path, routeCluster) && s.askMember(ctx, method, path)
		},
		MaxFeeds:   int(min(parts.Engine.Limits.FeedBytes/feedCost, mostFeeds)),
		FeedsShort: parts.Engine.FeedsShort,
		Serves:     s.serves,
		Monitors:   func(path string) bool { return monitors[path] },
		Answered:   opt.Answered,
	})
	return s
}

// Serve serves until Shutdown.
func (s *Server) Serve() error { return s.http.Serve() }

// Shutdown stops accepting, waits for running requests and, when ctx ends, gives them up.
func (s *Server) Shutdown(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Addr returns the address that is served.
func (s *Server) Addr() net.Addr { return s.http.Addr() }

// Problems returns the problems of the listener.
func (s *Server) Problems() []health.Problem { return s.http.Problems() }

// Feeds returns the number of connected feeds.
func (s *Server) Feeds() int { return s.http.Feeds() }

// RequestBytes returns the memory of requests that arrive or are being stored.
func (s *Server) RequestBytes() int64 { return s.bodies.Used() }

// closing reports whether the node has begun to close.
func (s *Server) closing() bool { return s.opt.Open.Err() != nil }

// fail answers with an error.
func fail(req *httpserver.Request, err error) { req.Fail(nodeerror.ToWire(err)) }

// reply answers with the result of a call.
func reply(req *httpserver.Request, v any, err error) {
	if err != nil {
		fail(req, err)
		return
	}
	req.JSON(v)
}

func (s *Server) version(req *httpserver.Request) {
	b := release.Read()
	req.JSON(versionAnswer{Name: "pentad", Version: b.Version, Commit: b.Commit})
}

func (s *Server) metrics(req *httpserver.Request) {
	fasthttpadaptor.NewFastHTTPHandler(s.opt.Metrics)(req.RequestCtx)
}

func (s *Server) horizon(req *httpserver.Request) {
	rc, cancel := s.requestContext(req)
	defer cancel()
	q, err := s.parseQuery(req)
	h := int64(0)
	if err == nil {
		h, err = s.Engine.Horizon(rc, req.Options, &q.Box)
	}
	reply(req, api.Horizon{HorizonNs: h, Horizon: record.FormatNs(h)}, err)
}

// horizonOfAll returns the horizon of all records.
func (s *Server) horizonOfAll(ctx context.Context) (int64, error) {
	return s.Engine.Horizon(ctx, request.Options{}, &record.Box{})
}
