package node

import (
	"context"
	"net/http"

	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// Outbox makes a node one that ships what it takes to others. Records come to it by puts alone,
// which give them acqs above all that were given, and go only when the outbox lets them.
type Outbox interface {
	// Put calls store, which stores the batch, unless there is no room for it.
	Put(
		ctx context.Context, b *record.Batch, store func() (store.PutResult, error),
	) (store.PutResult, error)
	// Status is how far the shipping is, in a form that JSON has.
	Status() any
	// Problems is what is wrong with the shipping.
	Problems() []health.Problem
}

// PutOwn stores a batch past the outbox, for which it is.
func (n *Node) PutOwn(
	ctx context.Context, b *record.Batch, w store.WriterSeq,
) (store.PutResult, error) {
	return n.store.Put(ctx, b, w)
}

// Forget removes what came in ranges of acq, for the outbox.
func (n *Node) Forget(ctx context.Context, acqs record.RangeSet) error {
	var box record.Box
	box[record.Acq] = acqs
	_, err := n.store.Purge(ctx, box)
	return err
}

// checkShips refuses what would part the node from what it has shipped.
func (n *Node) checkShips() error {
	if n.opt.Outbox == nil {
		return nil
	}
	return &wire.Error{Kind: wire.KindForbidden, Message: "an edge node takes puts and " +
		"tombstones, stamps them itself, and keeps what upstream does not have yet: stamped " +
		"puts, copies, erases, purges and retentions are for upstream; see sdk/docs/edge.md"}
}

// routeEdge answers what is asked of an edge node alone.
func (s *server) routeEdge(ctx *fasthttp.RequestCtx, method, path string) bool {
	if s.node.opt.Outbox == nil || path != "/v1/edge" {
		return false
	}
	if method != http.MethodGet {
		wrongMethod(ctx, path, "GET, HEAD")
		return true
	}
	writeJSON(ctx, s.node.opt.Outbox.Status())
	return true
}
