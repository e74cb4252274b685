package node

import (
	"bufio"
	"context"
	"sync"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

var batches = sync.Pool{New: func() any { return new(record.Batch) }}

// maxPooledBytes keeps a batch of large payloads from being kept for ever.
const maxPooledBytes = 4 << 20

func (s *server) put(ctx *fasthttp.RequestCtx) {
	rc, cancel := s.context()
	defer cancel()
	p := wire.Put{Batch: batches.Get().(*record.Batch)}
	defer func() {
		if cap(p.Batch.Data) <= maxPooledBytes {
			batches.Put(p.Batch)
		}
	}()
	if err := wire.ParsePut(ctx.PostBody(), &p); err != nil {
		writeError(ctx, toWire(err))
		return
	}
	res, err := s.node.Put(rc, p.Batch, store.WriterSeq{ID: p.Writer, Seq: p.Seq})
	if err != nil {
		writeError(ctx, toWire(err))
		return
	}
	ctx.SetContentType(wire.ContentType)
	ctx.SetBody(wire.AppendPutReply(nil, &wire.PutReply{FirstAcqNs: res.FirstAcqNs,
		LastAcqNs: res.LastAcqNs, Records: uint32(res.Records), Duplicate: res.Duplicate}))
}

// query streams the answer. What goes wrong before the first frame has an HTTP status of its own;
// later it is an error frame in place of the end frame.
func (s *server) query(ctx *fasthttp.RequestCtx) {
	q := new(record.Query)
	if err := wire.ParseQuery(ctx.PostBody(), q); err != nil {
		writeError(ctx, toWire(err))
		return
	}
	ctx.SetContentType(wire.ContentType)
	if q.Aggregate.Name != "" {
		s.aggregate(ctx, q)
		return
	}
	done, err := s.node.precheck(q)
	if err != nil {
		writeError(ctx, toWire(err))
		return
	}
	s.streamUntil(ctx, done, func(rc context.Context, w *bufio.Writer) error {
		end, err := s.node.queryFrames(rc, q, func(frames []byte) error {
			_, err := w.Write(frames)
			return err
		})
		last := wire.AppendEnd(nil, &end)
		if err != nil {
			last = wire.AppendError(nil, toWire(err))
		}
		_, err = w.Write(last)
		return err
	})
}

// countFrame answers a query frame with an end frame alone, whose rows are the count.
func (s *server) countFrame(ctx *fasthttp.RequestCtx) {
	q := new(record.Query)
	err := wire.ParseQuery(ctx.PostBody(), q)
	if err == nil && q.Aggregate.Name != "" {
		err = &wire.Error{Kind: wire.KindInvalid, Part: "aggregate",
			Message: "a count has none; ask /v1/query for its groups"}
	}
	if err != nil {
		writeError(ctx, toWire(err))
		return
	}
	rc, cancel := s.scoped(ctx)
	defer cancel()
	_, end, err := s.node.Count(rc, q)
	if err != nil {
		writeError(ctx, toWire(err))
		return
	}
	setStatus(ctx, &end)
	ctx.SetContentType(wire.ContentType)
	ctx.SetBody(wire.AppendEnd(nil, &end))
}

// tail returns a copy of the rows of a batch from n on.
func tail(b *record.Batch, n int) *record.Batch {
	rest := &record.Batch{}
	for i := n; i < b.Len(); i++ {
		rest.AppendRow(b, i)
	}
	return rest
}

// groupsPerFrame bounds a groups frame.
const groupsPerFrame = 4096

func (s *server) aggregate(ctx *fasthttp.RequestCtx, q *record.Query) {
	rc, cancel := s.scoped(ctx)
	defer cancel()
	groups, end, err := s.node.Aggregate(rc, q)
	if err != nil {
		writeError(ctx, toWire(err))
		return
	}
	var body []byte
	for len(groups) > 0 {
		n := min(len(groups), groupsPerFrame)
		body = wire.AppendGroups(body, groups[:n])
		groups = groups[n:]
	}
	setStatus(ctx, &end)
	ctx.SetBody(wire.AppendEnd(body, &end))
}

// states answers a query frame with frames of states.
func (s *server) states(ctx *fasthttp.RequestCtx) {
	q := new(record.Query)
	err := wire.ParseQuery(ctx.PostBody(), q)
	if err == nil && q.Aggregate.Name == "" {
		err = &wire.Error{Kind: wire.KindInvalid, Part: "aggregate",
			Message: "there is none; states are those of its groups"}
	}
	rc, cancel := s.scoped(ctx)
	defer cancel()
	var body []byte
	var frame []wire.GroupState
	size := 0
	var end wire.End
	if err == nil {
		end, err = s.node.States(rc, q, func(one wire.GroupState) error {
			if size += len(one.State); size > wire.MaxStatesBytes || len(frame) == groupsPerFrame {
				body, frame, size = wire.AppendStates(body, frame), frame[:0], len(one.State)
			}
			frame = append(frame, one)
			return nil
		})
	}
	if err != nil {
		writeError(ctx, toWire(err))
		return
	}
	if len(frame) > 0 {
		body = wire.AppendStates(body, frame)
	}
	setStatus(ctx, &end)
	ctx.SetContentType(wire.ContentType)
	ctx.SetBody(wire.AppendEnd(body, &end))
}
