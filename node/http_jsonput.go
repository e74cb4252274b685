package node

import (
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/commands"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/puts"
	"github.com/pentad-db/pentad/node/internal/rowjson"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

type rejected struct {
	Line    int    `json:"line"`
	Message string `json:"message"`
}

// maxRejectedShown bounds the list of rejected records in an answer.
const maxRejectedShown = 100

// withoutRow leaves the row out of an error whose line is told.
func withoutRow(err error) error {
	var invalid *record.InvalidError
	if errors.As(err, &invalid) {
		invalid.Row = -1
	}
	return err
}

// postRecords stores valid records and lists invalid ones; with atomic=1 it stores all or none.
func (s *server) postRecords(ctx *fasthttp.RequestCtx) {
	var atomic bool
	kind, err := rowjson.ParsePayloadType(string(ctx.QueryArgs().Peek("type")))
	if err == nil {
		atomic, err = params.Flag(ctx.QueryArgs(), "atomic")
	}
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	if err := httpserver.Needs(ctx, uint64(len(ctx.PostBody()))); err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	records, lines, err := rowjson.SplitRecords(ctx.PostBody())
	if err == nil && len(records) == 0 {
		err = errors.New("it holds none")
	}
	if err != nil {
		httpserver.WriteError(ctx, &wire.Error{Kind: wire.KindInvalid, Part: "body",
			Message: fmt.Sprintf(
				"body is not a JSON record, an array of them or one a line: %v", err)})
		return
	}
	var b record.Batch
	bad := []rejected{}
	good := make([]int, 0, len(records)) // lines of what b has
	now := s.node.now()
	for i, src := range records {
		r, err := rowjson.ParseRecord(src, kind, now)
		if err == nil {
			one := record.Batch{CID: []int32{r.CID}, MID: []int64{r.MID}, MOID: []int32{r.MOID},
				CapNs: []int64{r.CapNs}, Stride: len(r.Payload), Data: r.Payload}
			err = withoutRow(one.Validate())
		}
		if err != nil {
			bad = append(bad, rejected{lines[i], err.Error()})
			continue
		}
		b.AppendRecord(r)
		good = append(good, lines[i])
	}
	if len(bad) > 0 && (atomic || b.Len() == 0) {
		httpserver.WriteError(ctx, &wire.Error{Kind: wire.KindInvalid, Part: "body",
			Message: fmt.Sprintf(
				"nothing is stored: %d of %d records are wrong, first on line %d: %s",
				len(bad), len(records), bad[0].Line, bad[0].Message)})
		return
	}
	s.store(ctx, &b, good, bad, atomic)
}

// store stores the records of some lines of a body.
func (s *server) store(
	ctx *fasthttp.RequestCtx, b *record.Batch, lines []int, bad []rejected, atomic bool,
) {
	if atomic && b.Len() > record.MaxBatchRecords {
		httpserver.WriteError(ctx, &wire.Error{Kind: wire.KindTooLarge, Message: fmt.Sprintf(
			"%d records at once, at most %d with atomic=1", b.Len(), record.MaxBatchRecords)})
		return
	}
	// Under a writer, so that all of it can be sent again where the outcome is unknown.
	w := s.node.writerPool.Take()
	keyed := false
	if key := ctx.Request.Header.Peek("Idempotency-Key"); len(key) > 0 {
		s.node.writerPool.Give(w)
		var err error
		if w, err = puts.ParseKey(string(key)); err != nil {
			httpserver.WriteError(ctx, toWire(err))
			return
		}
		keyed = true
	}
	rc, cancel := s.context()
	defer cancel()
	written, last, duplicate := 0, int64(0), true
	for rest, part := b, 0; rest.Len() > 0; part++ {
		some := rest.Head(min(rest.Len(), record.MaxBatchRecords))
		res, err := s.node.Put(rc, some, puts.PartOf(w, part))
		if err != nil {
			e := commands.RestOf(err, w, written, some.Len(), b.Len(), keyed)
			httpserver.WriteError(ctx, e.WireOf(func(row int) int { return lines[row] }))
			return
		}
		if res.Records != some.Len() {
			httpserver.WriteError(ctx, otherBody(res.Records, some.Len()))
			return
		}
		written, last, duplicate = written+some.Len(), res.LastAcqNs, duplicate && res.Duplicate
		rest = puts.Tail(rest, some.Len())
	}
	if !keyed {
		s.node.writerPool.Give(w)
	}
	httpserver.WriteJSON(ctx, map[string]any{"written": written, "rejected": len(bad),
		"rejects": bad[:min(len(bad), maxRejectedShown)], "duplicate": duplicate,
		"acq_ns": last, "acq": record.FormatNs(last)})
}

// otherBody is the error of a body under a key that another one was stored under.
func otherBody(stored, rows int) *wire.Error {
	return &wire.Error{Kind: wire.KindInvalid, Part: "Idempotency-Key", Message: fmt.Sprintf(
		"this key was used before, with another body: there are %d records where %d are stored; "+
			"these stay, and nothing of this body is stored; use another key", rows, stored)}
}
