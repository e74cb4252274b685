package httpapi

import (
	"bufio"
	"context"
	"errors"

	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/rowjson"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// checkMoments is that of the node, before an answer begins.
func (s *Server) checkMoments(req *httpserver.Request, ask *record.Diff) error {
	rc, cancel := s.requestContext(req)
	defer cancel()
	return s.Engine.CheckMoments(rc, req.Options, ask)
}

// Of records of a view that the path names, and of what is told of versions. These are of the whole
// history of readings, so they have no range of acq.
var (
	latestParams = []string{"cid", "mid", "moid", "cap", "acq", "select", "last", "where",
		"filter", "filter_params", "unchecked", "order", "limit", "keys", "type", "format",
		request.ParamPartial, request.ParamAfter, request.ParamRead, request.ParamWithin}
	asOfParams = []string{"at", "cid", "mid", "moid", "cap", "acq", "select", "last", "where",
		"filter", "filter_params", "unchecked", "order", "limit", "keys", "type", "format",
		request.ParamPartial, request.ParamAfter, request.ParamRead, request.ParamWithin}
	diffParams = []string{"cid", "mid", "moid", "cap", "select", "from", "to", "limit", "type",
		"format",
		request.ParamPartial, request.ParamAfter, request.ParamRead, request.ParamWithin}
	versionsParams = []string{"cid", "mid", "moid", "cap", "select", "everything", "type", "format",
		request.ParamPartial, request.ParamAfter, request.ParamRead, request.ParamWithin}
)

// diffFrame answers a diff frame with frames of differences. An error before the first has
// an HTTP status of its own; later it is an error frame in place of the end frame.
func (s *Server) diffFrame(req *httpserver.Request) {
	ask := new(record.Diff)
	err := wire.ParseDiff(req.PostBody(), ask)
	if err == nil {
		err = s.checkMoments(req, ask)
	}
	var admitted *engine.Admitted
	if err == nil {
		admitted, err = s.prepare(req, &record.Query{Box: ask.Box, Select: ask.Select})
	}
	if err != nil {
		fail(req, err)
		return
	}
	req.SetContentType(wire.ContentType)
	s.streamIn(req, admitted, func(rc context.Context, w *bufio.Writer) error {
		var buf []byte
		end, err := admitted.Diff(rc, ask, func(d *record.Differences) error {
			var err error
			if buf, err = wire.AppendDifferences(buf[:0], d); err != nil {
				return err
			}
			_, err = w.Write(buf)
			return err
		})
		buf = wire.AppendEnd(buf[:0], &end)
		if err != nil {
			buf = wire.AppendError(buf[:0], nodeerror.ToWire(err))
		}
		_, err = w.Write(buf)
		return err
	})
}

// versionsFrame answers a box frame with frames of versions.
func (s *Server) versionsFrame(req *httpserver.Request) {
	rc, cancel := s.requestContext(req)
	defer cancel()
	var box wire.Box
	err := wire.ParseBox(req.PostBody(), &box)
	var all []record.Version
	var end wire.End
	if err == nil {
		all, end, err = s.Engine.Versions(rc, req.Options, &box)
	}
	if err != nil {
		fail(req, err)
		return
	}
	setStatus(req, &end)
	req.SetContentType(wire.ContentType)
	s.stream(req, func(_ context.Context, w *bufio.Writer) error {
		var buf []byte
		for len(all) > 0 {
			n, err := framed(all), error(nil)
			if buf, err = wire.AppendVersions(buf[:0], all[:n]); err != nil {
				return err
			}
			if _, err := w.Write(buf); err != nil {
				return err
			}
			all = all[n:]
		}
		_, err := w.Write(wire.AppendEnd(buf[:0], &end))
		return err
	})
}

// versionsPerFrame bounds a frame of versions, as do their bytes.
const versionsPerFrame = 4096

// framed returns how many versions go into a frame.
func framed(all []record.Version) int {
	bytes := 0
	for i := range all {
		bytes += len(all[i].Payload)
		if i > 0 && bytes > record.MaxPayloadBytes || i == versionsPerFrame {
			return i
		}
	}
	return len(all)
}

// getDiff answers with differences, as getRecords does with records.
func (s *Server) getDiff(req *httpserver.Request) {
	q, err := s.parseQuery(req)
	ask := &record.Diff{}
	if err == nil {
		ask.Box, ask.Select = q.Box, q.Select
		ask.FromNs, ask.ToNs, err = params.DiffTimes(req.QueryArgs(), s.Clock.Now())
	}
	if err == nil {
		err = ask.Normalize()
	}
	if err == nil {
		err = s.checkMoments(req, ask)
	}
	if err != nil {
		fail(req, err)
		return
	}
	s.streamRows(req, "differences", rowjson.Difference{}, &record.Query{Box: ask.Box,
		Select: ask.Select}, func(
		rc context.Context, a *engine.Admitted, payloads quantity.Types, out *rowjson.Writer,
	) (wire.End, error) {
		end, err := a.Diff(rc, ask, func(d *record.Differences) error {
			for i := range d.Len() {
				if err := out.Row(rowjson.DifferenceOf(d, i, payloads)); err != nil {
					return err
				}
				if q.Limit > 0 && uint64(out.Rows) == q.Limit {
					return engine.ErrLimitReached
				}
			}
			return nil
		})
		end.Rows = uint64(out.Rows)
		return end, err
	})
}

// getVersions answers with every version of readings.
func (s *Server) getVersions(req *httpserver.Request) {
	q, err := s.parseQuery(req)
	var box wire.Box
	if err == nil {
		box.Box, box.Select = q.Box, q.Select
		box.Everything, err = params.Flag(req.QueryArgs(), "everything")
	}
	var invalid *record.InvalidError
	if err == nil {
		if err = box.Check(); errors.As(err, &invalid) && invalid.Part == "box" {
			err = params.Bad("box", errors.New("no selector is given; everything=1 selects "+
				"all readings"))
		}
	}
	if err != nil {
		fail(req, err)
		return
	}
	s.streamRows(req, "versions", rowjson.Version{}, &record.Query{Box: box.Box,
		Select: box.Select}, func(
		rc context.Context, a *engine.Admitted, payloads quantity.Types, out *rowjson.Writer,
	) (wire.End, error) {
		all, end, err := a.Versions(rc, &box)
		for i := 0; i < len(all) && err == nil; i++ {
			err = out.Row(rowjson.VersionOf(&all[i], payloads))
		}
		return end, err
	})
}

// getLatest answers with the latest version of each reading.
func (s *Server) getLatest(req *httpserver.Request) {
	q, err := s.parseBox(req)
	if err == nil {
		q.View = record.ViewLatest
		err = q.Normalize()
	}
	s.records(req, q, err)
}

// getAsOf answers with the latest version of each reading as of an acq.
func (s *Server) getAsOf(req *httpserver.Request) {
	q, err := s.parseBox(req)
	if err == nil && !req.QueryArgs().Has("at") {
		err = params.Bad("at", errors.New("is missing; name the time, or ask /v1/latest"))
	}
	if err == nil {
		var at timeparse.Span
		at, err = timeparse.Parse(string(req.QueryArgs().Peek("at")), s.Clock.Now())
		if err != nil {
			err = params.Bad("at", err)
		}
		q.View, q.AsOfAcqNs = record.ViewAsOf, at.FromNs
	}
	if err == nil {
		err = q.Normalize()
	}
	s.records(req, q, err)
}
