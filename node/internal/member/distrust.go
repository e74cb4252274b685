package member

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/commands"
)

// distrusted is a replica here that is not what it should be.
type distrusted struct {
	replica  uint64
	err      error // why
	readable bool  // what it answers is right: blocks are verified, and damaged ones are errors
}

// errReplicaLost is of a voter that this node should have and has not.
var errReplicaLost = errors.New("the replica has a vote and is not in this node's directory: it " +
	"was lost, or the directory was put back from an older state")

// Distrust says that the replica of a group here is not what it should be: err says why. It is
// the one entry for whatever finds that out: a log or a store that is damaged, a machine that
// stopped, a scrub. The replica is not read from any more. Where a majority of the group's other
// replicas answers, the cluster replaces it by a new one on this node, which gets its data from
// them; until then it is one of the node's Problems. A replica that still runs goes on to vote and
// to acknowledge until then. To call it again changes nothing.
//
// Nothing is written down here, and a start finds out again: the log says itself which groups it
// quarantined or fenced, and what it promised to others these say again; a store remembers which of
// its segments are damaged, and reads them first, and its other files are read whole when it is
// opened; and a machine that stopped is opened from what is on disk, and applies again what it
// could not.
func (m *Member) Distrust(group cluster.GroupID, err error) { m.distrustAs(group, err, false) }

func (m *Member) distrustAs(group cluster.GroupID, err error, readable bool) {
	id := m.run.Groups()[group]
	if id == 0 {
		r, _ := m.View().ReplicaOn(group, m.self.ID)
		id = replicaID(r)
	}
	m.mu.Lock()
	before := m.distrusted[group]
	known := before.err != nil && before.replica == id && (readable || !before.readable)
	if !known {
		m.distrusted[group] = distrusted{id, err, readable}
	}
	m.mu.Unlock()
	if !known {
		m.opt.Changed()
	}
}

// distrustProblems names the replicas here that are not to be trusted. They do not make the node
// unready: it answers from replicas of other nodes.
func (m *Member) distrustProblems() []health.Problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []health.Problem
	for _, group := range slices.Sorted(maps.Keys(m.distrusted)) {
		consequence := "the replica here cannot be trusted and takes no part in answers: "
		if m.distrusted[group].readable {
			consequence = "the replica here is damaged, and other replicas answer what it cannot: "
		}
		all = append(all, health.Problem{Code: "replica_quarantined",
			Subject: fmt.Sprintf("group %d", group),
			Message: consequence + m.distrusted[group].err.Error(),
			Advice: "the cluster replaces it by a new one as soon as a majority of the group's " +
				"other replicas answers: start nodes that are down; pentad cluster groups shows " +
				"how far it is; a group without such a majority must be restored from a backup"})
	}
	return all
}

// distrust returns why the replica of a group here is not to be trusted; nil: nothing is known
// against it.
func (m *Member) distrust(group cluster.GroupID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.distrusted[group].err
}

// brokenReports names the replicas here that are to be replaced.
func (m *Member) brokenReports() []leaderReport {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []leaderReport{}
	for group, d := range m.distrusted {
		out = append(out, leaderReport{Group: group,
			Broken: []cluster.ReplicaID{cluster.ReplicaID(replica.Number(d.replica))}})
	}
	return out
}

// replaceable reports whether a replica that did not start can be replaced by a new one, so that
// the others of this node go on: it is damaged or lost, while the disk and the program are well.
// In a cluster of one node, the meta group has no other replica to be made from.
func (m *Member) replaceable(group cluster.GroupID, err error) bool {
	wrong := errors.As(err, new(*durable.CorruptError)) || errors.Is(err, replica.ErrStopped) ||
		errors.Is(err, errReplicaLost)
	if ofOtherRules(err) { // a program that knows them reads it
		return false
	}
	return wrong && (group != cluster.MetaGroup || len(m.View().Voters(group)) > 1)
}

// ofOtherRules reports whether what was read is known to another version of the program.
func ofOtherRules(err error) bool {
	return errors.Is(err, cluster.ErrOtherRules) || errors.Is(err, commands.ErrUnknown)
}

// advise says of the state of the cluster that is damaged, with no other replica to make one from,
// what an operator can do: the groups of records are well.
func (m *Member) advise(group cluster.GroupID, err error) error {
	if errors.Is(err, cluster.ErrOtherRules) {
		return fmt.Errorf("open node of a cluster: group %d: %w", group, err)
	}
	if group != cluster.MetaGroup || !errors.As(err, new(*durable.CorruptError)) {
		return err
	}
	return fmt.Errorf("the state of the cluster is damaged, and no other node is known to have "+
		"it: %w; pentad backup --dir %s --to BACKUP takes the records out, and pentad restore "+
		"puts them into a new cluster", err, m.opt.Dir)
}

// inspect looks for replicas that have stopped, and has them replaced. It returns the error of one
// whose disk did not take what was applied, as when it was full: how far that has come is only
// known once it is opened again, so the process must end and be started again, as for a log that
// fails; and that of one whose log has what only another version of the program knows.
func (m *Member) inspect() error {
	for group := range m.run.Groups() {
		st, err := m.run.Status(group)
		switch {
		case err != nil || st.Err == nil:
		case ofOtherRules(st.Err):
			return fmt.Errorf("group %d: %w: %w", group, cluster.ErrOtherRules, st.Err)
		case errors.Is(st.Err, store.ErrFailed) || durable.IsNoSpace(st.Err):
			return fmt.Errorf("group %d: %w", group, st.Err)
		case errors.Is(st.Err, replica.ErrForked): // nothing says which history is right
		case errors.Is(st.Err, replica.ErrLogFailed) || errors.Is(st.Err, replica.ErrClosed):
		default:
			m.Distrust(group, st.Err)
		}
	}
	m.inspectFiles()
	return nil
}

// inspectFiles has the replicas replaced whose files queries, merges or the scrub found damaged, as
// long as the group has others to make new ones from. Until then they are read: if all replicas of
// a group were damaged, each in another place, there would be nothing else to read.
func (m *Member) inspectFiles() {
	for group, s := range m.Stores() {
		damage := s.Damage()
		if len(damage) > 0 && len(m.View().Voters(group)) > 1 {
			m.distrustAs(group, damage[0], true)
		}
	}
}
