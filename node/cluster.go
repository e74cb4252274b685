package node

import (
	"context"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/sdk/client"
)

// avoidFor is how long a node that failed is queried only if no other node can be.
const avoidFor = 2 * time.Second

// openMember takes the node's place in its cluster.
func (n *Node) openMember(ctx context.Context) error {
	n.peers, n.needsCatchUp = map[cluster.NodeID]*peer{}, make(chan struct{}, 1)
	n.restocked = make(chan struct{}, 1)
	config := n.opt.Cluster
	config.HTTPListen = n.server.http.Addr().String()
	m, err := member.Open(ctx, member.Options{Dir: n.opt.Dir, Cluster: config, Store: n.opt.Store,
		Log: n.log, Fail: n.opt.Fail, MemoryBytes: n.opt.MemoryBytes, Changed: n.updateRoutes,
		Passed: n.merged.Pass})
	if err != nil {
		return err
	}
	err = n.plugins.UseCluster(memberCatalog{m})
	n.member.Store(m) // from here on updateRoutes uses it
	if err != nil {
		return err
	}
	n.wg.Go(n.followCatalog)
	n.wg.Go(n.catchUpReplicas)
	return nil
}

// updateRoutes updates the routing table from the view of the cluster: groups with a replica here
// are read here, others from a node that answers.
func (n *Node) updateRoutes() {
	m := n.member.Load()
	if m == nil {
		return
	}
	n.routing.Lock() // called by installs of snapshots and by changes of the view
	defer n.routing.Unlock()
	v := m.View()
	unreached := m.Unreached()
	old := n.routes.Load()
	next := &routingTable{groups: make([]*groupRoute, 0, v.DataGroups()), owners: v.Owners()}
	unproved := false
	for group := range v.Data() {
		from, to := v.Span(group)
		p := &groupRoute{slots: slots.Range{From: from, To: to}, mustHold: v.Groups[group].Slots,
			splitting: v.Splitting(group)}
		if s := m.Store(group); s != nil {
			p.local = &localSource{Node: n, store: s, group: group, fromSlot: from, toSlot: to,
				mustHold: p.mustHold, caughtUp: old.caughtUpOf(group, s)}
			unproved = unproved || !p.local.caughtUp.Load()
		}
		leader := m.Leader(group)
		var good, bad []*peer
		for _, r := range v.Voters(group) {
			at := n.peerOf(v, r.Node)
			if r.Node == m.Self() || at == nil {
				continue
			}
			at.unreached.Store(unreached[r.Node])
			switch {
			case time.Since(time.Unix(0, at.failedNs.Load())) < avoidFor, unreached[r.Node]:
				bad = append(bad, at)
			case r.Node == leader:
				good = append([]*peer{at}, good...)
			default:
				good = append(good, at)
			}
		}
		if p.peers = append(good, bad...); len(p.peers) > 0 {
			p.peer = p.peers[0]
		}
		next.groups = append(next.groups, p)
	}
	next.keepRoutes(old)
	n.routes.Store(next)
	if unproved {
		poke(n.needsCatchUp)
	}
	if n.plugins.Stale() {
		poke(n.restocked)
	}
}

// poke wakes the goroutine that receives from a channel with a buffer of one.
func poke(waits chan struct{}) {
	select {
	case waits <- struct{}{}:
	default:
	}
}

// checkRouted returns nil once the routing table has had all replicas that this node shall have;
// they are routed to a moment after they start.
func (n *Node) checkRouted(m *member.Member) error {
	if n.allRouted.Load() {
		return nil
	}
	v, l := m.View(), n.routes.Load()
	for group := range v.Data() {
		r, mine := v.ReplicaOn(group, m.Self())
		if p := l.route(group); mine && !r.Learner && (p == nil || p.local == nil) {
			return fmt.Errorf("group %d: its replica here is just starting", group)
		}
	}
	n.allRouted.Store(true)
	return nil
}

// peerOf returns a node of a view, nil if it has no address.
func (n *Node) peerOf(v *cluster.View, id cluster.NodeID) *peer {
	at, ok := v.Node(id)
	if !ok || at.HTTPAddr == "" {
		return nil
	}
	name := at.HTTPAddr
	if p := n.peers[id]; p != nil && p.name == name {
		return p
	}
	c, err := client.New(name)
	if err != nil {
		return nil
	}
	n.peers[id] = &peer{id: id, name: name, client: c}
	return n.peers[id]
}
