package node

import (
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/valyala/fasthttp"
)

func (s *server) deleteSnapshot(ctx *fasthttp.RequestCtx, name string) {
	if err := s.node.RemoveSnapshot(name); err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	httpserver.WriteJSON(ctx, map[string]string{"removed": name})
}

func (s *server) createSnapshot(ctx *fasthttp.RequestCtx) {
	rc, cancel := s.context()
	defer cancel()
	info, err := s.node.CreateSnapshot(rc, string(ctx.QueryArgs().Peek("name")))
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	httpserver.WriteJSON(ctx, info)
}

func (s *server) listSnapshots(ctx *fasthttp.RequestCtx) {
	all, err := s.node.Snapshots()
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	httpserver.WriteJSON(ctx, api.Snapshots{Snapshots: all})
}
