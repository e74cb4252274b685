package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/pentad-db/pentad/node/internal/catalog"
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

// routeQuantity serves the quantity of one moid.
func (s *server) routeQuantity(ctx *fasthttp.RequestCtx, method, text string) {
	if method != http.MethodPut && method != http.MethodDelete {
		wrongMethod(ctx, "a quantity", "DELETE, PUT")
		return
	}
	err := checkParams(ctx.QueryArgs(), nil)
	moid, bad := strconv.ParseInt(text, 10, 32)
	if err == nil && bad != nil {
		err = badParam("moid", fmt.Errorf("%q is not a number of a quantity", clip(text)))
	}
	if err == nil && method == http.MethodDelete {
		reply(ctx, map[string]int64{"removed": moid}, s.node.ForgetQuantity(int32(moid)))
		return
	}
	var q plugin.Quantity
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(ctx.PostBody()))
		d.DisallowUnknownFields()
		if bad := d.Decode(&q); bad != nil {
			err = badParam("body", fmt.Errorf("is no quantity in JSON: %w", bad))
		}
	}
	if q.MOID = int32(moid); err == nil {
		err = s.node.SetQuantity(q)
	}
	reply(ctx, q, err)
}

func (s *server) listQuantities(ctx *fasthttp.RequestCtx) {
	err := checkParams(ctx.QueryArgs(), nil)
	reply(ctx, map[string]any{"quantities": s.node.Quantities()}, err)
}
