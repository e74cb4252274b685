package node

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// jsonRow is a record in JSON.
type jsonRow struct {
	CID     int32   `json:"cid"`
	MID     int64   `json:"mid"`
	MOID    int32   `json:"moid"`
	Cap     string  `json:"cap"`
	CapNs   int64   `json:"cap_ns"`
	Acq     string  `json:"acq"`
	AcqNs   int64   `json:"acq_ns"`
	Value   any     `json:"value,omitempty"`
	Payload *string `json:"payload,omitempty"` // nil if Value has it all; "" is an empty one
	Deleted bool    `json:"deleted,omitempty"` // a tombstone, without value and payload
}

type jsonEnd struct {
	Complete bool   `json:"complete"`
	Reason   string `json:"reason,omitempty"` // why it is not complete, without an error
	Error    string `json:"error,omitempty"`
	Code     string `json:"code,omitempty"`

	Fault *api.Fault `json:"fault,omitempty"` // of a plugin

	Rows      uint64 `json:"rows"`
	HorizonNs int64  `json:"horizon_ns"`
	Blocks    uint64 `json:"blocks_scanned"`
	Examined  uint64 `json:"rows_examined"`
	PurgedNs  int64  `json:"purged_acq_ns,omitempty"`
	TookNs    int64  `json:"took_ns"`
}

func newJSONEnd(end wire.End, err error) jsonEnd {
	out := jsonEnd{Complete: end.Complete, Reason: end.Reason, Rows: end.Rows,
		HorizonNs: end.HorizonNs, Blocks: end.BlocksScanned, Examined: end.RowsExamined,
		TookNs: end.TookNs, PurgedNs: end.PurgedAcqNs}
	if err != nil {
		e := toWire(err)
		out.Complete, out.Error, out.Code = false, e.Message, e.Kind.String()
		if fault, ok := e.Fault(); ok {
			out.Fault = &fault
		}
	}
	return out
}

func rowOf(b *record.Batch, i int, kind payloadType, keys bool) jsonRow {
	r := b.Record(i)
	return rowOfRecord(&r, kind, keys)
}

func rowOfRecord(r *record.Record, kind payloadType, keys bool) jsonRow {
	row := jsonRow{CID: r.CID, MID: r.MID, MOID: r.MOID, CapNs: r.CapNs, AcqNs: r.AcqNs,
		Cap: record.FormatNs(r.CapNs), Acq: record.FormatNs(r.AcqNs)}
	if row.Deleted = r.Tomb; keys || row.Deleted {
		return row
	}
	if row.Value = kind.value(r.Payload); kind == payloadBase64 || row.Value == nil {
		text := base64.StdEncoding.EncodeToString(r.Payload)
		row.Value, row.Payload = nil, &text
	}
	return row
}

// ndjson reports whether the client wants lines instead of one document.
func ndjson(ctx *fasthttp.RequestCtx) (bool, error) {
	switch format := string(ctx.QueryArgs().Peek("format")); format {
	case "":
		return strings.Contains(string(ctx.Request.Header.Peek("Accept")),
			"application/x-ndjson"), nil
	case "json", "ndjson":
		return format == "ndjson", nil
	default:
		return false, params.Bad("format", fmt.Errorf("%q is not json or ndjson",
			params.Clip(format)))
	}
}

// getRecords answers with records: as lines, the last of which is {"end": ...}, or as one document
// {"records": [...], "end": ...}. The end contains an error of the stream.
func (s *server) getRecords(ctx *fasthttp.RequestCtx) {
	q, err := s.parseBox(ctx)
	s.records(ctx, q, err)
}

// records answers a normalized query for records; err is that of parsing it.
func (s *server) records(ctx *fasthttp.RequestCtx, q *record.Query, err error) {
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	s.streamRows(ctx, "records", q, func(
		rc context.Context, p *prepared, kind payloadType, out *jsonRowWriter,
	) (wire.End, error) {
		emit := func(b *record.Batch) error {
			for i := range b.Len() {
				if err := out.row(rowOf(b, i, kind, q.KeysOnly)); err != nil {
					return err
				}
			}
			return nil
		}
		return s.node.queryInto(rc, p, &orderedOutput{q: q, emit: emit})
	})
}

// streamRows answers a query with rows that give writes; name is their member in a document.
func (s *server) streamRows(ctx *fasthttp.RequestCtx, of string, q *record.Query, give func(
	rc context.Context, p *prepared, kind payloadType, out *jsonRowWriter) (wire.End, error),
) {
	kind, err := parsePayloadType(ctx)
	var lines bool
	if err == nil {
		lines, err = ndjson(ctx)
	}
	var permit *queryPermit
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
		permit.done()
		return // fasthttp would end an empty stream with one line too many
	}
	s.streamIn(ctx, permit, func(rc context.Context, w *bufio.Writer) error {
		out := jsonRowWriter{w: w, lines: lines, name: of}
		end, err := give(rc, &permit.prepared, kind, &out)
		return out.end(newJSONEnd(end, err))
	})
}

// jsonRowWriter writes rows as lines or as one document.
type jsonRowWriter struct {
	w     *bufio.Writer
	name  string // of the member with the rows
	lines bool
	rows  int
}

func (o *jsonRowWriter) row(row any) error {
	text, err := json.Marshal(row)
	if err != nil {
		return err
	}
	switch {
	case o.lines:
	case o.rows == 0:
		text = append([]byte(`{"`+o.name+`":[`+"\n"), text...)
	default:
		text = append([]byte(",\n"), text...)
	}
	if o.lines {
		text = append(text, '\n')
	}
	o.rows++
	_, err = o.w.Write(text)
	return err
}

func (o *jsonRowWriter) end(end jsonEnd) error {
	text, err := json.Marshal(end)
	if err != nil {
		return err
	}
	opening := `{"end":`
	if !o.lines {
		opening = "\n],\"end\":"
		if o.rows == 0 {
			opening = `{"` + o.name + `":[],"end":`
		}
	}
	_, err = o.w.WriteString(opening + string(text) + "}\n")
	return err
}

func (s *server) count(ctx *fasthttp.RequestCtx) {
	q, err := s.parseBox(ctx)
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	rc, cancel := s.requestContext(ctx)
	defer cancel()
	records, end, err := s.node.Count(rc, q)
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	setStatus(ctx, &end)
	httpserver.WriteJSON(ctx, map[string]any{"records": records, "end": newJSONEnd(end, nil)})
}

// runPlugin answers with the groups of an aggregate, each result as its fields.
func (s *server) runPlugin(ctx *fasthttp.RequestCtx, name string) {
	q, err := s.parseBox(ctx)
	var v *registry.Version
	if err == nil {
		v, err = s.node.plugins.UseKind(s.http.Running(), name, plugin.KindAggregate)
	}
	if err == nil {
		defer s.node.plugins.Release(v)
		q.Aggregate, err = s.parseCall(ctx.QueryArgs(), v, &q.Box, "params",
			string(ctx.QueryArgs().Peek("params")))
	}
	if err == nil {
		err = parseGroups(ctx, q)
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
	rc, cancel := s.requestContext(ctx)
	defer cancel()
	groups, end, err := s.node.Aggregate(rc, q)
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	out := make([]map[string]any, 0, len(groups))
	for i := range groups {
		row, err := renderGroup(v, &groups[i], q.GroupBy)
		if err != nil {
			httpserver.WriteError(ctx, &wire.Error{Kind: wire.KindPluginFailed,
				Message: err.Error()})
			return
		}
		finish(row, &groups[i])
		out = append(out, row)
	}
	setStatus(ctx, &end)
	httpserver.WriteJSON(ctx, map[string]any{list: out, "end": newJSONEnd(end, nil)})
}

func renderGroup(v *registry.Version, g *wire.Group, by record.GroupBy) (map[string]any, error) {
	row := map[string]any{"records": g.Records}
	if by.CID {
		row["cid"] = g.CID
	}
	if by.MID {
		row["mid"] = g.MID
	}
	if by.MOID {
		row["moid"] = g.MOID
	}
	if by.ByCap() {
		row["cap"], row["cap_ns"] = record.FormatNs(g.CapNs), g.CapNs
	}
	values, err := v.Doc.Render(g.Result)
	if err != nil {
		return nil, err
	}
	result := map[string]any{}
	for _, v := range values {
		result[v.Name] = forJSON(v.Value)
	}
	row["result"] = result
	return row, nil
}
