package replica

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// What a node takes while nothing is asked of it is nearly all the price of waking up: of timers,
// of connections that bring a message, of goroutines that hand it on. So the groups of a node that
// rest do what time asks of them at the same moments: what says only that its sender is there waits
// for them, in both directions, and the messages to a node go in one write.

const (
	// restTicks is how many ticks pass together for groups that rest, and from one heartbeat to the
	// next: 100 ms, of which five fit into the time after which a leader is missed.
	restTicks = 2
	// quietTicks is how long nothing was written in a group whose replies may wait: a leader that
	// has lost a message sends it again when it is answered.
	quietTicks = 4
)

// isIdle reports whether nothing depends on a single tick: the replica leads and nothing waits for
// what it decides, or it has heard its leader.
func (g *group) isIdle() bool {
	if g.err != nil {
		return true
	}
	if !g.proving.done || g.proving.guarded || g.hurry > 0 || len(g.reads) > 0 {
		return false
	}
	if g.leads {
		return len(g.waiters) == 0 && g.core.MayLead()
	}
	return g.node.BasicStatus().Lead != raft.None && g.ticks-g.heardAt < electionTicks/2
}

// isBeat reports whether a message says only that its sender is there. No read waits for it.
func isBeat(m *pb.Message) bool {
	t := m.GetType()
	return (t == pb.MsgHeartbeat || t == pb.MsgHeartbeatResp) && len(m.GetContext()) == 0
}

// keepsReply keeps the reply to a heartbeat for the next ticks, when the node's own heartbeats go,
// unless the group does not rest.
func (g *group) keepsReply(m *pb.Message) bool {
	if m.GetType() != pb.MsgHeartbeatResp || !isBeat(m) || g.ticking || !g.isIdle() ||
		g.ticks-g.wroteAt < quietTicks {
		return false
	}
	g.sendReply()
	g.reply = m
	return true
}

func (g *group) sendReply() {
	if m := g.reply; m != nil {
		g.reply = nil
		g.send(m)
	}
}
