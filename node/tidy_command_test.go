package node_test

// commandRooms are the rooms of the command line: what its commands share, and the commands that
// have rooms of their own.
func commandRooms() map[string][]string {
	const room = "node/cmd/pentad/internal/"
	const cobra = "github.com/spf13/cobra"
	return map[string][]string{
		room + "cli": {"sdk/client", "sdk/record", "sdk/wire", "node/cluster", "node/segment",
			"node/internal/durable", "node/internal/formats", "node/internal/member",
			"node/internal/timeparse", room + "exchange", room + "nodesync", room + "output", cobra,
			"github.com/schollz/progressbar/v3"},
		room + "queryflags": {"sdk/client", "sdk/plugin", "sdk/record", "sdk/wire",
			"node/internal/selector", "node/internal/timeparse", room + "cli", room + "output",
			cobra},
		room + "input": {"sdk/record", "node/internal/strictjson", "node/internal/timeparse",
			room + "cli", room + "csvimport", room + "output"},
		room + "command/bench": {"sdk/client", "sdk/record", "sdk/wire", room + "cli",
			room + "csvimport", room + "input", room + "load", room + "output",
			room + "queryflags", cobra},
		room + "command/plugins": {"sdk/api", "sdk/client", "sdk/plugin", "sdk/record", "sdk/wire",
			"node/internal/calendar", "node/internal/timeparse", room + "cli", room + "input",
			room + "offline", room + "output", room + "queryflags", cobra},
		room + "command/transfer": {"sdk/client", "sdk/record", "sdk/wire",
			"node/internal/durable", "node/internal/selector", "node/internal/timeparse",
			room + "arrowfile", room + "cli", room + "csvimport", room + "exchange", room + "input",
			room + "output", room + "parquetfile", room + "queryflags", cobra},
		room + "command/files": {"sdk/api", "sdk/client", "sdk/record", "node/internal/audit",
			"node/segment", "node/store", room + "cli", room + "output", cobra},
		room + "command/backup": {"sdk/client", "sdk/wire", "node", "node/segment", "node/store",
			"node/internal/catalog", "node/internal/cursors", "node/internal/member",
			room + "cli", room + "command/files", room + "nodesync", room + "output",
			cobra},
	}
}
