package node

import (
	"net/http"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/valyala/fasthttp"
)

// none are the parameters of a route without any.
var none = []string{}

// route is an [httpserver.Route].
type route httpserver.Route

// routeTable lists the routes of clients and operators.
func (s *server) routeTable() []route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	plain := httpserver.Plain
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
		{del, "/v1/sync", true, none, plain(s.promoteCopy)},
	}
	return slices.Concat(table, s.healthRoutes(), s.clusterRoutes())
}

// healthRoutes lists the routes of monitoring.
func (s *server) healthRoutes() []route {
	plain := httpserver.Plain
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

// serves reports whether this kind of node has something to say at a path.
func (s *server) serves(path string) bool {
	return !(path == routeEdge && s.node.opt.Outbox == nil ||
		strings.HasPrefix(path, routeCluster) && s.node.opt.Cluster.TokenFile == "")
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
