package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/openapi"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/rowjson"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/plugin"
)

// none are the parameters of a route without any.
var none = []string{}

// route is an [httpserver.Route], and what /openapi.json says of it.
type route struct {
	Method, Path string
	Mutates      bool
	Params       []string
	Handle       func(*httpserver.Request)
	says         says
}

// routeTable lists all routes.
func (s *Server) routeTable() []route {
	return slices.Concat(s.readRoutes(), s.writeRoutes(), s.pluginRoutes(), s.deviceRoutes(),
		s.copyRoutes(), s.healthRoutes(), s.clusterRoutes())
}

// readRoutes lists the routes of queries and changes.
func (s *Server) readRoutes() []route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	return []route{
		{get, "/v1/records", false, recordsParams, s.getRecords,
			says{"List records", nil, rows{"records", rowjson.Row{}}, nil}},
		{post, "/v1/query", false, nil, s.query,
			says{"Query records or groups",
				frame("query"), frame("rows or groups, end"), queryOptions}},
		{post, "/v1/states", true, nil, s.states,
			says{"List states of groups", frame("query"), frame("states, end"), queryOptions}},
		{get, "/v1/count", false, countParams, s.count, says{"Count records", nil, counted{}, nil}},
		{post, "/v1/count", false, nil, s.countFrame,
			says{"Count records, in frames", frame("query"), frame("end"), queryOptions}},
		{get, "/v1/explain", false, explainParams, s.explain,
			says{"Explain what a query reads", nil, api.Explanation{}, nil}},
		{post, "/v1/explain", false, nil, s.explainFrame,
			says{"Explain a query frame", frame("query"), api.Explanation{},
				append([]string{"of", "from", "to", "since"}, queryOptions...)}},
		{get, "/v1/latest", false, latestParams, s.getLatest,
			says{"List the latest version of each reading",
				nil, rows{"records", rowjson.Row{}}, nil}},
		{get, "/v1/asof", false, asOfParams, s.getAsOf,
			says{"List records as known at a past time",
				nil, rows{"records", rowjson.Row{}}, nil}},
		{get, "/v1/diff", false, diffParams, s.getDiff,
			says{"List what changed between two times",
				nil, rows{"differences", rowjson.Difference{}}, nil}},
		{post, "/v1/diff", false, nil, s.diffFrame,
			says{"List what changed, in frames",
				frame("diff"), frame("differences, end"), queryOptions}},
		{get, "/v1/versions", false, versionsParams, s.getVersions,
			says{"List every version of readings", nil, rows{"versions", rowjson.Version{}}, nil}},
		{post, "/v1/versions", false, nil, s.versionsFrame,
			says{"List every version, in frames",
				frame("box"), frame("versions, end"), queryOptions}},
		{get, "/v1/windows", false, windowsParams, s.windows,
			says{"Aggregate by windows of a calendar", nil, windowed{}, nil}},
		{get, "/v1/horizon", false, horizonParams, s.horizon,
			says{"Show the acq below which a box no longer changes", nil, api.Horizon{}, nil}},
		{get, "/v1/changes", false, changesParams, s.changes,
			says{"Follow changes", nil, changeLines{}, nil}},
		{post, "/v1/changes", false, followParams, s.changes,
			says{"Follow changes, in frames", frame("query"), frame("rows, change, closed"), nil}},
		{get, "/v1/cursors", false, none, s.listCursors,
			says{"List cursors", nil, api.Cursors{}, nil}},
		{get, "/v1/cursors/NAME", false, none, s.getCursor,
			says{"Show a cursor", nil, api.Cursor{}, nil}},
		{put, "/v1/cursors/NAME", true, cursorParams, s.putCursor,
			says{"Store the position of a reader of changes", nil, api.Cursor{}, nil}},
		{del, "/v1/cursors/NAME", true, none, s.deleteCursor,
			says{"Remove a cursor", nil, removedName{}, nil}},
	}
}

// writeRoutes lists the routes of puts, deletes and retention.
func (s *Server) writeRoutes() []route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	return []route{
		{post, "/v1/records", true, postParams, s.postRecords,
			says{"Store records", recordsBody{}, written{}, nil}},
		{post, "/v1/put", true, nil, s.put,
			says{"Store a batch", frame("put"), frame("put reply"), putOptions}},
		{post, "/v1/erase", true, nil, s.erase,
			says{"Hide the records of a box", either{"box"}, either{"event"}, deleteParams}},
		{post, "/v1/purge", true, nil, s.purge,
			says{"Remove the records of a box for ever",
				either{"box"}, either{"event"}, deleteParams}},
		{get, "/v1/events", false, nil, s.events,
			says{"List erases, purges and retention steps", nil, api.Events{}, nil}},
		{get, "/v1/retention", false, nil, s.retention,
			says{"List retention policies", nil, api.Policies{}, nil}},
		{put, "/v1/retention", true, policyParams, s.setRetention,
			says{"Set a retention policy", nil, dryOr{api.Retention{}}, nil}},
		{del, "/v1/retention", true, scopeParams, s.setRetention,
			says{"Remove a retention policy", nil, api.Retention{}, nil}},
		{post, "/v1/retention", true, holdParams, s.holdRetention,
			says{"Hold, resume or undo retention", nil, heldAction{}, nil}},
	}
}

// pluginRoutes lists the routes of plugins and quantities.
func (s *Server) pluginRoutes() []route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	return []route{
		{get, "/v1/plugins", false, none, s.listPlugins,
			says{"List plugins", nil, api.Plugins{}, nil}},
		{post, "/v1/plugins", true, none, s.checkPlugin,
			says{"Check a plugin without storing it", module{}, api.PluginDetails{}, nil}},
		{get, "/v1/plugins/NAME", false, none, s.showPlugin,
			says{"Show a plugin", nil, api.PluginDetails{}, nil}},
		{put, "/v1/plugins/NAME", true, pushParams, s.pushPlugin,
			says{"Upload a plugin", module{}, api.PluginInfo{}, nil}},
		{del, "/v1/plugins/NAME", true, none, s.removePlugin,
			says{"Remove a plugin, or one version as NAME@DIGEST", nil, api.Removed{}, nil}},
		{get, "/v1/plugins/NAME/run", false, runParams, s.runPlugin,
			says{"Run an aggregate plugin", nil, grouped{}, nil}},
		{post, "/v1/plugins/NAME/run", false, runParams, s.runPlugin,
			says{"Run an aggregate plugin, or an uploaded module", module{}, grouped{}, nil}},
		{post, "/v1/plugins/NAME/promote", true, none, s.promotePlugin,
			says{"Make a version of a plugin the current one", nil, api.PluginInfo{}, nil}},
		{get, "/v1/failures", false, failureParams, s.listFailures,
			says{"List queries that plugins failed", nil, api.PluginFailures{}, nil}},
		{get, "/v1/quantities", false, []string{request.ParamRead}, s.listQuantities,
			says{"List declared quantities", nil, quantities{}, nil}},
		{put, "/v1/quantities/NAME", true, none, s.putQuantity,
			says{"Declare a quantity", declaration{}, plugin.Quantity{}, nil}},
		{del, "/v1/quantities/NAME", true, none, s.deleteQuantity,
			says{"Remove the declaration of a quantity", nil, removedMOID{}, nil}},
	}
}

// copyRoutes lists the routes of snapshots, checks and copies.
func (s *Server) copyRoutes() []route {
	const get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
	return []route{
		{get, "/v1/snapshots", false, none, s.listSnapshots,
			says{"List snapshots", nil, api.Snapshots{}, nil}},
		{post, "/v1/snapshots", true, snapshotParams, s.createSnapshot,
			says{"Make a snapshot", nil, api.Snapshot{}, nil}},
		{del, "/v1/snapshots/NAME", true, none, s.deleteSnapshot,
			says{"Remove a snapshot", nil, removedName{}, nil}},
		{post, "/v1/verify", true, verifyParams, s.verify,
			says{"Read and check all files", nil, lines{api.VerifyLine{}}, nil}},
		{get, "/v1/digest", false, digestParams, s.digest,
			says{"Show a checksum of records", nil, digestAnswer{}, nil}},
		{post, "/v1/digest", false, nil, s.digestFrame,
			says{"Show checksums of records, in frames",
				frame("digest query"), frame("digests"), queryOptions}},
		{get, "/v1/sync", false, nil, s.syncState,
			says{"Show the state of a copy", nil, syncAnswer{}, []string{request.ParamAfter}}},
		{post, "/v1/sync", true, nil, s.putRange,
			says{"Store a range of a copy",
				frame("range"), frame("event"), []string{request.ParamOfGroup}}},
		{del, "/v1/sync", true, none, s.promoteCopy,
			says{"Promote a copy to an independent node", nil, syncAnswer{}, nil}},
	}
}

// healthRoutes lists the routes of monitoring.
func (s *Server) healthRoutes() []route {
	return []route{
		{http.MethodGet, "/", false, none, s.front,
			says{"Say in a few lines what this is and which routes to try", nil, text{}, nil}},
		{http.MethodGet, "/healthz", false, nil, s.alive,
			says{"Say whether a restart would help", nil, api.Readiness{}, nil}},
		{http.MethodGet, "/readyz", false, nil, s.ready,
			says{"Say whether the node should get requests", nil, api.Readiness{}, nil}},
		{http.MethodGet, "/v1/health", false, nil, s.healthState,
			says{"List all problems", nil, api.Health{}, nil}},
		{http.MethodGet, "/version", false, nil, s.version,
			says{"Show the version of the program", nil, versionAnswer{}, nil}},
		{http.MethodGet, "/metrics", false, nil, s.metrics,
			says{"Show metrics for Prometheus", nil, text{}, nil}},
		{http.MethodGet, "/openapi.json", false, none, s.openAPI,
			says{"Show this description", nil, openapi.Schema{"type": "object"}, nil}},
		{http.MethodGet, routeEdge, false, nil, s.edgeStatus,
			says{"Show the shipping of an edge node", nil, api.Shipping{}, nil}},
	}
}

// Routes of some nodes only; others say what they are not.
const (
	routeEdge    = "/v1/edge"
	routeCluster = "/v1/cluster"
)

// serves reports whether this kind of node has something to say at a path.
func (s *Server) serves(path string) bool {
	return !(path == routeEdge && s.Shipper == nil ||
		strings.HasPrefix(path, routeCluster) && !s.opt.InCluster)
}

// clusterRoutes lists the routes of cluster operation.
func (s *Server) clusterRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	act := func(verb, text string, params ...string) route {
		return route{post, routeCluster + "/" + verb, true, append(params, paramDryRun),
			func(req *httpserver.Request) { s.actOnCluster(req, verb) },
			says{text, nil, api.ClusterPreview{}, nil}}
	}
	look := func(path, text string, show clusterView, gives any) route {
		return route{get, routeCluster + path, false, none,
			func(req *httpserver.Request) { s.showCluster(req, show) },
			says{text, nil, gives, nil}}
	}
	return []route{
		look("", "Show the cluster", clusterStatus, api.Cluster{}),
		look("/nodes", "List the nodes of the cluster", clusterNodes, api.ClusterNodes{}),
		look("/groups", "List the groups and their copies", clusterGroups, api.ClusterGroups{}),
		act(member.Drain, "Move all copies away from a node", paramNode, paramFewer),
		act(member.Undrain, "Give a node copies again", paramNode),
		act(member.Remove, "Remove a node", paramNode),
		act(member.Rebalance, "Set how fast copies move", paramCopies, paramRate),
		act(member.Split, "Split one group, or all groups, in two", paramGroup),
		act(member.Raise, "Raise the feature level of the cluster"),
	}
}
