package node

import (
	"net/http"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// ready answers /readyz: whether the node should get requests.
func (s *server) ready(ctx *fasthttp.RequestCtx) {
	said, err := s.readiness()
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	httpserver.WriteJSON(ctx, said)
}

func (s *server) readiness() (said api.Readiness, err error) {
	if s.node.closing.Load() {
		return said, nodeerror.ErrClosing
	}
	if err := s.node.serving(); err != nil {
		return said, err
	}
	problems := s.node.Problems()
	if p := unready(problems); p != nil {
		return said, &wire.Error{Kind: wire.KindUnavailable, Message: problemText(p)}
	}
	said = api.Readiness{Status: "ready", Problems: problems}
	if m := s.node.member.Load(); m != nil {
		rc, cancel := s.context()
		defer cancel()
		err := m.Ready(rc)
		if err == nil {
			err = s.node.engine.CheckRouted(m)
		}
		if err != nil {
			return said, &wire.Error{Kind: wire.KindUnavailable, Message: err.Error()}
		}
		said.Nodes = m.Addresses()
	}
	return said, nil
}

// alive answers /healthz: whether starting the process again would help.
func (s *server) alive(ctx *fasthttp.RequestCtx) {
	problems := s.node.Problems()
	for i := range problems {
		if problems[i].Restart {
			httpserver.WriteError(ctx, &wire.Error{Kind: wire.KindUnavailable,
				Message: problemText(&problems[i])})
			return
		}
	}
	status := "ok"
	if len(problems) > 0 {
		status = "problems"
	}
	httpserver.WriteJSON(ctx, api.Readiness{Status: status, Problems: problems})
}

// healthState answers GET /v1/health: everything that is wrong, with status 200.
func (s *server) healthState(ctx *fasthttp.RequestCtx) {
	said := api.Health{Ready: true, Problems: s.node.Problems()}
	if _, err := s.readiness(); err != nil {
		said.Ready, said.Reason = false, toWire(err).Message
	}
	ctx.SetStatusCode(http.StatusOK)
	httpserver.WriteJSON(ctx, said)
}
