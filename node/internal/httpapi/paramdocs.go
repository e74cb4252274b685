package httpapi

import "github.com/pentad-db/pentad/node/internal/request"

var (
	// queryOptions are the parameters of queries in frames.
	queryOptions = []string{request.ParamPartial, request.ParamFresh, request.ParamRead,
		request.ParamAfter, request.ParamWithin, request.ParamGroups, request.ParamOfGroup}
	putOptions = []string{"previous", "writer", "persistent", "unless_newer"}
)

// required lists the parameters that a route cannot do without.
var required = map[string][]string{
	"GET /v1/asof":            {"at"},
	"GET /v1/diff":            {"from"},
	"GET /v1/windows":         {"every", "agg"},
	"PUT /v1/cursors/NAME":    {"acq"},
	"GET /v1/devices":         {"cid"},
	"POST /v1/devices":        {"cid"},
	"GET /v1/devices/NAME":    {"cid"},
	"PUT /v1/devices/NAME":    {"cid"},
	"PATCH /v1/devices/NAME":  {"cid"},
	"DELETE /v1/devices/NAME": {"cid"},
	"POST /v1/retention":      {"action"},
}

// aboutWhere describes type of routes whose answers have no payloads.
var aboutWhere = paramDoc{"f64|f32|i64|i32|u32|text|base64", "Type of the payloads that `where` " +
	"is about, without which it is rejected; default: as their quantities are declared."}

// paramDocs describes parameters by name, or by path and name where they differ from others.
var paramDocs = map[string]paramDoc{
	"cid": {"", "Tenants: a list of numbers, ranges and names, e.g. `1,3..5` or `acme`."},
	"mid": {"", "Devices: a list of numbers, ranges and, with one tenant, names, e.g. `40..50` " +
		"or `oulu/t7`."},
	"moid": {"", "Quantities: a list of numbers, ranges and names, e.g. `7`; default: all but " +
		"the 16 lowest, which are reserved."},
	"cap": {"", "Capture times: a list of dates, months and ranges, e.g. `2026-03`, `now-24h..`."},
	"acq": {"", "Acquisition times, written as those of capture. Every version is shown."},
	"moving": {"", "Places in `select` are those of the devices when readings were captured, by " +
		"their readings of this quantity, e.g. `location`, with the declared fields lat, lon and " +
		"alt."},
	"moving_age": {"", "How old a location may be, e.g. `1h`; without it a device is where it " +
		"was last."},
	"select": {"", "Only devices of one tenant whose descriptions meet a selector, e.g. " +
		"`type=thermometer, group^=oulu/, !retired`."},
	"view": {"latest|all", "`latest`, the default, shows each reading once; `all` every version."},
	"asof": {"", "Show readings as known at this time, e.g. `now-1h`."},
	"last": {"integer", "Only this many newest readings of each series."},
	"where": {"", "Condition on the fields of payloads as their quantities are declared, e.g. " +
		"`value > -5 and quality = 0`; a payload that is one number or text is `value`; " +
		"`unreadable` finds payloads that do not fit."},
	"filter": {"", "Filter plugin by name, or NAME@DIGEST; up to 8, each sees what those before " +
		"it kept."},
	"filter_params": {"", "Parameters of the filter before it: `name=value,name=value`."},
	"unchecked": {"flag", "Call plugins also where their parameters do not fit the declared " +
		"quantities."},
	"order": {"none|acq|key", "Order of the records; `none` is the default."},
	"limit": {"integer", "Records or groups, at most; 0 for all."},
	"keys":  {"flag", "Leave payloads out."},
	"type": {"f64|f32|i64|i32|u32|text|base64", "How payloads are read and shown; default: as " +
		"their quantities are declared, else base64."},
	"/v1/count type":            aboutWhere,
	"/v1/windows type":          aboutWhere,
	"/v1/plugins/NAME/run type": aboutWhere,
	"format": {"json|ndjson|csv", "Format of the answer: one document with the end; a line for " +
		"each row; a table. The end of the last two is in the trailer `Pentad-End`. Default: by " +
		"`Accept`, else json."},
	"/v1/changes format": {"ndjson|sse", "Format of the answer: lines, or server-sent events. " +
		"Default: by `Accept`, else ndjson."},
	"params": {"", "Parameters of the aggregate: `name=value,name=value`."},
	"group": {"", "What to group by: `cid`, `mid`, `moid`, joined by commas, and " +
		"what descriptions of the devices of a tenant have: `type`, `group`, `group[2]` for the " +
		"path down to its second level, or the key of an attribute."},
	"every": {"", "Width of time spans, e.g. `15m` or `1d`."},
	"agg":   {"", "Aggregate plugin, e.g. `stats`."},
	"tz":    {"", "Time zone, e.g. `Europe/Berlin` or `+05:30`; default UTC."},
	"at":    {"", "Time to show, e.g. `now-1h`."},
	"of": {"versions|diff|changes", "What is explained of the box and the devices: every " +
		"version; what changed, `from` and `to`; the next part of a feed, `since`. Default: " +
		"the records."},
	"from":       {"", "Time from which on changes are listed, e.g. `now-1d`."},
	"to":         {"", "Time up to which changes are listed; default now."},
	"everything": {"flag", "Confirm that no selector means all records."},
	"dry_run":    {"flag", "Change nothing; say what would be done."},
	"since": {"", "Where changes begin: the acq of the last `closed_ns`, a time, or `now`; " +
		"default: the first record."},
	"follow":  {"flag", "Go on with what comes; else the answer ends at the horizon."},
	"beat_ms": {"integer", "How often to say how far the feed is, in ms."},
	"atomic":  {"flag", "Store all records or none."},
	"create":  {"flag", "Create devices by name that are not there."},
	"Idempotency-Key": {"", "Makes it safe to send the same body again: each record is stored " +
		"once. Any text, new for each body, e.g. a UUID; another body under the same key is " +
		"refused with 422."},

	"/v1/windows every":     {"", "Width of windows, e.g. `15min`, `1d`, `1mo`, `1y`."},
	"/v1/cursors/NAME NAME": {"", "Name of the cursor."},
	"/v1/cursors/NAME acq":  {"integer", "Position in ns: the last `closed_ns` of the changes."},
	"/v1/cursors/NAME question": {"", "Digest of what the reader asks for, of letters, digits " +
		"and `._-`. One that the cursor did not have is kept; another one than it has is a " +
		"conflict."},
	"/v1/cursors/NAME force": {"flag", "Also set the cursor back, and its question."},

	"/v1/devices cid":   {"", "Tenant whose devices they are, e.g. `1` or `acme`."},
	"/v1/devices asof":  {"", "What was known before this time, e.g. `now-1h`."},
	"/v1/devices at":    {"", "The descriptions that held at this time; default: the last."},
	"/v1/devices limit": {"integer", "Devices of a page, at most 10,000; default 1,000."},
	"/v1/devices format": {"json|geojson", "Format of the answer: a page of devices, or of " +
		"features. Default: by `Accept`, else json."},
	"/v1/devices next": {"", "Where a page begins: `next` of the page before."},
	"/v1/devices/NAME NAME": {"", "Name of the device in its tenant; it may have slashes. " +
		"GET, and DELETE with purge, also take its id."},
	"/v1/devices/NAME cid":  {"", "Tenant of the device, e.g. `1` or `acme`."},
	"/v1/devices/NAME asof": {"", "What was known before this time, e.g. `now-1h`."},
	"/v1/devices/NAME at": {"", "The name and the description that held at this time; " +
		"default: the last."},
	"/v1/devices/NAME purge": {"flag", "Also remove all readings and the names that it had, for " +
		"ever; an id may be in place of the name."},
	"/v1/devices/NAME unless_newer": {"integer", "`acq_ns` of the device as it was read: fail " +
		"with 409 if its description is newer."},

	"/v1/retention cid":         {"", "Tenant, e.g. `1` or `acme`; default: all."},
	"/v1/retention moid":        {"", "Quantity, e.g. `7` or `energy`; default: all."},
	"/v1/retention cap_age":     {"", "Age since capture after which records expire, e.g. `90d`."},
	"/v1/retention acq_age":     {"", "Age since acquisition after which records expire."},
	"/v1/retention delay":       {"", "How long expired records are hidden before removal."},
	"/v1/retention action":      {"hold|resume|undo", "What to do with the policies."},
	"/v1/retention trust_clock": {"flag", "Resume from what the clock says."},

	"/v1/plugins/NAME NAME":         {"", "Name of the plugin, or NAME@DIGEST for one version."},
	"/v1/plugins/NAME/run NAME":     {"", "Name of the plugin, or NAME@DIGEST for one version."},
	"/v1/plugins/NAME/promote NAME": {"", "NAME@DIGEST of the version."},
	"owner":                         {"", "Who owns the plugin."},
	"description":                   {"", "What the plugin does."},
	"plugin":                        {"", "Only failures of this plugin."},
	"/v1/quantities/NAME NAME":      {"integer", "Number of the quantity (moid)."},
	"/v1/snapshots/NAME NAME":       {"", "Name of the snapshot."},
	"name":                          {"", "Name of the snapshot; default: the time."},
	"rate":                          {"integer", "Bytes read per second, at most."},
	"/v1/verify group":              {"integer", "Group of the segment, in a cluster."},
	"segment":                       {"integer", "Check only this segment."},

	"node":                        {"", "Node, by id or address."},
	"fewer_copies":                {"flag", "Drain although groups will have fewer copies."},
	"copies":                      {"integer", "Copies that a node takes in at a time."},
	"bytes_per_sec":               {"integer", "Bytes of copies that a node sends per second."},
	routeCluster + "/split group": {"", "Number of the group, or `all`."},
	"/v1/put previous":            {"integer", "Sequence of the newest batch of the writer here."},
	"/v1/put writer":              {"", "Writer to ask for, 32 hex digits, without a body."},
	"/v1/put persistent":          {"flag", "The writer is persistent."},
	"/v1/put unless_newer":        {"integer", "Acq: refuse to describe devices with newer ones."},
	request.ParamPartial:          {"|allow", "`allow` leaves out nodes that do not answer."},
	request.ParamFresh:            {"flag", "Read every record, and keep no partial results."},
	request.ParamRead:             {"|linearizable", "See all that was acknowledged before."},
	request.ParamAfter:            {"", "Wait until all records with a lower acq are there."},
	request.ParamWithin:           {"integer", "Milliseconds that the answer may take."},
	request.ParamGroups:           {"", "Of other nodes: groups to read, e.g. `1,4,8`."},
	request.ParamOfGroup:          {"integer", "Only this group of the cluster, from 1 on."},
}
