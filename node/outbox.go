package node

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"strconv"

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

// PutAfter stores a batch that follows another one of an edge; see [store.Store.PutAfter]. Groups
// of a cluster, of which each has its own batches of a writer, take it as they take any other.
func (n *Node) PutAfter(
	ctx context.Context, b *record.Batch, w store.WriterSeq, previous uint64,
) (store.PutResult, error) {
	return n.put(ctx, b, w,
		func(
			ctx context.Context, b *record.Batch, w store.WriterSeq,
		) (store.PutResult, error) {
			return n.store.PutAfter(ctx, b, w, previous)
		})
}

// Follows reports whether a batch is the newest one of an edge; see [store.Store.Follows]. A
// cluster loses none, and says yes.
func (n *Node) Follows(writer [16]byte, previous uint64) error {
	if n.closing.Load() {
		return errClosing
	}
	if n.member.Load() != nil {
		return nil
	}
	return n.store.Follows(writer, previous)
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

func (s *server) edgeStatus(ctx *fasthttp.RequestCtx) {
	if s.node.opt.Outbox == nil {
		writeError(ctx, &wire.Error{Kind: wire.KindNotFound, Message: "this node is not an edge " +
			"node; it is one when it is started with --role edge"})
		return
	}
	writeJSON(ctx, s.node.opt.Outbox.Status())
}

// putFrame puts the batch of a frame, or asks whether one of an edge follows.
func (s *server) putFrame(
	rc context.Context, ctx *fasthttp.RequestCtx, p *wire.Put,
) (store.PutResult, error) {
	args := ctx.QueryArgs()
	asks := args.Has(wire.ParamWriter)
	var err error
	if asks {
		err = cmp.Or(checkNoBody(ctx),
			parseWriter(string(args.Peek(wire.ParamWriter)), &p.Writer))
	} else {
		err = wire.ParsePut(ctx.PostBody(), p)
	}
	if err != nil {
		return store.PutResult{}, err
	}
	w, text := store.WriterSeq{ID: p.Writer, Seq: p.Seq}, string(args.Peek(wire.ParamPrevious))
	if text == "" && !asks {
		return s.node.Put(rc, p.Batch, w)
	}
	previous, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil, w.ID == [16]byte{}:
		return store.PutResult{}, badParam(wire.ParamPrevious,
			fmt.Errorf("%.40q is not the sequence of a batch of a writer", text))
	case asks:
		return store.PutResult{}, s.node.Follows(w.ID, previous)
	}
	return s.node.PutAfter(rc, p.Batch, w, previous)
}

// parseWriter reads the id of a writer.
func parseWriter(text string, id *[16]byte) error {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(id) {
		return badParam(wire.ParamWriter, fmt.Errorf("%.40q is not 32 hex digits", text))
	}
	copy(id[:], raw)
	return nil
}
