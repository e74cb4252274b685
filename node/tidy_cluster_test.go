package node_test

// clusterRooms is the part of rooms for what several nodes have together.
func clusterRooms() map[string][]string {
	return map[string][]string{
		"node/internal/slots":   {"sdk/record", "github.com/zeebo/xxh3"},
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
