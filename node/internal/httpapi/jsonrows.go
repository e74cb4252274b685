package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/quantity"
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

// trailerEnd has the end of an answer whose rows do not have it: a trailer, or a header of an
// answer that is whole before it is sent.
const trailerEnd = "Pentad-End"

// parseFormat returns the format of rows that the client wants.
func parseFormat(req *httpserver.Request) (rowjson.Format, error) {
	return rowjson.ParseFormat(string(req.QueryArgs().Peek("format")),
		string(req.Request.Header.Peek("Accept")))
}

// getRecords answers with records: as one document {"records": [...], "end": ...}, as lines or as
// CSV. The end contains an error of the stream. Where it is told apart from the rows, an answer
// that fails is cut off, so that no client takes it for whole.
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
	s.streamRows(req, "records", rowjson.Row{}, q, func(
		rc context.Context, a *engine.Admitted, payloads quantity.Types, out *rowjson.Writer,
	) (wire.End, error) {
		emit := func(b *record.Batch) error {
			for i := range b.Len() {
				r := b.Record(i)
				if err := out.Record(&r, payloads, q.KeysOnly); err != nil {
					return err
				}
			}
			return nil
		}
		return a.Rows(rc, emit)
	})
}

// streamRows answers a query with the rows that give writes; of is their member in a document, and
// row one of their type.
func (s *Server) streamRows(
	req *httpserver.Request, of string, row any, q *record.Query,
	give func(rc context.Context, a *engine.Admitted, payloads quantity.Types,
		out *rowjson.Writer) (wire.End, error),
) {
	payloads, err := s.payloads(req)
	var format rowjson.Format
	if err == nil {
		format, err = parseFormat(req)
	}
	var admitted *engine.Admitted
	if err == nil {
		admitted, err = s.prepare(req, q)
	}
	if err != nil {
		fail(req, err)
		return
	}
	req.SetContentType(format.ContentType())
	req.Response.Header.Set("Vary", "Accept")
	if req.IsHead() {
		admitted.Done()
		return // fasthttp would end an empty stream with one line too many
	}
	if format.EndsOutside() {
		if err := req.Response.Header.AddTrailer(trailerEnd); err != nil {
			panic("BUG: not a trailer: " + err.Error())
		}
	}
	s.streamZipped(req, admitted, func(rc context.Context, w *bufio.Writer) error {
		out := rowjson.Writer{W: w, Format: format, Name: of}
		if err := out.Begin(row); err != nil {
			return err
		}
		end, failure := give(rc, admitted, payloads, &out)
		last := newEnd(end, failure)
		if err := out.End(last); err != nil || !format.EndsOutside() {
			return err
		}
		if failure != nil {
			return errors.Join(w.Flush(), failure)
		}
		return setEnd(req, last)
	})
}

// setEnd tells the end of an answer apart from its rows.
func setEnd(req *httpserver.Request, end rowjson.End) error {
	text, err := json.Marshal(end)
	if err == nil {
		req.Response.Header.SetBytesV(trailerEnd, text)
	}
	return err
}

func (s *Server) count(req *httpserver.Request) {
	q, err := s.parseCounted(req)
	if err == nil {
		err = q.Normalize()
	}
	if err != nil {
		fail(req, err)
		return
	}
	rc, cancel := s.requestContext(req)
	defer cancel()
	records, end, err := s.Engine.Count(rc, req.Options, q)
	if err != nil {
		fail(req, err)
		return
	}
	setStatus(req, &end)
	req.JSON(counted{End: rowjson.NewEnd(end, nil), Records: records})
}

// runPlugin answers with the groups of an aggregate, each result as its fields.
func (s *Server) runPlugin(req *httpserver.Request) {
	q, err := s.parseCounted(req)
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
	groups, end, err := s.Engine.Aggregate(rc, req.Options, q)
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
	last := rowjson.NewEnd(end, nil)
	req.Response.Header.Set("Vary", "Accept")
	if format, _ := rowjson.ParseFormat("", string(req.Request.Header.Peek("Accept"))); format !=
		rowjson.CSV {
		req.JSON(map[string]any{list: out, "end": last})
		return
	}
	req.SetContentType(rowjson.CSV.ContentType())
	var text bytes.Buffer
	if err = rowjson.WriteGroups(&text, q.GroupBy.Key, out); err == nil {
		err = setEnd(req, last)
	}
	if err != nil {
		fail(req, err)
		return
	}
	req.SetBody(text.Bytes())
}
