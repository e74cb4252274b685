package node

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/plugin"
)

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
