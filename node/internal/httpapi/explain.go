package httpapi

import (
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// explain takes the parameters of records, so that a query can be explained unchanged. Those of the
// output format are ignored.
func (s *Server) explain(req *httpserver.Request) {
	q, err := s.parseReadings(req)
	if err == nil {
		err = q.Normalize()
	}
	if err == nil {
		_, err = s.payloads(req)
	}
	if err == nil {
		_, err = parseFormat(req)
	}
	s.writeExplanation(req, q, err)
}

// explainFrame answers a query frame with the same document.
func (s *Server) explainFrame(req *httpserver.Request) {
	q := new(record.Query)
	err := wire.ParseQuery(req.PostBody(), q)
	s.writeExplanation(req, q, err)
}

// writeExplanation explains a query, unless reading it failed.
func (s *Server) writeExplanation(req *httpserver.Request, q *record.Query, err error) {
	var x api.Explanation
	if err == nil {
		rc, cancel := s.requestContext(req)
		defer cancel()
		x, err = s.Engine.Explain(rc, req.Options, q)
	}
	reply(req, x, err)
}
