package node

import (
	"net"
	"runtime/debug"
	"strings"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/memory"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/valyala/fasthttp"
)

// Requests that arrive or are being stored have a bodiesPart-th of the node's memory, at most
// mostBodies. Released memory is available at once, although it is not collected yet.
const (
	bodiesPart = 12
	mostBodies = 512 << 20
)

// server has the handlers of a node.
type server struct {
	node   *Node
	http   *httpserver.Server
	bodies *budget.Budget // of requests
}

func newServer(n *Node, l net.Listener, hosts httpserver.Hosts) *server {
	s := &server{node: n, bodies: budget.New(
		memory.Total(n.opt.MemoryBytes).Part(bodiesPart, mostBodies))}
	monitors := map[string]bool{}
	for _, r := range s.healthRoutes() {
		monitors[r.Path] = true
	}
	var routes []httpserver.Route
	for _, r := range s.routeTable() {
		routes = append(routes, httpserver.Route(r))
	}
	s.http = httpserver.New(l, httpserver.Options{
		Hosts:  hosts,
		Bodies: s.bodies,
		Log:    n.log,
		Routes: routes,
		Check: func(args *fasthttp.Args) error {
			if err := s.checkOptions(args); err != nil {
				return toWire(err)
			}
			return nil
		},
		Other: func(ctx *fasthttp.RequestCtx, method, path string) bool {
			return strings.HasPrefix(path, routeCluster) && s.askMember(ctx, method, path)
		},
		Serves:   s.serves,
		Monitors: func(path string) bool { return monitors[path] },
		Answered: n.metrics.request,
	})
	return s
}

func (s *server) version(ctx *fasthttp.RequestCtx) {
	httpserver.WriteJSON(ctx, map[string]string{"name": "pentad", "version": version()})
}

func (s *server) metrics(ctx *fasthttp.RequestCtx) { s.node.metrics.handler(s.node)(ctx) }

func (s *server) horizon(ctx *fasthttp.RequestCtx) {
	rc, asked, cancel := s.requestContext(ctx)
	defer cancel()
	q, err := s.parseQuery(ctx)
	h := int64(0)
	if err == nil {
		h, err = s.node.engine.Horizon(rc, asked, &q.Box)
	}
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	httpserver.WriteJSON(ctx, api.Horizon{HorizonNs: h, Horizon: record.FormatNs(h)})
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}
