package member

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/health"
)

// Pace is told of bytes that were read, and of how many a pass has in all, and waits.
type Pace = func(ctx context.Context, n, all int64) error

// restDamage is damage of what is at rest that the cluster cannot make good: of modules by their
// digests, and of the log that the groups share by groups.
type restDamage struct {
	modules map[string]error
	log     map[cluster.GroupID]error
}

// Verify reads what this node has of the cluster at rest, stores aside: modules, and the files of
// the groups' log that are not written to any more. A module that is damaged is taken from another
// node, which it returns; a replica whose log is damaged is replaced by a new one, as long as the
// group has others to make it from. What remains is one of the node's Problems.
//
// Errors: those of pace.
func (m *Member) Verify(ctx context.Context, pace Pace) (mended []string, err error) {
	found := restDamage{modules: map[string]error{}, log: map[cluster.GroupID]error{}}
	if k := m.ownMeta(); k != nil {
		for _, digest := range slices.Sorted(maps.Keys(namedModules(k.meta.Catalog()))) {
			_, before := k.module(digest)
			if before == nil {
				continue
			}
			_, err := k.mended(ctx, digest)
			if err != nil && namedModules(k.meta.Catalog())[digest] {
				found.modules[digest] = err
			} else if err == nil {
				mended = append(mended, before.Error())
			}
		}
	}
	m.mu.Lock()
	m.rotten.modules = found.modules
	m.mu.Unlock()
	err = m.run.Verify(ctx, pace, func(group cluster.GroupID, err error) {
		if len(m.View().Voters(group)) > 1 {
			m.distrustAs(group, err, true)
		} else {
			found.log[group] = err
		}
	})
	if err == nil {
		m.mu.Lock()
		m.rotten.log = found.log
		m.mu.Unlock()
	}
	return mended, err
}

// restProblems names what Verify found last.
func (m *Member) restProblems() (all []health.Problem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, digest := range slices.Sorted(maps.Keys(m.rotten.modules)) {
		all = append(all, health.Problem{Code: "plugins_damaged",
			Subject: fmt.Sprintf("module %.12s", digest),
			Message: "the copy of a module that belongs to the cluster's state is damaged, and " +
				"no other node has it: " + m.rotten.modules[digest].Error(),
			Advice: "start the nodes that are down; it is tried again in the next search for " +
				"damage. If no node has it, push the module again"})
	}
	for _, group := range slices.Sorted(maps.Keys(m.rotten.log)) {
		all = append(all, health.Problem{Code: "file_damaged",
			Subject: fmt.Sprintf("log of group %d", group),
			Message: m.rotten.log[group].Error(),
			Advice: "the group has no replica on another node that a new one could be made " +
				"from, and after a restart this one may not start: make a backup now, with " +
				"pentad backup, or let other nodes join; then find out from the kernel's log " +
				"whether the disk is failing"})
	}
	return all
}
