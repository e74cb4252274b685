package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/member"
)

// none are the parameters of a route without any.
var none = []string{}

// route is an [httpserver.Route].
type route httpserver.Route

// routeTable lists the routes of clients and operators.
func (s *Server) routeTable() []route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	table := []route{
		{get, "/v1/records", false, recordsParams, s.getRecords},
		{post, "/v1/records", true, postParams, s.postRecords},
		{get, "/v1/count", false, countParams, s.count},
		{post, "/v1/count", false, nil, s.countFrame},
		{get, "/v1/explain", false, recordsParams, s.explain},
		{post, "/v1/explain", false, nil, s.explainFrame},
		{get, "/v1/latest", false, latestParams, s.getLatest},
		{get, "/v1/asof", false, asOfParams, s.getAsOf},
		{get, "/v1/diff", false, diffParams, s.getDiff},
		{post, "/v1/diff", false, nil, s.diffFrame},
		{get, "/v1/versions", false, versionsParams, s.getVersions},
		{post, "/v1/versions", false, nil, s.versionsFrame},
		{get, "/v1/windows", false, windowsParams, s.windows},
		{get, "/v1/horizon", false, horizonParams, s.horizon},
		{get, "/v1/changes", false, changesParams, s.changes},
		{post, "/v1/changes", false, followParams, s.changes},
		{get, "/v1/cursors", false, none, s.listCursors},
		{get, "/v1/cursors/NAME", false, none, s.getCursor},
		{put, "/v1/cursors/NAME", true, cursorParams, s.putCursor},
		{del, "/v1/cursors/NAME", true, none, s.deleteCursor},

		{post, "/v1/put", true, nil, s.put},
		{post, "/v1/query", false, nil, s.query},
		{post, "/v1/states", true, nil, s.states},
		{post, "/v1/erase", true, nil, s.erase},
		{post, "/v1/purge", true, nil, s.purge},
		{get, "/v1/events", false, nil, s.events},
		{get, "/v1/retention", false, nil, s.retention},
		{put, "/v1/retention", true, policyParams, s.setRetention},
		{del, "/v1/retention", true, scopeParams, s.setRetention},
		{post, "/v1/retention", true, holdParams, s.holdRetention},

		{get, "/v1/plugins", false, none, s.listPlugins},
		{post, "/v1/plugins", true, none, s.checkPlugin},
		{get, "/v1/plugins/NAME", false, none, s.showPlugin},
		{put, "/v1/plugins/NAME", true, pushParams, s.pushPlugin},
		{del, "/v1/plugins/NAME", true, none, s.removePlugin},
		{get, "/v1/plugins/NAME/run", false, runParams, s.runPlugin},
		{post, "/v1/plugins/NAME/run", false, runParams, s.runPlugin},
		{post, "/v1/plugins/NAME/promote", true, none, s.promotePlugin},
		{get, "/v1/failures", false, failureParams, s.listFailures},
		{get, "/v1/quantities", false, none, s.listQuantities},
		{put, "/v1/quantities/NAME", true, none, s.putQuantity},
		{del, "/v1/quantities/NAME", true, none, s.deleteQuantity},

		{get, "/v1/snapshots", false, none, s.listSnapshots},
		{post, "/v1/snapshots", true, snapshotParams, s.createSnapshot},
		{del, "/v1/snapshots/NAME", true, none, s.deleteSnapshot},
		{post, "/v1/verify", true, verifyParams, s.verify},
		{get, "/v1/digest", false, digestParams, s.digest},
		{post, "/v1/digest", false, nil, s.digestFrame},
		{get, "/v1/sync", false, nil, s.syncState},
		{post, "/v1/sync", true, nil, s.putRange},
		{del, "/v1/sync", true, none, s.promoteCopy},
	}
	return slices.Concat(table, s.healthRoutes(), s.clusterRoutes())
}

// healthRoutes lists the routes of monitoring.
func (s *Server) healthRoutes() []route {
	return []route{
		{http.MethodGet, "/", false, none, s.front},
		{http.MethodGet, "/healthz", false, nil, s.alive},
		{http.MethodGet, "/readyz", false, nil, s.ready},
		{http.MethodGet, "/v1/health", false, nil, s.healthState},
		{http.MethodGet, "/version", false, nil, s.version},
		{http.MethodGet, "/metrics", false, nil, s.metrics},
		{http.MethodGet, routeEdge, false, nil, s.edgeStatus},
	}
}

// Routes of some nodes only; others say what they are not.
const (
	routeEdge    = "/v1/edge"
	routeCluster = "/v1/cluster"
)

// serves reports whether this kind of node has something to say at a path.
func (s *Server) serves(path string) bool {
	return !(path == routeEdge && s.Outbox == nil ||
		strings.HasPrefix(path, routeCluster) && !s.opt.InCluster)
}

// clusterRoutes lists the routes of cluster operation.
func (s *Server) clusterRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	act := func(verb string, params ...string) route {
		return route{post, routeCluster + "/" + verb, true, append(params, paramDryRun),
			func(req *httpserver.Request) { s.actOnCluster(req, verb) }}
	}
	look := func(path string, show clusterView) route {
		return route{get, routeCluster + path, false, none,
			func(req *httpserver.Request) { s.showCluster(req, show) }}
	}
	return []route{
		look("", clusterStatus), look("/nodes", clusterNodes), look("/groups", clusterGroups),
		act(member.Drain, paramNode, paramFewer), act(member.Undrain, paramNode),
		act(member.Remove, paramNode), act(member.Rebalance, paramCopies, paramRate),
		act(member.Split, paramGroup), act(member.Raise),
	}
}
