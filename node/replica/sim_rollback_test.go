package replica

import (
	"errors"
	"maps"
	"slices"
	"time"
)

// simImage is a copy of a node's directory: of its log, of its machines, and of which starts of its
// process it knows.
type simImage struct {
	disk     *disk
	machines map[GroupID]*simMachine
	starts   []uint64
}

// image copies what a loss of power would leave now.
func (n *simNode) image() *simImage {
	out := &simImage{disk: n.disk.crash(n.s.rng), machines: map[GroupID]*simMachine{},
		starts: slices.Clone(n.starts)}
	for g, m := range n.machines {
		out.machines[g] = m.reopened(true)
	}
	return out
}

// takeImages copies a directory now and then, of a node whose log has not been damaged.
func (s *simulation) takeImages() {
	if n := s.pick(); !n.scarred && !s.healing {
		n.kept = n.image()
	}
}

// putBack replaces the directory of a node that is down by the copy. Its files are new ones, which
// the node notices.
func (n *simNode) putBack() {
	n.disk, n.machines, n.starts = n.kept.disk.clone(), map[GroupID]*simMachine{}, n.kept.starts
	for g, m := range n.kept.machines {
		n.machines[g] = m.reopened(true)
	}
	n.copied, n.rolledBack = true, true
	n.kept = nil
}

func (d *disk) clone() *disk {
	out := newDisk()
	for name, f := range d.names {
		out.names[name] = &diskFile{disk: out, data: slices.Clone(f.data), synced: f.synced}
	}
	out.durable = maps.Clone(out.names)
	return out
}

// rollBack puts a node back to what it was earlier: while the others go on, or while all are down;
// then another one starts late, so that a majority could be made of the node and one that lacks
// what both of them acknowledged.
func (s *simulation) rollBack(n *simNode) {
	if n.kept == nil || n.scarred || !s.mayLose() {
		return
	}
	if s.rng.IntN(2) == 0 {
		s.counts["rolled back alone"]++
		n.crash(true)
		n.putBack()
		n.startSoon()
		return
	}
	s.counts["rolled back with all down"]++
	late := s.pick()
	for _, other := range s.nodes {
		other.crash(true)
		if other == n {
			n.putBack()
		}
		if other == late {
			other.after(time.Duration(s.rng.IntN(8000))*time.Millisecond, other.start)
		} else {
			other.startSoon()
		}
	}
}

// nextStart notes one start more, as a node does in a file before others hear of it.
func (n *simNode) nextStart() {
	count := uint64(1)
	if last := len(n.starts); last > 0 {
		count += startCount(n.starts[last-1])
	}
	n.starts = append(n.starts, count<<startBits|uint64(n.s.rng.Uint32()))
	n.starts = n.starts[max(0, len(n.starts)-20):]
}

// settle notes that a directory is confirmed when all replicas in it are proven or gone.
func (n *simNode) settle() {
	if !n.copied || n.core == nil {
		return
	}
	for g := range n.core.Groups() {
		if st := n.status(g); st == nil || st.Err != nil || !st.Confirmed {
			return
		}
	}
	n.s.counts["settled"]++
	n.copied = false
}

// fenced notes a replica that knows less than it promised, which only one that was rolled back may.
func (n *simNode) fenced(group GroupID, replica uint64, err error) {
	if !n.rolledBack {
		n.s.violated("node %d: group %d: %v", n.id, group, err)
	}
	if a := n.s.admins[group]; !a.dead[replica] {
		n.s.counts["fenced"]++
		a.died(replica)
	}
}

func isFenced(err error) bool { return errors.Is(err, ErrRolledBack) }
