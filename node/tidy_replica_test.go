package node_test

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// replicaPackages has the packages that write logs and segments. One is that of the Raft library:
// what its groups hold is not its business, so it knows no packages but those that know of files in
// general.
func replicaPackages() map[string][]string {
	return map[string][]string{
		"node/replica": {"node/internal/accept", "node/internal/durable", "node/internal/formats",
			"node/internal/sector", "node/internal/slots", "go.etcd.io/raft/v3",
			"google.golang.org/protobuf", "golang.org/x/sys"},
		"node/wal": {"node/internal/durable", "node/internal/formats", "node/internal/sector"},
		"node/segment": {"sdk/record", "node/internal/durable", "node/internal/formats",
			"sdk/where", "github.com/pierrec/lz4/v4", "golang.org/x/sys"},
		"node/internal/journal": {"node/internal/durable",
			"node/internal/formats", "node/internal/health", "node/internal/sector"},
		"node/internal/durable/memdir": {"node/internal/durable", "node/internal/sector"},
	}
}

// TestReplicaDecidesNothing keeps consensus out of node/replica: of the messages of the Raft
// library it reads type, sender, receiver, and what is for the disk or the machine, and it makes
// none.
func TestReplicaDecidesNothing(t *testing.T) {
	// Who voted for what, which index is matched or refused: the library's business.
	forbidden := []string{"GetReject", "GetRejectHint", "GetLogTerm", "GetIndexHint", "RejectHint",
		"LogTerm", "Reject", "Campaign", "ForgetLeader", "DisableConfChangeValidation",
		"TickQuiesced"}
	// What writes and parses messages has to know all that is in them.
	const codec = "codec.go"
	// The one place where a message is given to the disk also reads term, vote and commit.
	disk := []string{"GetVote", "GetCommit", "Vote", "Commit"}
	// What a message promises of its sender, and whether it offers less than what is committed
	// here, is looked at before the library gets it, which relies on disks that lose nothing.
	promises := map[string][]string{"proof.go": {"GetReject", "GetLogTerm"},
		// And what a leader says was acknowledged here.
		"rollback.go": {"GetCommit"}}
	met := false
	for _, s := range sources(t) {
		if path.Dir(s.path) != "node/replica" || s.isTest() || path.Base(s.path) == codec {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				name := n.Sel.Name
				if slices.Contains(promises[path.Base(s.path)], name) {
					return true
				}
				if slices.Contains(forbidden, name) ||
					slices.Contains(disk, name) && path.Base(s.path) != "group.go" &&
						!strings.HasSuffix(s.path, "group_time.go") {
					t.Errorf("%s:%d: %s; the library decides", s.path, s.line(n), name)
				}
				met = met || name == "GetTo"
			case *ast.CompositeLit:
				if of, ok := n.Type.(*ast.SelectorExpr); ok && of.Sel.Name == "Message" {
					if len(n.Elts) > 0 {
						t.Errorf("%s:%d: makes a message; the library does", s.path, s.line(n))
					}
				}
			}
			return true
		})
	}
	if !met {
		t.Error("node/replica sends no messages; this test looks at nothing")
	}
}
