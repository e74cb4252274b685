package httpapi

import (
	"bufio"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

var batches = sync.Pool{New: func() any { return new(record.Batch) }}

// mostPooledBytes keeps batches of large payloads out of the pool.
const mostPooledBytes = 4 << 20

func (s *Server) put(req *httpserver.Request) {
	rc, cancel := s.context()
	defer cancel()
	p := wire.Put{Batch: batches.Get().(*record.Batch)}
	defer func() {
		if cap(p.Batch.Data) <= mostPooledBytes {
			batches.Put(p.Batch)
		}
	}()
	p.Reserve = func(bytes uint64) error { return httpserver.ReserveDecoded(req.RequestCtx, bytes) }
	res, err := s.putFrame(rc, req, &p)
	if err != nil {
		fail(req, err)
		return
	}
	req.SetContentType(wire.ContentType)
	req.SetBody(wire.AppendPutReply(nil, &wire.PutReply{FirstAcqNs: res.FirstAcqNs,
		LastAcqNs: res.LastAcqNs, Records: uint32(res.Records), Duplicate: res.Duplicate}))
}

// query streams the answer. An error before the first frame has an HTTP status; a later one is an
// error frame in place of the end frame.
func (s *Server) query(req *httpserver.Request) {
	q := new(record.Query)
	if err := wire.ParseQuery(req.PostBody(), q); err != nil {
		fail(req, err)
		return
	}
	req.SetContentType(wire.ContentType)
	if q.Aggregate.Name != "" {
		s.aggregate(req, q)
		return
	}
	admitted, err := s.prepare(req, q)
	if err != nil {
		fail(req, err)
		return
	}
	s.streamIn(req, admitted, func(rc context.Context, w *bufio.Writer) error {
		end, err := admitted.Frames(rc, func(frames []byte) error {
			_, err := w.Write(frames)
			return err
		})
		last := wire.AppendEnd(nil, &end)
		if err != nil {
			last = wire.AppendError(nil, nodeerror.ToWire(err))
		}
		_, err = w.Write(last)
		return err
	})
}

// countFrame answers a query frame with an end frame, whose rows are the count.
func (s *Server) countFrame(req *httpserver.Request) {
	q := new(record.Query)
	err := wire.ParseQuery(req.PostBody(), q)
	if err == nil && q.Aggregate.Name != "" {
		err = &wire.Error{Kind: wire.KindInvalid, Part: "aggregate",
			Message: "a count has none; ask /v1/query for its groups"}
	}
	if err != nil {
		fail(req, err)
		return
	}
	rc, cancel := s.requestContext(req)
	defer cancel()
	_, end, err := s.Engine.Count(rc, req.Options, q)
	if err != nil {
		fail(req, err)
		return
	}
	setStatus(req, &end)
	req.SetContentType(wire.ContentType)
	req.SetBody(wire.AppendEnd(nil, &end))
}

// groupsPerFrame bounds a groups frame.
const groupsPerFrame = 4096

// aggregate answers with groups. Groups that do not fit into memory are streamed, with errors as
// frames in place of the end frame.
func (s *Server) aggregate(req *httpserver.Request, q *record.Query) {
	admitted, err := s.prepare(req, q)
	if err != nil {
		fail(req, err)
		return
	}
	streamed := false
	defer func() {
		if !streamed {
			admitted.Done()
		}
	}()
	rc, cancel := s.watchedContext(req.Conn(), admitted.Options())
	defer cancel()
	found, err := admitted.Groups(rc)
	if err != nil {
		fail(req, err)
		return
	}
	var body []byte
	keyed := q.GroupBy.Key != ""
	each := func(rc context.Context, full func() error) (wire.End, error) {
		return found.Each(rc, func(groups []wire.Group) error {
			for len(groups) > 0 {
				n := min(len(groups), groupsPerFrame)
				body = wire.AppendGroups(body, groups[:n], keyed)
				groups = groups[n:]
				if err := full(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if !found.Spilled() {
		end, _ := each(rc, func() error { return nil }) // cannot fail
		setStatus(req, &end)
		req.SetBody(wire.AppendEnd(body, &end))
		return
	}
	streamed = true
	setStatus(req, found.End())
	s.streamIn(req, admitted, func(rc context.Context, w *bufio.Writer) error {
		end, err := each(rc, func() error {
			_, err := w.Write(body)
			body = body[:0]
			return err
		})
		last := wire.AppendEnd(nil, &end)
		if err != nil {
			last = wire.AppendError(nil, nodeerror.ToWire(err))
		}
		_, err = w.Write(last)
		return err
	})
}

// states answers a query frame with frames of states. An error is a frame in place of the end
// frame.
func (s *Server) states(req *httpserver.Request) {
	q := new(record.Query)
	err := wire.ParseQuery(req.PostBody(), q)
	if err == nil && q.Aggregate.Name == "" {
		err = &wire.Error{Kind: wire.KindInvalid, Part: "aggregate",
			Message: "there is none; states are those of its groups"}
	}
	if err != nil {
		fail(req, err)
		return
	}
	req.SetContentType(wire.ContentType)
	s.stream(req, func(rc context.Context, w *bufio.Writer) error {
		var body []byte
		var frame []wire.GroupState
		size, keyed := 0, q.GroupBy.Key != ""
		end, err := s.Engine.States(rc, req.Options, q, func(one wire.GroupState) error {
			if size += len(one.State); size > wire.MaxStatesBytes || len(frame) == groupsPerFrame {
				body = wire.AppendStates(body[:0], frame, keyed)
				frame, size = frame[:0], len(one.State)
				if _, err := w.Write(body); err != nil {
					return err
				}
			}
			frame = append(frame, one)
			return nil
		})
		if len(frame) > 0 && err == nil {
			body = wire.AppendStates(body[:0], frame, keyed)
		}
		last := wire.AppendEnd(body, &end)
		if err != nil {
			last = wire.AppendError(nil, nodeerror.ToWire(err))
		}
		_, err = w.Write(last)
		return err
	})
}

// putFrame stores the batch of a frame: with ParamPrevious only after the batch with that sequence.
// With ParamWriter there is no frame, and it only tells whether a batch could be stored so.
func (s *Server) putFrame(
	rc context.Context, req *httpserver.Request, p *wire.Put,
) (store.PutResult, error) {
	args := req.QueryArgs()
	asksOnly := args.Has(wire.ParamWriter)
	var err error
	if asksOnly {
		err = cmp.Or(checkNoBody(req), parseWriter(args, p))
	} else {
		err = wire.ParsePut(req.PostBody(), p)
	}
	if err != nil {
		return store.PutResult{}, err
	}
	httpserver.ReleaseBody(req.RequestCtx)
	w := store.WriterSeq{ID: p.Writer, Seq: p.Seq, Persistent: p.Persistent}
	text := string(args.Peek(wire.ParamPrevious))
	if text == "" && !asksOnly {
		return s.putUnlessNewer(rc, string(args.Peek(wire.ParamUnlessNewer)), p.Batch, w)
	}
	previous, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil, w.ID == [16]byte{}:
		return store.PutResult{}, params.Bad(wire.ParamPrevious,
			fmt.Errorf("%.40q is not the sequence of a batch of a writer", text))
	case asksOnly:
		return store.PutResult{}, s.Writes.Follows(w.Writer(), previous)
	}
	return s.Writes.PutAfter(rc, p.Batch, w, previous)
}

// putUnlessNewer stores a batch: of descriptions, with an acq, only if its devices have none that
// are newer.
func (s *Server) putUnlessNewer(
	rc context.Context, text string, b *record.Batch, w store.WriterSeq,
) (store.PutResult, error) {
	if text == "" {
		return s.Writes.Put(rc, b, w)
	}
	newestNs, err := strconv.ParseInt(text, 10, 64)
	if err == nil && (newestNs < 0 || newestNs == math.MaxInt64 || w.Persistent) {
		err = errors.New("it is not an acq, or the writer is a persistent one")
	}
	if err == nil && !store.Describes(b) {
		err = errors.New("the batch describes no device")
	}
	if err != nil {
		return store.PutResult{}, params.Bad(wire.ParamUnlessNewer,
			fmt.Errorf("%.40q: %w", text, err))
	}
	return s.Writes.PutUnlessNewer(rc, b, w, newestNs)
}

// parseWriter parses the writer of a put without a frame.
func parseWriter(args *fasthttp.Args, p *wire.Put) (err error) {
	text := string(args.Peek(wire.ParamWriter))
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(p.Writer) {
		return params.Bad(wire.ParamWriter, fmt.Errorf("%.40q is not 32 hex digits", text))
	}
	copy(p.Writer[:], raw)
	p.Persistent, err = params.Flag(args, wire.ParamPersistent)
	return err
}
