package httpapi

import (
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
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
	var of api.ExplainOf
	if err == nil {
		of, err = s.parseExplainOf(req)
	}
	if err == nil {
		rc, cancel := s.requestContext(req)
		defer cancel()
		x, err = s.Engine.Explain(rc, req.Options, q, of)
		if err == nil {
			x.Notes = s.Engine.SelectorNotes(rc, req.Options, q)
		}
	}
	reply(req, x, err)
}

// parseExplainOf parses what is explained, and from when to when.
func (s *Server) parseExplainOf(req *httpserver.Request) (of api.ExplainOf, err error) {
	args := req.QueryArgs()
	of.Of = string(args.Peek("of"))
	times := map[string]bool{}
	switch of.Of {
	case "", api.ExplainVersions:
	case api.ExplainDiff:
		times["from"], times["to"] = true, true
		of.FromNs, of.ToNs, err = params.DiffTimes(args, s.Clock.Now())
	case api.ExplainChanges:
		times["since"] = true
		of.FromNs, err = parseSince(req, s.Clock.Now())
	default:
		err = params.Bad("of", fmt.Errorf("%q is not versions, diff or changes",
			params.Clip(of.Of)))
	}
	for _, name := range []string{"from", "to", "since"} {
		if args.Has(name) && !times[name] && err == nil {
			err = params.Bad(name, errors.New("is for of=diff, and since for of=changes"))
		}
	}
	return of, err
}
