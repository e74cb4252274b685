package node

import (
	"context"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/sdk/api"
)

// CreateSnapshot makes a snapshot of everything that the node stores, plugins with it; see
// [store.Store.Snapshot]. In a cluster that is its replicas.
func (n *Node) CreateSnapshot(ctx context.Context, name string) (api.Snapshot, error) {
	return n.snapshots.Create(ctx, name)
}

// Snapshots lists the snapshots by name.
func (n *Node) Snapshots() ([]api.Snapshot, error) { return n.snapshots.List() }

// RemoveSnapshot removes a snapshot, also a damaged one. What a backup has open of it stays
// readable.
func (n *Node) RemoveSnapshot(name string) error { return n.snapshots.Remove(name) }

// Verify verifies everything that the node stores; see [store.Store.Verify]. In a cluster it
// verifies the node's replicas, and compares them with those of other nodes. It ends when the node
// is closed.
func (n *Node) Verify(ctx context.Context, opt check.Options) (api.CheckReport, error) {
	return n.verifier.All(ctx, opt)
}

// VerifySegment is Verify of one segment of a group's replica, group 0 for a node that is in no
// cluster. A backup that finds damage in a copy of the segment makes the node notice it, too.
func (n *Node) VerifySegment(
	ctx context.Context, group cluster.GroupID, id uint64, opt check.Options,
) (api.CheckReport, error) {
	return n.verifier.Segment(ctx, group, id, opt)
}
