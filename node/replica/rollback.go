package replica

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
)

// fenceIfRolledBack takes a heartbeat that says that more is committed than the log has, and
// reports whether it was one. A leader says so only of what this replica acknowledged: so it
// acknowledged more than it has, which no other may remember any more when all of them lost power
// meanwhile.
func (g *group) fenceIfRolledBack(m *pb.Message) bool {
	last, _ := g.log.LastIndex()
	if m.GetType() != pb.MsgHeartbeat || m.GetCommit() <= last || g.core.opt.Trust {
		return false
	}
	g.fence(fmt.Errorf("%w: node %016x was promised entry %d; the log ends with %d", ErrRolledBack,
		Node(m.GetFrom()), m.GetCommit(), last))
	return true
}
