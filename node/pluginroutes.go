package node

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/valyala/fasthttp"
)

var (
	pushParams    = []string{"owner", "description"}
	failureParams = []string{"plugin"}
)

// routePlugin answers /v1/plugins/NAME, where NAME may be name@digest, and what lies below.
func (s *server) routePlugin(ctx *fasthttp.RequestCtx, method, path string) {
	ref, action, _ := strings.Cut(path, "/")
	handlers := map[string]func(*fasthttp.RequestCtx, string){}
	switch action {
	case "":
		handlers[http.MethodGet] = s.showPlugin
		handlers[http.MethodPut] = s.pushPlugin
		handlers[http.MethodDelete] = s.removePlugin
	case "run":
		handlers[http.MethodGet], handlers[http.MethodPost] = s.runPlugin, s.runPlugin
	case "promote":
		handlers[http.MethodPost] = s.promotePlugin
	default:
		noRoute(ctx, "/v1/plugins/"+path)
		return
	}
	if handle := handlers[method]; handle != nil {
		known := map[string][]string{"PUT": pushParams, "GET run": runParams, "POST run": runParams}
		err := checkParams(ctx.QueryArgs(), known[strings.TrimSpace(method+" "+action)])
		if err != nil {
			writeError(ctx, toWire(err))
			return
		}
		handle(ctx, ref)
		return
	}
	allowed := map[string]string{"": "DELETE, GET, HEAD, PUT", "run": "GET, HEAD, POST",
		"promote": "POST"}
	wrongMethod(ctx, "/v1/plugins/NAME/"+action, allowed[action])
}

// reply writes what a call returned.
func reply(ctx *fasthttp.RequestCtx, v any, err error) {
	if err != nil {
		writeError(ctx, toWire(err))
		return
	}
	writeJSON(ctx, v)
}

func (s *server) listPlugins(ctx *fasthttp.RequestCtx) {
	damage := s.node.plugins.damage()
	if damage == nil {
		damage = []string{}
	}
	err := checkParams(ctx.QueryArgs(), nil)
	reply(ctx, map[string]any{"plugins": s.node.Plugins(), "damage": damage}, err)
}

// checkPlugin describes a module that is not kept.
func (s *server) checkPlugin(ctx *fasthttp.RequestCtx) {
	rc, cancel := s.context()
	defer cancel()
	if err := checkParams(ctx.QueryArgs(), nil); err != nil {
		writeError(ctx, toWire(err))
		return
	}
	details, err := s.node.CheckPlugin(rc, bytes.Clone(ctx.PostBody()))
	reply(ctx, details, err)
}

func (s *server) listFailures(ctx *fasthttp.RequestCtx) {
	err := checkParams(ctx.QueryArgs(), failureParams)
	all := s.node.PluginFailures(string(ctx.QueryArgs().Peek("plugin")))
	reply(ctx, map[string]any{"failures": all}, err)
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
	reply(ctx, map[string]int{"removed": removed}, err)
}
