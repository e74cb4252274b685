package member

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/durable"
)

// CheckFiles finds files of the cluster on this node that were removed, replaced or cut while they
// are open. Without the log of the groups the node ends, as for a disk that fails; a replica whose
// files are lost is damaged, and replaced by a new one where the group has others.
//
// Cost: that of [store.Store.FindLostFiles] for each replica, and some calls of the system.
func (m *Member) CheckFiles(ctx context.Context) {
	m.run.CheckFiles()
	for _, s := range m.Stores() {
		_ = s.FindLostFiles(ctx) // replicas have damage
	}
	if k := m.ownMeta(); k != nil && len(m.View().Voters(cluster.MetaGroup)) > 1 {
		if lost := k.missingStateFile(); lost != nil {
			m.distrustAs(cluster.MetaGroup, lost, true)
		}
	}
}

// lostLog refuses to start without the log of the groups where a replica in the directory is the
// only one of its group: to the log it is a leftover, which a start removes.
func (m *Member) lostLog(has map[cluster.GroupID]uint64) error {
	if len(has) > 0 {
		return nil
	}
	v := m.View()
	for g := range v.Groups {
		group := cluster.GroupID(g)
		r, mine := v.ReplicaOn(group, m.self.ID)
		if !mine || len(v.Voters(group)) > 1 {
			continue
		}
		dir := m.path("groups", dirOf(group, replicaID(r)))
		if there, err := exists(dir); err != nil || !there {
			continue
		}
		return fmt.Errorf("%s: the log of the groups is missing, and no other node has group "+
			"%d: put it back, or take the records out with pentad backup --dir %s --to BACKUP "+
			"and put them into a new cluster with pentad restore", m.path("raft"), group, m.opt.Dir)
	}
	return nil
}

// missingStateFile says that the file of the state is missing.
func (k *metaReplica) missingStateFile() error {
	if k.durable.Load() == 0 {
		return nil
	}
	name := filepath.Join(k.dir, stateName)
	if reason := durable.Lost(name, nil, 0); reason != "" {
		return &durable.CorruptError{File: name, Reason: reason}
	}
	return nil
}
