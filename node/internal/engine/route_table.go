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
func (route *groupRoute) unreachable() bool { return route.local == nil && route.peer == nil }

// route returns the route of a group; nil if there is no such group.
func (t *routingTable) route(group cluster.GroupID) *groupRoute {
	if group == cluster.MetaGroup || int(group) > len(t.groups) {
		return nil
	}
	return t.groups[group-1]
}

// all returns all groups and their routes, in the order of their numbers.
func (t *routingTable) all() iter.Seq2[cluster.GroupID, *groupRoute] {
	return func(yield func(cluster.GroupID, *groupRoute) bool) {
		for i, route := range t.groups {
			if !yield(cluster.GroupID(i+1), route) {
				return
			}
		}
	}
}

// keepRoutes keeps the old routes of groups that are unreachable now.
func (t *routingTable) keepRoutes(old *routingTable) {
	for g, route := range t.groups {
		if route.unreachable() && len(old.groups) == len(t.groups) {
			t.groups[g] = old.groups[g]
		}
	}
}

// caughtUpOf returns the caughtUp flag of a store, which is new if the store was not routed to
// before; see [localSource].
func (t *routingTable) caughtUpOf(group cluster.GroupID, s *store.Store) *atomic.Bool {
	if route := t.route(group); route != nil && route.local != nil && route.local.store == s {
		return route.local.caughtUp
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
func (t *routingTable) checkNeverSplit(group cluster.GroupID) error {
	kind, why := wire.KindNotFound, "it is in no cluster"
	switch {
	case t.single != nil:
	case len(t.groups) == 0:
		return nodeerror.ErrNoView
	case t.route(group) == nil:
		why = fmt.Sprintf("its cluster has groups 1 to %d", len(t.groups))
	case t.route(group).required != slots.Range{} || t.route(group).splitting:
		kind, why = wire.KindInvalid, "it was split, or split off, so that nothing that has its "+
			"number elsewhere has the same slots; give its records new acqs with --restamp"
	default:
		return nil
	}
	return &wire.Error{Kind: kind, Part: request.ParamOfGroup,
		Message: fmt.Sprintf("group %d of this node alone: %s", group, why)}
}
