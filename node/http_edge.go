package node

import (
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

func (s *server) edgeStatus(ctx *fasthttp.RequestCtx) {
	if s.node.opt.Outbox == nil {
		httpserver.WriteError(ctx, &wire.Error{Kind: wire.KindNotFound,
			Message: "this node is not an edge " +
				"node; it is one when it is started with --role edge"})
		return
	}
	httpserver.WriteJSON(ctx, s.node.opt.Outbox.Status())
}
