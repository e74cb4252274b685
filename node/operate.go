package node

import (
	"context"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/plugin"
)

// Cursors lists cursors, by name.
func (n *Node) Cursors(ctx context.Context) ([]cursors.Cursor, error) { return n.cursors.List(ctx) }

// Cursor returns one of them.
func (n *Node) Cursor(ctx context.Context, name string) (cursors.Cursor, error) {
	return n.cursors.Get(ctx, name)
}

// CommitCursor moves a cursor durably to an acq: its client has everything below. Commits are
// idempotent; a cursor goes back only with force, and never goes above the horizon.
func (n *Node) CommitCursor(
	ctx context.Context, name string, acqNs int64, force bool,
) (cursors.Cursor, error) {
	return n.cursors.Commit(ctx, name, acqNs, force)
}

// RemoveCursor forgets a cursor.
func (n *Node) RemoveCursor(ctx context.Context, name string) error {
	return n.cursors.Remove(ctx, name)
}

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

// PluginPush is an upload of a module under a name.
type PluginPush = registry.Upload

// PushPlugin stores a module as the current version of a name.
func (n *Node) PushPlugin(ctx context.Context, p PluginPush) (api.PluginInfo, error) {
	return n.plugins.Push(ctx, p)
}

// CheckPlugin checks and describes a module without keeping it.
func (n *Node) CheckPlugin(ctx context.Context, wasm []byte) (api.PluginDetails, error) {
	return n.plugins.Check(ctx, wasm)
}

// PromotePlugin makes a version, name@digest, the one that the name alone means.
func (n *Node) PromotePlugin(ref string) (api.PluginInfo, error) {
	return n.plugins.Promote(n.open, ref)
}

// RemovePlugin removes a version, name@digest, or all versions of a name, and returns how many.
func (n *Node) RemovePlugin(ref string) (int, error) { return n.plugins.Remove(n.open, ref) }

// Plugins lists the current versions by name.
func (n *Node) Plugins() []api.PluginInfo { return n.plugins.List() }

// Plugin describes a version, name@digest, or the current one of a name.
func (n *Node) Plugin(ctx context.Context, ref string) (api.PluginDetails, error) {
	return n.plugins.Details(ctx, ref)
}

// PluginFailures returns the last failures of a plugin, or with an empty name of all, the newest
// first. They are forgotten when the node ends.
func (n *Node) PluginFailures(name string) []api.PluginFailure {
	return n.engine.PluginFailures(name)
}

// Quantities returns the declared quantities, by moid.
func (n *Node) Quantities() []plugin.Quantity { return n.plugins.Quantities() }

// SetQuantity declares the quantity of a moid, in place of an earlier declaration.
// Records stay as they are.
func (n *Node) SetQuantity(q plugin.Quantity) error { return n.plugins.SetQuantity(n.open, q) }

// ForgetQuantity removes the declaration of a moid.
func (n *Node) ForgetQuantity(moid int32) error { return n.plugins.ForgetQuantity(n.open, moid) }
