package node

import (
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/rowjson"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// explain takes the parameters of records, so that a query can be explained unchanged. Those of the
// output format are ignored.
func (s *server) explain(ctx *fasthttp.RequestCtx) {
	q, err := s.parseQuery(ctx)
	if err == nil {
		_, err = rowjson.ParsePayloadType(string(ctx.QueryArgs().Peek("type")))
	}
	if err == nil {
		_, err = parseLines(ctx)
	}
	s.writeExplanation(ctx, q, err)
}

// explainFrame answers a query frame with the same document.
func (s *server) explainFrame(ctx *fasthttp.RequestCtx) {
	q := new(record.Query)
	err := wire.ParseQuery(ctx.PostBody(), q)
	s.writeExplanation(ctx, q, err)
}

// writeExplanation explains a query, unless reading it failed.
func (s *server) writeExplanation(ctx *fasthttp.RequestCtx, q *record.Query, err error) {
	var x api.Explanation
	if err == nil {
		rc, asked, cancel := s.requestContext(ctx)
		defer cancel()
		x, err = s.node.engine.Explain(rc, asked, q)
	}
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	httpserver.WriteJSON(ctx, x)
}
