package node_test

// commandPackages are the packages of the command line: what its commands share, and the commands
// that have packages of their own.
func commandPackages() map[string][]string {
	const pkg = "node/cmd/pentad/internal/"
	const cobra = "github.com/spf13/cobra"
	return map[string][]string{
		pkg + "cli": {"sdk/client", "sdk/record", "sdk/registry", "sdk/wire", "node/cluster",
			"node/internal/durable", "node/internal/formats", "node/internal/member",
			"node/internal/timeparse", pkg + "exchange", pkg + "nodesync", pkg + "output",
			"sdk/excerpt", cobra, "github.com/spf13/pflag", "github.com/schollz/progressbar/v3"},
		pkg + "queryflags": {"sdk/client", "sdk/plugin", "sdk/record", "sdk/registry", "sdk/wire",
			"node/internal/calendar", "node/internal/quantity", "node/internal/selector",
			"node/internal/timeparse", pkg + "cli", pkg + "csvimport", pkg + "output",
			"sdk/excerpt", "sdk/where", cobra},
		pkg + "input": {"sdk/record", "node/internal/quantity", "node/internal/strictjson",
			"node/internal/timeparse", pkg + "cli", pkg + "csvimport", pkg + "exchange",
			pkg + "output"},
		pkg + "devicefile": {"sdk/client", "sdk/record", "sdk/registry",
			"node/internal/timeparse", pkg + "csvimport", "sdk/excerpt"},
		pkg + "command/bench": {"sdk/client", "sdk/record", "sdk/wire", pkg + "cli",
			pkg + "csvimport", pkg + "input", pkg + "load", pkg + "output",
			pkg + "queryflags", cobra},
		pkg + "command/plugins": {"sdk/api", "sdk/client", "sdk/plugin", "sdk/record", "sdk/wire",
			"node/internal/calendar", "node/internal/quantity", "node/internal/timeparse",
			pkg + "cli", pkg + "input", pkg + "offline", pkg + "output", pkg + "queryflags", cobra},
		pkg + "sealer": {"sdk/client", "sdk/plugin", "sdk/record", "sdk/seal",
			"node/internal/quantity", pkg + "cli", cobra},
		pkg + "command/sealing": {"sdk/client", "sdk/plugin", "sdk/record", "sdk/seal", "sdk/wire",
			"node/internal/calendar", "node/internal/selector", "node/internal/strictjson",
			"node/internal/timeparse",
			pkg + "cli", pkg + "csvimport", pkg + "input", pkg + "output", pkg + "queryflags",
			pkg + "sealer", "sdk/excerpt", cobra},
		pkg + "command/transfer": {"sdk/client", "sdk/plugin", "sdk/record", "sdk/registry",
			"sdk/seal", "sdk/wire", "node/internal/durable", "node/internal/quantity",
			"node/internal/selector",
			"node/internal/timeparse", "sdk/where",
			pkg + "arrowfile", pkg + "cli", pkg + "csvimport", pkg + "exchange", pkg + "input",
			pkg + "output", pkg + "parquetfile", pkg + "queryflags", pkg + "sealer", cobra},
		pkg + "command/files": {"sdk/api", "sdk/client", "sdk/record", "node/internal/audit",
			"node/internal/durable", "node/segment", "node/store", pkg + "cli", pkg + "output",
			cobra},
		pkg + "command/backup": {"sdk/client", "sdk/wire", "node", "node/store",
			"node/internal/catalog", "node/internal/cursors", "node/internal/member", pkg + "cli",
			pkg + "command/files", pkg + "nodesync", pkg + "output", cobra},
	}
}
