package node

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/valyala/fasthttp"
)

var cursorParams = []string{"acq", "force"}

func newJSONCursor(c cursors.Cursor, horizonNs int64) api.Cursor {
	return api.Cursor{Name: c.Name, Acq: record.FormatNs(c.AcqNs), AcqNs: c.AcqNs,
		Committed: record.FormatNs(c.CommittedNs), CommittedNs: c.CommittedNs,
		BehindNs: max(0, horizonNs-c.AcqNs)}
}

func (s *server) listCursors(ctx *fasthttp.RequestCtx) {
	rc, cancel := s.context()
	defer cancel()
	horizon, err := s.node.Horizon(rc)
	var list []cursors.Cursor
	if err == nil {
		list, err = s.node.Cursors(rc)
	}
	all := []api.Cursor{}
	for _, c := range list {
		all = append(all, newJSONCursor(c, horizon))
	}
	reply(ctx, api.Cursors{Cursors: all}, err)
}

func (s *server) getCursor(ctx *fasthttp.RequestCtx, name string) {
	s.answerCursor(ctx, func(rc context.Context) (cursors.Cursor, error) {
		return s.node.Cursor(rc, name)
	})
}

func (s *server) putCursor(ctx *fasthttp.RequestCtx, name string) {
	s.answerCursor(ctx, func(rc context.Context) (cursors.Cursor, error) {
		return s.commitCursor(rc, ctx.QueryArgs(), name)
	})
}

func (s *server) deleteCursor(ctx *fasthttp.RequestCtx, name string) {
	rc, cancel := s.context()
	defer cancel()
	err := checkNoBody(ctx)
	if err == nil {
		err = s.node.RemoveCursor(rc, name)
	}
	reply(ctx, map[string]string{"removed": name}, err)
}

// answerCursor answers with the cursor that do returns, and how far it is behind.
func (s *server) answerCursor(
	ctx *fasthttp.RequestCtx, do func(rc context.Context) (cursors.Cursor, error),
) {
	rc, cancel := s.context()
	defer cancel()
	var c cursors.Cursor
	err := checkNoBody(ctx)
	if err == nil {
		c, err = do(rc)
	}
	horizon := int64(0)
	if err == nil {
		horizon, err = s.node.Horizon(rc)
	}
	reply(ctx, newJSONCursor(c, horizon), err)
}

func (s *server) commitCursor(
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
	return s.node.CommitCursor(rc, name, acqNs, force)
}
