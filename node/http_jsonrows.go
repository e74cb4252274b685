package node

import (
	"bufio"
	"context"

	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/internal/rowjson"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// newEnd returns the end of an answer in JSON; err is nil for none.
func newEnd(end wire.End, err error) rowjson.End {
	if err != nil {
		return rowjson.NewEnd(end, toWire(err))
	}
	return rowjson.NewEnd(end, nil)
}

// parseLines reports whether the client wants lines instead of one document.
func parseLines(ctx *fasthttp.RequestCtx) (bool, error) {
	return rowjson.ParseLines(string(ctx.QueryArgs().Peek("format")),
		string(ctx.Request.Header.Peek("Accept")))
}

// getRecords answers with records: as lines, the last of which is {"end": ...}, or as one document
// {"records": [...], "end": ...}. The end contains an error of the stream.
func (s *server) getRecords(ctx *fasthttp.RequestCtx) {
	q, err := s.parseQuery(ctx)
	s.records(ctx, q, err)
}

// records answers a normalized query for records; err is that of parsing it.
func (s *server) records(ctx *fasthttp.RequestCtx, q *record.Query, err error) {
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	s.streamRows(ctx, "records", q, func(
		rc context.Context, a *engine.Admitted, kind rowjson.PayloadType, out *rowjson.Writer,
	) (wire.End, error) {
		emit := func(b *record.Batch) error {
			for i := range b.Len() {
				if err := out.Row(rowjson.RowOf(b, i, kind, q.KeysOnly)); err != nil {
					return err
				}
			}
			return nil
		}
		return a.Rows(rc, emit)
	})
}

// streamRows answers a query with the rows that give writes; of is their member in a document.
func (s *server) streamRows(
	ctx *fasthttp.RequestCtx, of string, q *record.Query,
	give func(rc context.Context, a *engine.Admitted, kind rowjson.PayloadType,
		out *rowjson.Writer) (wire.End, error),
) {
	kind, err := rowjson.ParsePayloadType(string(ctx.QueryArgs().Peek("type")))
	var lines bool
	if err == nil {
		lines, err = parseLines(ctx)
	}
	var permit *engine.Admitted
	if err == nil {
		permit, err = s.prepare(ctx, q)
	}
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	ctx.SetContentType("application/json")
	if lines {
		ctx.SetContentType("application/x-ndjson")
	}
	if ctx.IsHead() {
		permit.Done()
		return // fasthttp would end an empty stream with one line too many
	}
	s.streamIn(ctx, permit, func(rc context.Context, w *bufio.Writer) error {
		out := rowjson.Writer{W: w, Lines: lines, Name: of}
		end, err := give(rc, permit, kind, &out)
		return out.End(newEnd(end, err))
	})
}

func (s *server) count(ctx *fasthttp.RequestCtx) {
	q, err := s.parseQuery(ctx)
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	rc, asked, cancel := s.requestContext(ctx)
	defer cancel()
	records, end, err := s.node.engine.Count(rc, asked, q)
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	setStatus(ctx, &end)
	httpserver.WriteJSON(ctx, map[string]any{"records": records, "end": rowjson.NewEnd(end, nil)})
}

// runPlugin answers with the groups of an aggregate, each result as its fields.
func (s *server) runPlugin(ctx *fasthttp.RequestCtx, name string) {
	q, err := s.parseBox(ctx)
	var v *registry.Version
	if err == nil {
		v, err = s.node.plugins.UseKind(s.http.Running(), name, plugin.KindAggregate)
	}
	if err == nil {
		defer s.node.plugins.Unpin(v)
		q.Aggregate, err = s.parseCall(ctx.QueryArgs(), v, &q.Box, "params",
			string(ctx.QueryArgs().Peek("params")))
	}
	if err == nil {
		err = params.Groups(ctx.QueryArgs(), q)
	}
	if err == nil {
		err = q.Normalize()
	}
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	s.answerGroups(ctx, v, q, "groups", func(map[string]any, *wire.Group) {})
}

// answerGroups answers with the groups of an aggregate, each shaped by finish.
func (s *server) answerGroups(
	ctx *fasthttp.RequestCtx, v *registry.Version, q *record.Query, list string,
	finish func(row map[string]any, g *wire.Group),
) {
	rc, asked, cancel := s.requestContext(ctx)
	defer cancel()
	groups, end, err := s.node.engine.Aggregate(rc, asked, q)
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	out := make([]map[string]any, 0, len(groups))
	for i := range groups {
		row, err := rowjson.Group(v.Doc, &groups[i], q.GroupBy)
		if err != nil {
			httpserver.WriteError(ctx, &wire.Error{Kind: wire.KindPluginFailed,
				Message: err.Error()})
			return
		}
		finish(row, &groups[i])
		out = append(out, row)
	}
	setStatus(ctx, &end)
	httpserver.WriteJSON(ctx, map[string]any{list: out, "end": rowjson.NewEnd(end, nil)})
}
