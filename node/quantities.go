package node

import (
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Quantities returns the declared quantities, by moid.
func (n *Node) Quantities() []plugin.Quantity {
	return n.plugins.Quantities()
}

// SetQuantity declares the quantity of a moid, in place of an earlier declaration.
// Records stay as they are.
func (n *Node) SetQuantity(q plugin.Quantity) error {
	if err := q.Check(); err != nil {
		return &wire.Error{Kind: wire.KindInvalid, Part: "quantity", Message: err.Error()}
	}
	return n.plugins.SetQuantity(n.open, q)
}

// ForgetQuantity removes the declaration of a moid.
func (n *Node) ForgetQuantity(moid int32) error {
	err := n.plugins.ForgetQuantity(n.open, moid)
	if err != nil && n.Kind(err) == wire.KindUnknownPlugin {
		return &wire.Error{Kind: wire.KindNotFound, Message: toWire(err).Message}
	}
	return err
}

// spansOf are the ranges of a dimension as sdk/plugin takes them.
func spansOf(set record.RangeSet) [][2]int64 {
	out := make([][2]int64, len(set))
	for i, r := range set {
		out[i] = [2]int64{r.From, r.To}
	}
	return out
}
