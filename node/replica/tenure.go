package replica

import (
	"sync/atomic"

	"go.etcd.io/raft/v3"
)

// Tenure is what a leader knows when it does something for its group. Its machine has all that was
// committed in earlier terms, so whatever it proposes comes after that.
type Tenure struct {
	Term    uint64 // in which it leads
	Applied uint64 // the last entry that its machine has
	// Rests: of what was proposed in the term, the machine has everything.
	Rests bool
}

// Stamp changes data in place that is proposed in a tenure. The worker of the group calls it in the
// order in which entries are appended: it must not block or call back. After an error of it nothing
// is proposed.
type Stamp func(t Tenure, data []byte) error

// tenure returns the tenure of a leader; ok is false where the replica does not lead, or has not
// applied an entry of its term yet.
func (g *group) tenure() (t Tenure, ok bool) {
	if g.err != nil || !g.proving.done || !g.leadsNow() || g.unsettled() {
		return t, false
	}
	return Tenure{Term: g.appliedTerm, Applied: g.applied, Rests: len(g.waiters) == 0}, true
}

func (g *group) leadsNow() bool {
	return g.err == nil && g.node.BasicStatus().RaftState == raft.StateLeader
}

// unsettled reports whether the replica leads in a term of which its machine has no entry.
func (g *group) unsettled() bool {
	return g.leadsNow() && g.node.BasicStatus().GetTerm() != g.appliedTerm
}

// releaseProposals lets those propose who wait for the tenure, once it has begun or there will be
// none.
func (g *group) releaseProposals() {
	if len(g.early) == 0 || g.unsettled() {
		return
	}
	early := g.early
	g.early = nil
	for _, propose := range early {
		propose()
	}
}

// Lead calls do for those of some groups that the replica here leads, each on its worker, so that
// nothing is proposed meanwhile: do must not block or call back. Done is called after the last.
func (c *Core) Lead(groups []GroupID, do func(group GroupID, t Tenure), done func()) {
	var left atomic.Int64
	left.Store(int64(len(groups)) + 1)
	end := func() {
		if left.Add(-1) == 0 {
			done()
		}
	}
	for _, group := range groups {
		g, err := c.lookup(group)
		if err != nil {
			end()
			continue
		}
		g.post(func() {
			if t, ok := g.tenure(); ok {
				do(group, t)
			}
			end()
		})
	}
	end()
}
