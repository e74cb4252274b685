package node_test

// gateways is the part of packages for foreign protocols: each of them talks to an interface that
// the node fits, and not to the node.
func gateways() map[string][]string {
	return map[string][]string{
		"node/gateway/tstorage": {"sdk/record", "sdk/wire", "node/store", "node/internal/accept",
			"node/internal/budget", "node/internal/health", "node/internal/spill"},
	}
}
