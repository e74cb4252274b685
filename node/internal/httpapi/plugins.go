package httpapi

import (
	"bytes"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/sdk/api"
)

var (
	pushParams    = []string{"owner", "description"}
	failureParams = []string{"plugin"}
)

func (s *Server) listPlugins(req *httpserver.Request) {
	damage := s.Plugins.Damage()
	if damage == nil {
		damage = []string{}
	}
	req.JSON(api.Plugins{Plugins: s.Plugins.List(), Damage: damage})
}

// checkPlugin describes a module that is not kept.
func (s *Server) checkPlugin(req *httpserver.Request) {
	rc, cancel := s.context()
	defer cancel()
	details, err := s.Plugins.Check(rc, bytes.Clone(req.PostBody()))
	reply(req, details, err)
}

func (s *Server) listFailures(req *httpserver.Request) {
	all := s.Engine.PluginFailures(string(req.QueryArgs().Peek("plugin")))
	req.JSON(api.PluginFailures{Failures: all})
}

func (s *Server) showPlugin(req *httpserver.Request) {
	rc, cancel := s.context()
	defer cancel()
	details, err := s.Plugins.Details(rc, req.Name)
	reply(req, details, err)
}

func (s *Server) pushPlugin(req *httpserver.Request) {
	rc, cancel := s.context()
	defer cancel()
	args := req.QueryArgs()
	info, err := s.Plugins.Push(rc, registry.Upload{Name: req.Name,
		Owner: string(args.Peek("owner")), Description: string(args.Peek("description")),
		Wasm: bytes.Clone(req.PostBody())})
	reply(req, info, err)
}

func (s *Server) promotePlugin(req *httpserver.Request) {
	info, err := s.Plugins.Promote(s.opt.Open, req.Name)
	reply(req, info, err)
}

func (s *Server) removePlugin(req *httpserver.Request) {
	removed, err := s.Plugins.Remove(s.opt.Open, req.Name)
	reply(req, api.Removed{Removed: removed}, err)
}
