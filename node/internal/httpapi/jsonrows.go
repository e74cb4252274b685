package httpapi

import (
	"bufio"
	"context"

	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/internal/rowjson"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// newEnd returns the end of an answer in JSON; err is nil for none.
func newEnd(end wire.End, err error) rowjson.End {
	if err != nil {
		return rowjson.NewEnd(end, nodeerror.ToWire(err))
	}
	return rowjson.NewEnd(end, nil)
}

// parseLines reports whether the client wants lines instead of one document.
func parseLines(req *httpserver.Request) (bool, error) {
	return rowjson.ParseLines(string(req.QueryArgs().Peek("format")),
		string(req.Request.Header.Peek("Accept")))
}

// getRecords answers with records: as lines, the last of which is {"end": ...}, or as one document
// {"records": [...], "end": ...}. The end contains an error of the stream.
func (s *Server) getRecords(req *httpserver.Request) {
	q, err := s.parseReadings(req)
	if err == nil {
		err = q.Normalize()
	}
	s.records(req, q, err)
}

// records answers a normalized query for records; err is that of parsing it.
func (s *Server) records(req *httpserver.Request, q *record.Query, err error) {
	if err != nil {
		fail(req, err)
		return
	}
	s.streamRows(req, "records", q, func(
		rc context.Context, a *engine.Admitted, payloads rowjson.Payloads, out *rowjson.Writer,
	) (wire.End, error) {
		emit := func(b *record.Batch) error {
			for i := range b.Len() {
				if err := out.Row(rowjson.RowOf(b, i, payloads, q.KeysOnly)); err != nil {
					return err
				}
			}
			return nil
		}
		return a.Rows(rc, emit)
	})
}

// streamRows answers a query with the rows that give writes; of is their member in a document.
func (s *Server) streamRows(
	req *httpserver.Request, of string, q *record.Query,
	give func(rc context.Context, a *engine.Admitted, payloads rowjson.Payloads,
		out *rowjson.Writer) (wire.End, error),
) {
	payloads, err := s.payloads(req)
	var lines bool
	if err == nil {
		lines, err = parseLines(req)
	}
	var admitted *engine.Admitted
	if err == nil {
		admitted, err = s.prepare(req, q)
	}
	if err != nil {
		fail(req, err)
		return
	}
	req.SetContentType("application/json")
	if lines {
		req.SetContentType("application/x-ndjson")
	}
	if req.IsHead() {
		admitted.Done()
		return // fasthttp would end an empty stream with one line too many
	}
	s.streamIn(req, admitted, func(rc context.Context, w *bufio.Writer) error {
		out := rowjson.Writer{W: w, Lines: lines, Name: of}
		end, err := give(rc, admitted, payloads, &out)
		return out.End(newEnd(end, err))
	})
}

func (s *Server) count(req *httpserver.Request) {
	q, err := s.parseReadings(req)
	if err == nil {
		err = q.Normalize()
	}
	if err != nil {
		fail(req, err)
		return
	}
	rc, cancel := s.requestContext(req)
	defer cancel()
	records, end, err := s.Engine.Count(rc, req.Asked, q)
	if err != nil {
		fail(req, err)
		return
	}
	setStatus(req, &end)
	req.JSON(counted{End: rowjson.NewEnd(end, nil), Records: records})
}

// runPlugin answers with the groups of an aggregate, each result as its fields.
func (s *Server) runPlugin(req *httpserver.Request) {
	q, err := s.parseReadings(req)
	var v *registry.Version
	if err == nil {
		v, err = s.Plugins.UseKind(s.http.Running(), req.Name, plugin.KindAggregate)
	}
	if err == nil {
		defer s.Plugins.Unpin(v)
		q.Aggregate, err = s.parseCall(req.QueryArgs(), v, &q.Box, "params",
			string(req.QueryArgs().Peek("params")))
	}
	if err == nil {
		err = params.Groups(req.QueryArgs(), q)
	}
	if err == nil {
		err = q.Normalize()
	}
	if err != nil {
		fail(req, err)
		return
	}
	s.answerGroups(req, v, q, "groups", func(map[string]any, *wire.Group) {})
}

// answerGroups answers with the groups of an aggregate, each shaped by finish.
func (s *Server) answerGroups(
	req *httpserver.Request, v *registry.Version, q *record.Query, list string,
	finish func(row map[string]any, g *wire.Group),
) {
	rc, cancel := s.requestContext(req)
	defer cancel()
	groups, end, err := s.Engine.Aggregate(rc, req.Asked, q)
	if err != nil {
		fail(req, err)
		return
	}
	out := make([]map[string]any, 0, len(groups))
	for i := range groups {
		row, err := rowjson.Group(v.Doc, &groups[i], q.GroupBy)
		if err != nil {
			req.Fail(&wire.Error{Kind: wire.KindPluginFailed,
				Message: err.Error()})
			return
		}
		finish(row, &groups[i])
		out = append(out, row)
	}
	setStatus(req, &end)
	req.JSON(map[string]any{list: out, "end": rowjson.NewEnd(end, nil)})
}
