package node_test

// httpPackages are the packages of HTTP: what the handlers of a node stand on.
func httpPackages() map[string][]string {
	return map[string][]string{
		"node/internal/httpapi": {"sdk/record", "sdk/api", "sdk/wire", "sdk/plugin",
			"node/cluster", "node/store", "node/store/check", "node/store/digest",
			"node/store/event", "node/store/retention", "node/internal/budget",
			"node/internal/calendar", "node/internal/changestream", "node/internal/clock",
			"node/internal/cursors", "node/internal/engine", "node/internal/health",
			"node/internal/httpserver", "node/internal/member", "node/internal/memory",
			"node/internal/nodeerror", "node/internal/openapi", "node/internal/params",
			"node/internal/nodecursors", "node/internal/puts", "node/internal/quantity",
			"node/internal/registry", "node/internal/release", "node/internal/request",
			"node/internal/rowjson", "node/internal/selector", "node/internal/slots",
			"node/internal/snapshots", "node/internal/storewire", "node/internal/strictjson",
			"node/internal/timeparse", "node/internal/verify", "node/internal/writes",
			"github.com/valyala/fasthttp"},
		"node/internal/httpserver": {"sdk/api", "sdk/wire", "node/internal/accept",
			"node/internal/admission", "node/internal/budget", "node/internal/health",
			"node/internal/params", "node/internal/request", "github.com/valyala/fasthttp"},
		"node/internal/params": {"sdk/expr", "sdk/record", "sdk/registry", "sdk/where", "sdk/wire",
			"node/internal/calendar", "node/internal/selector", "node/internal/timeparse",
			"github.com/valyala/fasthttp"},
		"node/internal/rowjson": {"sdk/record", "sdk/registry", "sdk/api", "sdk/wire", "sdk/plugin",
			"node/internal/params", "node/internal/quantity", "node/internal/strictjson",
			"node/internal/timeparse"},
		"node/internal/quantity": {"sdk/plugin"},
		"node/internal/changestream": {"sdk/record", "sdk/wire", "node/internal/quantity",
			"node/internal/rowjson", "node/internal/selector", "node/store", "node/store/event"},
		"node/internal/nodeerror": {"sdk/record", "sdk/api", "sdk/wire", "wasmhost", "node/cluster",
			"node/replica", "node/store", "node/store/manifest", "node/store/retention",
			"node/internal/admission", "node/internal/budget", "node/internal/catalog",
			"node/internal/cursors", "node/internal/durable", "node/internal/member",
			"node/internal/registry", "node/internal/spill", "node/wal"},
		"node/internal/storewire": {"sdk/record", "sdk/api", "sdk/wire", "node/store",
			"node/store/event", "node/store/retention"},
	}
}
