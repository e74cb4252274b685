package httpapi

import (
	"net/http"

	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/wire"
)

// ready answers /readyz: whether the node should get requests.
func (s *Server) ready(req *httpserver.Request) {
	said, err := s.readiness()
	reply(req, said, err)
}

func (s *Server) readiness() (said api.Readiness, err error) {
	if s.closing() {
		return said, nodeerror.ErrClosing
	}
	if err := s.serving(); err != nil {
		return said, err
	}
	problems := s.opt.Problems()
	if p := health.Unready(problems); p != nil {
		return said, &wire.Error{Kind: wire.KindUnavailable, Message: health.Text(p)}
	}
	said = api.Readiness{Status: "ready", Problems: problems}
	if m := s.Member.Load(); m != nil {
		rc, cancel := s.context()
		defer cancel()
		err := m.Ready(rc)
		if err == nil {
			err = s.Engine.CheckRouted(m)
		}
		if err != nil {
			return said, &wire.Error{Kind: wire.KindUnavailable, Message: err.Error()}
		}
		said.Nodes = m.Addresses()
	}
	return said, nil
}

// alive answers /healthz: whether starting the process again would help.
func (s *Server) alive(req *httpserver.Request) {
	problems := s.opt.Problems()
	for i := range problems {
		if problems[i].Restart {
			req.Fail(&wire.Error{Kind: wire.KindUnavailable,
				Message: health.Text(&problems[i])})
			return
		}
	}
	status := "ok"
	if len(problems) > 0 {
		status = "problems"
	}
	req.JSON(api.Readiness{Status: status, Problems: problems})
}

// healthState answers GET /v1/health: everything that is wrong, with status 200.
func (s *Server) healthState(req *httpserver.Request) {
	said := api.Health{Ready: true, Problems: s.opt.Problems()}
	if _, err := s.readiness(); err != nil {
		said.Ready, said.Reason = false, nodeerror.ToWire(err).Message
	}
	req.SetStatusCode(http.StatusOK)
	req.JSON(said)
}

// serving returns an error if the node has left its cluster: load balancers should use another one.
func (s *Server) serving() error {
	m := s.Member.Load()
	if m == nil || !m.HasLeft() {
		return nil
	}
	return &wire.Error{Kind: wire.KindUnavailable, Message: "this node has left its cluster; " +
		"stop it and use another one"}
}
