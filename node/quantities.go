package node

import (
	"fmt"
	"strconv"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/strictjson"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// Quantities returns what is declared of moids, by moid.
func (n *Node) Quantities() []plugin.Quantity {
	n.plugins.mu.RLock()
	defer n.plugins.mu.RUnlock()
	return n.plugins.state.Sorted()
}

// SetQuantity declares what the records of a moid measure, in place of what was declared before.
// Records stay as they are.
func (n *Node) SetQuantity(q plugin.Quantity) error {
	if err := q.Check(); err != nil {
		return &wire.Error{Kind: wire.KindInvalid, Part: "quantity", Message: err.Error()}
	}
	n.plugins.changing.Lock()
	defer n.plugins.changing.Unlock()
	return n.plugins.change(n.open, &catalog.Change{Quantity: &q}, nil)
}

// ForgetQuantity takes back what was declared of a moid.
func (n *Node) ForgetQuantity(moid int32) error {
	n.plugins.changing.Lock()
	defer n.plugins.changing.Unlock()
	err := n.plugins.forget(n.open, moid)
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

// parseMOID reads the number of a quantity in a path.
func parseMOID(text string) (int32, error) {
	moid, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, badParam("moid", fmt.Errorf("%q is not a number of a quantity", clip(text)))
	}
	return int32(moid), nil
}

func (s *server) putQuantity(ctx *fasthttp.RequestCtx, text string) {
	moid, err := parseMOID(text)
	var q plugin.Quantity
	if err == nil {
		if bad := strictjson.Unmarshal(ctx.PostBody(), &q); bad != nil {
			err = badParam("body", fmt.Errorf("is no quantity in JSON: %w", bad))
		}
	}
	if q.MOID = moid; err == nil {
		err = s.node.SetQuantity(q)
	}
	reply(ctx, q, err)
}

func (s *server) deleteQuantity(ctx *fasthttp.RequestCtx, text string) {
	moid, err := parseMOID(text)
	if err == nil {
		err = s.node.ForgetQuantity(moid)
	}
	reply(ctx, map[string]int32{"removed": moid}, err)
}

func (s *server) listQuantities(ctx *fasthttp.RequestCtx) {
	writeJSON(ctx, map[string]any{"quantities": s.node.Quantities()})
}
