package httpapi

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/valyala/fasthttp"
)

var cursorParams = []string{"acq", "question", "force"}

func newJSONCursor(c cursors.Cursor, horizonNs int64) api.Cursor {
	return api.Cursor{Name: c.Name, Acq: record.FormatNs(c.AcqNs), AcqNs: c.AcqNs,
		Committed: record.FormatNs(c.CommittedNs), CommittedNs: c.CommittedNs,
		BehindNs: max(0, horizonNs-c.AcqNs), Question: c.Question}
}

func (s *Server) listCursors(req *httpserver.Request) {
	rc, cancel := s.context()
	defer cancel()
	horizon, err := s.horizonOfAll(rc)
	var list []cursors.Cursor
	if err == nil {
		list, err = s.Cursors.List(rc)
	}
	all := []api.Cursor{}
	for _, c := range list {
		all = append(all, newJSONCursor(c, horizon))
	}
	reply(req, api.Cursors{Cursors: all}, err)
}

func (s *Server) getCursor(req *httpserver.Request) {
	s.answerCursor(req, func(rc context.Context) (cursors.Cursor, error) {
		return s.Cursors.Get(rc, req.Name)
	})
}

func (s *Server) putCursor(req *httpserver.Request) {
	s.answerCursor(req, func(rc context.Context) (cursors.Cursor, error) {
		return s.commitCursor(rc, req.QueryArgs(), req.Name)
	})
}

func (s *Server) deleteCursor(req *httpserver.Request) {
	rc, cancel := s.context()
	defer cancel()
	err := checkNoBody(req)
	if err == nil {
		err = s.Cursors.Remove(rc, req.Name)
	}
	reply(req, removedName{req.Name}, err)
}

// answerCursor answers with the cursor that do returns, and how far it is behind.
func (s *Server) answerCursor(
	req *httpserver.Request, do func(rc context.Context) (cursors.Cursor, error),
) {
	rc, cancel := s.context()
	defer cancel()
	var c cursors.Cursor
	err := checkNoBody(req)
	if err == nil {
		c, err = do(rc)
	}
	horizon := int64(0)
	if err == nil {
		horizon, err = s.horizonOfAll(rc)
	}
	reply(req, newJSONCursor(c, horizon), err)
}

func (s *Server) commitCursor(
	rc context.Context, args *fasthttp.Args, name string,
) (c cursors.Cursor, err error) {
	text := string(args.Peek("acq"))
	acqNs, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return c, params.Bad("acq", fmt.Errorf("%q is not a number of ns, as changes say in "+
			"closed_ns", params.Clip(text)))
	}
	force, err := params.Flag(args, "force")
	if err != nil {
		return c, err
	}
	c = cursors.Cursor{Name: name, AcqNs: acqNs, Question: string(args.Peek("question"))}
	return s.Cursors.Commit(rc, c, force)
}
