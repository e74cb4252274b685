package node

import (
	"bytes"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/valyala/fasthttp"
)

var (
	pushParams    = []string{"owner", "description"}
	failureParams = []string{"plugin"}
)

// reply writes the result of a call.
func reply(ctx *fasthttp.RequestCtx, v any, err error) {
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	httpserver.WriteJSON(ctx, v)
}

func (s *server) listPlugins(ctx *fasthttp.RequestCtx) {
	damage := s.node.plugins.Damage()
	if damage == nil {
		damage = []string{}
	}
	httpserver.WriteJSON(ctx, api.Plugins{Plugins: s.node.Plugins(), Damage: damage})
}

// checkPlugin describes a module that is not kept.
func (s *server) checkPlugin(ctx *fasthttp.RequestCtx) {
	rc, cancel := s.context()
	defer cancel()
	details, err := s.node.CheckPlugin(rc, bytes.Clone(ctx.PostBody()))
	reply(ctx, details, err)
}

func (s *server) listFailures(ctx *fasthttp.RequestCtx) {
	all := s.node.PluginFailures(string(ctx.QueryArgs().Peek("plugin")))
	httpserver.WriteJSON(ctx, api.PluginFailures{Failures: all})
}

func (s *server) showPlugin(ctx *fasthttp.RequestCtx, ref string) {
	rc, cancel := s.context()
	defer cancel()
	details, err := s.node.Plugin(rc, ref)
	reply(ctx, details, err)
}

func (s *server) pushPlugin(ctx *fasthttp.RequestCtx, name string) {
	rc, cancel := s.context()
	defer cancel()
	args := ctx.QueryArgs()
	info, err := s.node.PushPlugin(rc, PluginPush{Name: name, Owner: string(args.Peek("owner")),
		Description: string(args.Peek("description")), Wasm: bytes.Clone(ctx.PostBody())})
	reply(ctx, info, err)
}

func (s *server) promotePlugin(ctx *fasthttp.RequestCtx, ref string) {
	info, err := s.node.PromotePlugin(ref)
	reply(ctx, info, err)
}

func (s *server) removePlugin(ctx *fasthttp.RequestCtx, ref string) {
	removed, err := s.node.RemovePlugin(ref)
	reply(ctx, api.Removed{Removed: removed}, err)
}
