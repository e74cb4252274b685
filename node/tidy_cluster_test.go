package node_test

// clusterPackages is the part of packages for what several nodes have together.
func clusterPackages() map[string][]string {
	return map[string][]string{
		"node/internal/slots":   {"sdk/record", "github.com/zeebo/xxh3"},
		"node/internal/request": {"node/cluster", "node/internal/slots"},
		"node/internal/writes": {"sdk/record", "sdk/api", "sdk/wire", "node/cluster",
			"node/internal/member", "node/internal/nodeerror", "node/internal/puts",
			"node/internal/request", "node/internal/slots", "node/replica", "node/segment",
			"node/store", "node/store/retention"},
		"node/internal/engine": {"sdk/record", "sdk/api", "sdk/wire", "sdk/plugin", "sdk/client",
			"wasmhost", "node/cluster", "node/replica", "node/segment", "node/store",
			"node/store/check", "node/store/event", "node/store/retention",
			"node/internal/admission", "node/internal/aggregate", "node/internal/calendar",
			"node/internal/clock", "node/internal/cpushare", "node/internal/feed",
			"node/internal/hedge", "node/internal/member", "node/internal/nodeerror",
			"node/internal/params", "node/internal/partials", "node/internal/puts",
			"node/internal/registry", "node/internal/request", "node/internal/selector",
			"node/internal/slots", "node/internal/spill", "node/internal/storewire"},
		"node/internal/machine": {"node/replica", "node/store", "node/internal/durable"},
		"node/internal/member": {"sdk/api", "sdk/wire", "node/cluster", "node/replica",
			"node/segment", "node/store", "node/internal/machine", "node/internal/catalog",
			"node/internal/cursors", "node/internal/accept", "node/internal/clock",
			"node/internal/health", "node/internal/durable", "node/internal/journal",
			"node/internal/memory", "node/internal/slots"},
		"node/edge": {"sdk/record", "sdk/api", "sdk/wire", "sdk/client", "node", "node/store",
			"node/segment", "node/cluster", "node/internal/durable", "node/internal/formats",
			"node/internal/health", "node/internal/journal"},
		"node/internal/audit": {"sdk/api", "node/cluster", "node/edge", "node/internal/catalog",
			"node/internal/cursors", "node/internal/formats", "node/internal/member",
			"node/replica", "node/segment", "node/store"},
		"node/cluster": {"sdk/record", "sdk/plugin", "golang.org/x/sys",
			"node/internal/catalog", "node/internal/cursors", "node/internal/durable",
			"node/internal/formats", "node/internal/journal",
			"node/internal/slots",
			"github.com/hashicorp/memberlist", "github.com/zeebo/xxh3"},
	}
}
