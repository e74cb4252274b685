package edge

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
)

// rejoinEvery is how often seeds are asked: who is cut off asks long, and is to be found soon.
const rejoinEvery = 15 * time.Second

// feature is the level of what an edge does in a cluster.
const feature = 1

// joinGossip lets the nodes of a cluster know of this edge, and finds them.
func (e *Edge) joinGossip(config cluster.Config) error {
	config.Role = cluster.RoleEdge.String()
	config.Features = cluster.Features{First: feature, Last: feature}
	if addr := e.Addr(); addr != nil {
		config.HTTPListen = addr.String()
	}
	config, err := config.Complete()
	if err != nil {
		return err
	}
	token, err := cluster.LoadToken(config.TokenFile)
	if err != nil {
		return err
	}
	self, err := cluster.OpenSelf(filepath.Join(e.opt.Node.Dir, dirName), rand.Reader)
	if err != nil {
		return err
	}
	n, err := config.Node(self)
	if err != nil {
		return err
	}
	n.State = cluster.NodeUp
	o, err := config.Gossip(token, n)
	if err != nil {
		return err
	}
	o.Log, o.Rejoin = e.log, rejoinEvery
	if e.gossip, err = cluster.StartGossip(o); err != nil {
		return fmt.Errorf("edge: %w", err)
	}
	return nil
}

// watch turns to the nodes that gossip knows.
func (e *Edge) watch(ctx context.Context) {
	for after := uint64(0); ; {
		_, now, err := e.gossip.Wait(ctx, after)
		if err != nil {
			return
		}
		after = now
		var addrs []string
		for _, p := range e.gossip.Peers() {
			n := p.Meta.Node
			if n.Role == cluster.RoleCore && p.State != cluster.PeerDead && n.HTTPAddr != "" {
				addrs = append(addrs, n.HTTPAddr)
			}
		}
		slices.Sort(addrs)
		e.up.found(addrs)
	}
}
