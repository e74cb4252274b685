package node

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// route is one method of one path.
type route struct {
	method  string // GET answers HEAD, too
	path    string // NAME in it is any one name
	mutates bool   // changes something, or keeps the disk busy: refused to web pages
	// params are the parameters in the URL. nil: the handler checks them, since they depend on more
	// than the route.
	params []string
	handle func(ctx *fasthttp.RequestCtx, name string)
}

// none are the parameters of a route without any.
var none = []string{}

// plain is the handler of a route without a NAME.
func plain(handle func(ctx *fasthttp.RequestCtx)) func(*fasthttp.RequestCtx, string) {
	return func(ctx *fasthttp.RequestCtx, _ string) { handle(ctx) }
}

// routeTable lists the routes of clients and operators.
func (s *server) routeTable() []route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	table := []route{
		{get, "/v1/records", false, recordsParams, plain(s.getRecords)},
		{post, "/v1/records", true, postParams, plain(s.postRecords)},
		{get, "/v1/count", false, countParams, plain(s.count)},
		{post, "/v1/count", false, nil, plain(s.countFrame)},
		{get, "/v1/explain", false, recordsParams, plain(s.explain)},
		{post, "/v1/explain", false, nil, plain(s.explainFrame)},
		{get, "/v1/latest", false, latestParams, plain(s.getLatest)},
		{get, "/v1/asof", false, asOfParams, plain(s.getAsOf)},
		{get, "/v1/diff", false, diffParams, plain(s.getDiff)},
		{post, "/v1/diff", false, nil, plain(s.diffFrame)},
		{get, "/v1/versions", false, versionsParams, plain(s.getVersions)},
		{post, "/v1/versions", false, nil, plain(s.versionsFrame)},
		{get, "/v1/windows", false, windowsParams, plain(s.windows)},
		{get, "/v1/horizon", false, horizonParams, plain(s.horizon)},
		{get, "/v1/changes", false, changesParams, plain(s.changes)},
		{post, "/v1/changes", false, followParams, plain(s.changes)},
		{get, "/v1/cursors", false, none, plain(s.listCursors)},
		{get, "/v1/cursors/NAME", false, none, s.getCursor},
		{put, "/v1/cursors/NAME", true, cursorParams, s.putCursor},
		{del, "/v1/cursors/NAME", true, none, s.deleteCursor},

		{post, "/v1/put", true, nil, plain(s.put)},
		{post, "/v1/query", false, nil, plain(s.query)},
		{post, "/v1/states", true, nil, plain(s.states)},
		{post, "/v1/erase", true, nil, plain(s.erase)},
		{post, "/v1/purge", true, nil, plain(s.purge)},
		{get, "/v1/events", false, nil, plain(s.events)},
		{get, "/v1/retention", false, nil, plain(s.retention)},
		{put, "/v1/retention", true, policyParams, plain(s.setRetention)},
		{del, "/v1/retention", true, scopeParams, plain(s.setRetention)},
		{post, "/v1/retention", true, holdParams, plain(s.holdRetention)},

		{get, "/v1/plugins", false, none, plain(s.listPlugins)},
		{post, "/v1/plugins", true, none, plain(s.checkPlugin)},
		{get, "/v1/plugins/NAME", false, none, s.showPlugin},
		{put, "/v1/plugins/NAME", true, pushParams, s.pushPlugin},
		{del, "/v1/plugins/NAME", true, none, s.removePlugin},
		{get, "/v1/plugins/NAME/run", false, runParams, s.runPlugin},
		{post, "/v1/plugins/NAME/run", false, runParams, s.runPlugin},
		{post, "/v1/plugins/NAME/promote", true, none, s.promotePlugin},
		{get, "/v1/failures", false, failureParams, plain(s.listFailures)},
		{get, "/v1/quantities", false, none, plain(s.listQuantities)},
		{put, "/v1/quantities/NAME", true, none, s.putQuantity},
		{del, "/v1/quantities/NAME", true, none, s.deleteQuantity},

		{get, "/v1/snapshots", false, none, plain(s.listSnapshots)},
		{post, "/v1/snapshots", true, snapshotParams, plain(s.createSnapshot)},
		{del, "/v1/snapshots/NAME", true, none, s.deleteSnapshot},
		{post, "/v1/verify", true, verifyParams, plain(s.verify)},
		{get, "/v1/digest", false, digestParams, plain(s.digest)},
		{post, "/v1/digest", false, nil, plain(s.digestFrame)},
		{get, "/v1/sync", false, nil, plain(s.syncState)},
		{post, "/v1/sync", true, nil, plain(s.putRange)},
		{del, "/v1/sync", true, none, plain(s.releaseCopy)},
	}
	return slices.Concat(table, s.healthRoutes(), s.clusterRoutes())
}

// healthRoutes lists the routes of monitoring.
func (s *server) healthRoutes() []route {
	return []route{
		{http.MethodGet, "/healthz", false, nil, plain(s.alive)},
		{http.MethodGet, "/readyz", false, nil, plain(s.ready)},
		{http.MethodGet, "/v1/health", false, nil, plain(s.healthState)},
		{http.MethodGet, "/version", false, nil, plain(s.version)},
		{http.MethodGet, "/metrics", false, nil, plain(s.metrics)},
		{http.MethodGet, routeEdge, false, nil, plain(s.edgeStatus)},
	}
}

// Routes of some nodes only; others say what they are not.
const (
	routeEdge    = "/v1/edge"
	routeCluster = "/v1/cluster"
)

// paths lists the paths of which this kind of node has something to say.
func (s *server) paths() []string {
	return slices.DeleteFunc(slices.Clone(s.routes.paths), func(path string) bool {
		return path == routeEdge && s.node.opt.Outbox == nil ||
			strings.HasPrefix(path, routeCluster) && s.node.opt.Cluster.TokenFile == ""
	})
}

// clusterRoutes lists the routes of cluster operation.
func (s *server) clusterRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	act := func(verb string, params ...string) route {
		return route{post, routeCluster + "/" + verb, true, append(params, paramDryRun),
			func(ctx *fasthttp.RequestCtx, _ string) { s.actOnCluster(ctx, verb) }}
	}
	look := func(path string, show clusterView) route {
		return route{get, routeCluster + path, false, none,
			func(ctx *fasthttp.RequestCtx, _ string) { s.showCluster(ctx, show) }}
	}
	return []route{
		look("", clusterStatus), look("/nodes", clusterNodes), look("/groups", clusterGroups),
		act(member.Drain, paramNode, paramFewer), act(member.Undrain, paramNode),
		act(member.Remove, paramNode), act(member.Rebalance, paramCopies, paramRate),
		act(member.Split, paramGroup), act(member.Raise),
	}
}

// router finds routes.
type router struct {
	exact map[string][]route // by path
	named []route            // those with a NAME
	paths []string           // all, in the order of the table
}

func newRouter(table []route) *router {
	t := &router{exact: map[string][]route{}}
	for _, r := range table {
		if strings.Contains(r.path, "NAME") {
			t.named = append(t.named, r)
		} else {
			t.exact[r.path] = append(t.exact[r.path], r)
		}
		if !slices.Contains(t.paths, r.path) {
			t.paths = append(t.paths, r.path)
		}
	}
	return t
}

// find returns the methods of a path, nil for an unknown one, and the name in it.
func (t *router) find(path string) (methods []route, name string) {
	if methods = t.exact[path]; methods != nil {
		return methods, ""
	}
	for _, r := range t.named {
		before, after, _ := strings.Cut(r.path, "NAME")
		rest, ok := strings.CutPrefix(path, before)
		if !ok {
			continue
		}
		of, ok := strings.CutSuffix(rest, after)
		if ok && !strings.Contains(of, "/") {
			methods, name = append(methods, r), of
		}
	}
	return methods, name
}

// route calls the handler of a request. Paths that are not in the table are those of nodes of a
// cluster among each other.
func (s *server) route(ctx *fasthttp.RequestCtx) {
	method, path := string(ctx.Method()), string(ctx.Path())
	if method == http.MethodHead {
		method = http.MethodGet // fasthttp leaves the body out
	}
	methods, name := s.routes.find(path)
	at := slices.IndexFunc(methods, func(r route) bool { return r.method == method })
	mutates := method != http.MethodGet && method != http.MethodOptions
	if at >= 0 {
		mutates = methods[at].mutates
	}
	if mutates && isFromWebPage(ctx) {
		rejectWebPage(ctx)
		return
	}
	err := s.checkOptions(ctx.QueryArgs())
	if err == nil && at >= 0 && methods[at].params != nil {
		err = checkParams(ctx.QueryArgs(), methods[at].params)
	}
	coding := string(ctx.Request.Header.ContentEncoding())
	switch {
	case err != nil:
		writeError(ctx, toWire(err))
	case coding != "" && coding != "identity":
		writeProblem(ctx, http.StatusUnsupportedMediaType, &wire.Error{Kind: wire.KindInvalid,
			Part: "body", Message: fmt.Sprintf("Content-Encoding %q is not supported; send the "+
				"body uncompressed", clip(coding))})
	case at >= 0:
		methods[at].handle(ctx, name)
	case methods != nil:
		wrongMethod(ctx, methods)
	case strings.HasPrefix(path, routeCluster) && s.askMember(ctx, method, path):
	default:
		writeError(ctx, &wire.Error{Kind: wire.KindNotFound, Message: fmt.Sprintf(
			"no route %s %.100s; there are %s", ctx.Method(), path,
			strings.Join(s.paths(), ", "))})
	}
}

// wrongMethod answers with the methods of a path: OPTIONS with success, else with an error.
func wrongMethod(ctx *fasthttp.RequestCtx, methods []route) {
	var list []string
	for _, r := range methods {
		list = append(list, r.method)
		if r.method == http.MethodGet {
			list = append(list, http.MethodHead)
		}
	}
	slices.Sort(list)
	allowed := strings.Join(list, ", ")
	if ctx.IsOptions() {
		ctx.SetStatusCode(http.StatusNoContent)
	} else {
		writeError(ctx, &wire.Error{Kind: wire.KindMethodNotAllowed, Message: fmt.Sprintf(
			"%s takes %s, not %.20s", methods[0].path, allowed, ctx.Method())})
	}
	ctx.Response.Header.Set("Allow", allowed)
}
