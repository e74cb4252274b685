package httpapi

import (
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/sdk/api"
)

func (s *Server) deleteSnapshot(req *httpserver.Request) {
	if err := s.Snapshots.Remove(req.Name); err != nil {
		fail(req, err)
		return
	}
	req.JSON(removedName{req.Name})
}

func (s *Server) createSnapshot(req *httpserver.Request) {
	rc, cancel := s.context()
	defer cancel()
	info, err := s.Snapshots.Create(rc, string(req.QueryArgs().Peek("name")))
	reply(req, info, err)
}

func (s *Server) listSnapshots(req *httpserver.Request) {
	all, err := s.Snapshots.List()
	if err != nil {
		fail(req, err)
		return
	}
	req.JSON(api.Snapshots{Snapshots: all})
}
