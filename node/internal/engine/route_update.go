package engine

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
)

// avoidFor is how long a node that failed is queried only if no other node can be.
const avoidFor = 2 * time.Second

// Placement tells which nodes hold which groups; a [member.Member] does.
type Placement interface {
	View() *cluster.View
	Self() cluster.NodeID
	Store(group cluster.GroupID) *store.Store // here; nil without a replica
	Leader(group cluster.GroupID) cluster.NodeID
	Unreached() map[cluster.NodeID]bool // by gossip
}

// Routes say where all groups are, in the order of their numbers, which begin at 1.
type Routes struct {
	Cluster string     // its identity in hex
	Owners  *slots.Map // slots of each group
	Groups  []GroupLocation
}

// GroupLocation is where a group is: in a store of this node, on other nodes, or both.
type GroupLocation struct {
	Slots slots.Range // that the group owns
	// Required is Slots if the group was ever split, else zero: its store records no range then.
	Required  slots.Range
	Splitting bool // a split is in progress, after which its slots may be in another group
	Store     *store.Store
	Peers     []*Peer // other nodes with a replica, the preferred one first
}

// Route updates the routes from the view of the cluster: groups with a replica here are read here,
// others from a node that answers.
func (e *Engine) Route(m Placement) {
	e.routing.Lock() // called by installs of snapshots and by changes of the view
	defer e.routing.Unlock()
	v := m.View()
	unreached := m.Unreached()
	next := Routes{Cluster: hex.EncodeToString(v.Cluster[:]), Owners: v.Owners(),
		Groups: make([]GroupLocation, 0, v.DataGroups())}
	for group := range v.Data() {
		from, to := v.Span(group)
		p := GroupLocation{Slots: slots.Range{From: from, To: to}, Required: v.Groups[group].Slots,
			Splitting: v.Splitting(group), Store: m.Store(group)}
		leader := m.Leader(group)
		var good, bad []*Peer
		for _, r := range v.Voters(group) {
			at := e.peerOf(v, r.Node)
			if r.Node == m.Self() || at == nil {
				continue
			}
			at.SetUnreached(unreached[r.Node])
			switch {
			case time.Since(time.Unix(0, at.failedNs.Load())) < avoidFor, unreached[r.Node]:
				bad = append(bad, at)
			case r.Node == leader:
				good = append([]*Peer{at}, good...)
			default:
				good = append(good, at)
			}
		}
		p.Peers = append(good, bad...)
		next.Groups = append(next.Groups, p)
	}
	e.setRoutes(next)
}

// SetRoutes is Route with routes that are known. A group that nothing is known of keeps its route.
func (e *Engine) SetRoutes(r Routes) {
	e.routing.Lock()
	defer e.routing.Unlock()
	e.setRoutes(r)
}

func (e *Engine) setRoutes(r Routes) {
	old := e.routes.Load()
	next := &routingTable{groups: make([]*groupRoute, 0, len(r.Groups)), owners: r.Owners,
		cluster: r.Cluster}
	unproved := false
	for i, at := range r.Groups {
		group := cluster.GroupID(i + 1)
		route := &groupRoute{slots: at.Slots, required: at.Required, splitting: at.Splitting,
			peers: at.Peers}
		if at.Store != nil {
			route.local = &localSource{engine: e, store: at.Store, group: group,
				fromSlot: at.Slots.From, toSlot: at.Slots.To, required: at.Required,
				caughtUp: old.caughtUpOf(group, at.Store)}
			unproved = unproved || !route.local.caughtUp.Load()
		}
		if len(route.peers) > 0 {
			route.peer = route.peers[0]
		}
		next.groups = append(next.groups, route)
	}
	next.keepRoutes(old)
	e.routes.Store(next)
	if unproved {
		select {
		case e.needsCatchUp <- struct{}{}: // wakes CatchUp
		default:
		}
	}
}

// Reach is how much of the data can be read.
type Reach struct {
	Groups      int // that are known
	Unreachable int // of these, without a node that answers for them
	Proved      int // replicas here that do not lack what clients read elsewhere before
}

// Reach returns what can be read now.
func (e *Engine) Reach() (out Reach) {
	for _, route := range e.routes.Load().groups {
		out.Groups++
		if route.unreachable() {
			out.Unreachable++
		}
		if route.local != nil && route.local.caughtUp != nil && route.local.caughtUp.Load() {
			out.Proved++
		}
	}
	return out
}

// CheckRouted returns nil once the routing table has had all replicas that this node shall have;
// they are routed to a moment after they start.
func (e *Engine) CheckRouted(m Placement) error {
	if e.allRouted.Load() {
		return nil
	}
	v, t := m.View(), e.routes.Load()
	for group := range v.Data() {
		r, mine := v.ReplicaOn(group, m.Self())
		if route := t.route(group); mine && !r.Learner && (route == nil || route.local == nil) {
			return fmt.Errorf("group %d: its replica here is just starting", group)
		}
	}
	e.allRouted.Store(true)
	return nil
}

// peerOf returns a node of a view, nil if it has no address.
func (e *Engine) peerOf(v *cluster.View, id cluster.NodeID) *Peer {
	at, ok := v.Node(id)
	if !ok || at.HTTPAddr == "" {
		return nil
	}
	name := at.HTTPAddr
	if p := e.peers[id]; p != nil && p.name == name {
		return p
	}
	c, err := client.New(name)
	if err != nil {
		return nil
	}
	e.peers[id] = NewPeer(id, name, c)
	return e.peers[id]
}
