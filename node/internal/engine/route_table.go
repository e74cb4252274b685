package engine

import (
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/wire"
)

// routingTable says which source answers for each group. It is immutable.
type routingTable struct {
	groups []*groupRoute // in the order of their numbers, which begin at 1: see route and all
	owners *slots.Map    // slots of each group
	single *localSource  // set if one store of this node has all data
	// cluster is the identity of the cluster in hex; empty of a node that is in none.
	cluster string
}

// groupRoute says where a group is: in a store of this node, on other nodes, or both.
type groupRoute struct {
	slots slots.Range // that the group owns
	// required is slots if the group was ever split, else zero: its store records no range then.
	required  slots.Range
	splitting bool // a split is in progress, after which its slots may be in another group

	local *localSource // nil without a replica here
	peer  *Peer        // preferred among peers
	peers []*Peer      // other nodes with a replica
}

// unreachable reports whether no node is known that answers for the group.
func (p *groupRoute) unreachable() bool { return p.local == nil && p.peer == nil }

// route returns the route of a group; nil if there is no such group.
func (l *routingTable) route(group cluster.GroupID) *groupRoute {
	if group == cluster.MetaGroup || int(group) > len(l.groups) {
		return nil
	}
	return l.groups[group-1]
}

// all returns all groups and their routes, in the order of their numbers.
func (l *routingTable) all() iter.Seq2[cluster.GroupID, *groupRoute] {
	return func(yield func(cluster.GroupID, *groupRoute) bool) {
		for i, p := range l.groups {
			if !yield(cluster.GroupID(i+1), p) {
				return
			}
		}
	}
}

// keepRoutes keeps the old routes of groups that are unreachable now.
func (l *routingTable) keepRoutes(old *routingTable) {
	for g, p := range l.groups {
		if p.unreachable() && len(old.groups) == len(l.groups) {
			l.groups[g] = old.groups[g]
		}
	}
}

// caughtUpOf returns the caughtUp flag of a store, which is new if the store was not routed to
// before; see [localSource].
func (l *routingTable) caughtUpOf(group cluster.GroupID, s *store.Store) *atomic.Bool {
	if p := l.route(group); p != nil && p.local != nil && p.local.store == s {
		return p.local.caughtUp
	}
	return new(atomic.Bool)
}

// singleStoreTable is the table of a node that is in no cluster, whose store is group 1.
func singleStoreTable(l *localSource) *routingTable {
	l.group = 1
	all := slots.Range{To: slots.Count}
	owners, _ := slots.NewMap([]slots.Range{all})
	return &routingTable{groups: []*groupRoute{{slots: all, local: l}}, owners: owners, single: l}
}

// checkNeverSplit returns an error unless there is such a group and it was never split. A split
// changes the slots of a group, which a mirror of the group would not notice.
func (l *routingTable) checkNeverSplit(group cluster.GroupID) error {
	kind, why := wire.KindNotFound, "it is in no cluster"
	switch {
	case l.single != nil:
	case len(l.groups) == 0:
		return nodeerror.ErrNoView
	case l.route(group) == nil:
		why = fmt.Sprintf("its cluster has groups 1 to %d", len(l.groups))
	case l.route(group).required != slots.Range{} || l.route(group).splitting:
		kind, why = wire.KindInvalid, "it was split, or split off, so that nothing that has its "+
			"number elsewhere has the same slots; give its records new acqs with --restamp"
	default:
		return nil
	}
	return &wire.Error{Kind: kind, Part: request.ParamOfGroup,
		Message: fmt.Sprintf("group %d of this node alone: %s", group, why)}
}
