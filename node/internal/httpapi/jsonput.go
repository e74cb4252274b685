package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/puts"
	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/node/internal/rowjson"
	"github.com/pentad-db/pentad/node/internal/writes"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

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

// postRecords stores valid records and lists invalid ones, with status 207; with atomic=1 it stores
// all or none.
func (s *Server) postRecords(req *httpserver.Request) {
	var atomic, create bool
	payloads, err := s.payloads(req)
	if err == nil {
		atomic, err = params.Flag(req.QueryArgs(), "atomic")
	}
	if err == nil {
		create, err = params.Flag(req.QueryArgs(), "create")
	}
	if err != nil {
		fail(req, err)
		return
	}
	if err := httpserver.ReserveDecoded(req.RequestCtx, uint64(len(req.PostBody()))); err != nil {
		fail(req, err)
		return
	}
	rc, cancel := s.requestContext(req)
	names := s.namesOf(rc, req, create)
	names.missing = "create=1 creates it"
	p, err := s.parseNamed(req.PostBody(), payloads, names,
		func() (quantity.Types, error) { return s.payloads(req) })
	cancel()
	if names.failed != nil {
		fail(req, names.failed)
		return
	}
	if err != nil {
		req.Fail(&wire.Error{Kind: wire.KindInvalid, Part: "body",
			Message: fmt.Sprintf(
				"body is not a JSON record, an array of them or one after another: %v", err)})
		return
	}
	if p.rejected > 0 && (atomic || p.rows.Len() == 0) {
		req.Refuse(http.StatusUnprocessableEntity, &wire.Error{Kind: wire.KindInvalid,
			Part: "body", Message: fmt.Sprintf(
				"nothing is stored: %d of %d records are wrong, first on line %d: %s",
				p.rejected, p.rejected+p.rows.Len(), p.rejects[0].Line, p.rejects[0].Message)})
		return
	}
	httpserver.ReleaseBody(req.RequestCtx)
	s.store(req, p, atomic)
}

// parseNamed is parseRecords that asks for all devices at once. Newest returns the types of
// payloads once the node has asked for newer quantities.
func (s *Server) parseNamed(
	body []byte, payloads quantity.Types, names *recordNames,
	newest func() (quantity.Types, error),
) (p *posted, err error) {
	names.later = true
	for refreshed := false; ; {
		p, err = s.parseRecords(body, payloads, names)
		refresh := err == nil && names.newest && !refreshed && p.rejected > 0
		if err != nil || len(names.unknown) == 0 && !refresh {
			return p, err
		}
		names.findUnknown()
		if refresh {
			if payloads, err = newest(); err != nil {
				return nil, err
			}
			refreshed = true
		}
	}
}

// posted are the records of a body.
type posted struct {
	rows     record.Batch
	lines    []int // of the body, of rows
	rejected int
	rejects  []rejected // the first of them
}

// parseRecords reads the records of a body.
//
// Errors: that it holds none, or is not JSON; that of the first question about names that failed.
func (s *Server) parseRecords(
	body []byte, payloads quantity.Types, names *recordNames,
) (*posted, error) {
	p := &posted{rejects: []rejected{}}
	parser := rowjson.NewParser(payloads, s.Clock.Now())
	parser.Names = names
	records, err := rowjson.Records(body)
	if err != nil {
		return nil, err
	}
	var one record.Batch
	for line, src := range records {
		asked := len(names.unknown)
		r, err := parser.Parse(src)
		if err == nil {
			one.Reset()
			one.AppendRecord(r)
			err = withoutRow(cmp.Or(one.Validate(), store.CheckDescribing(&one)))
		}
		if err == nil {
			p.rows.AppendRecord(r)
			p.lines = append(p.lines, line)
			continue
		}
		if names.failed != nil {
			return nil, names.failed
		}
		names.unknown = names.unknown[:asked] // what is refused names no device
		if p.rejected++; p.rejected <= maxRejectedShown {
			p.rejects = append(p.rejects, rejected{line, err.Error()})
		}
	}
	if p.rejected+p.rows.Len() == 0 {
		return nil, errors.New("it holds none")
	}
	return p, nil
}

// store stores the records of a body.
func (s *Server) store(req *httpserver.Request, p *posted, atomic bool) {
	b := &p.rows
	if atomic && b.Len() > record.MaxBatchRecords {
		req.Fail(&wire.Error{Kind: wire.KindTooLarge, Message: fmt.Sprintf(
			"%d records at once, at most %d with atomic=1", b.Len(), record.MaxBatchRecords)})
		return
	}
	// Under a writer, so that all of it can be sent again where the outcome is unknown.
	w := s.Writes.Writers.Take()
	put, key := s.Writes.Put, string(req.Request.Header.Peek("Idempotency-Key"))
	if key != "" {
		s.Writes.Writers.Give(w)
		var err error
		if w, err = puts.ParseKey(key); err != nil {
			fail(req, err)
			return
		}
		put = s.Writes.PutOnce
	}
	rc, cancel := s.context()
	defer cancel()
	stored, last, duplicate := 0, int64(0), true
	for rest, part := b, 0; rest.Len() > 0; part++ {
		some := rest.Head(min(rest.Len(), record.MaxBatchRecords))
		res, err := put(rc, some, puts.PartOf(w, part))
		if err != nil {
			line := func(row int) int { return p.lines[row] }
			if errors.Is(err, writes.ErrOtherBody) {
				e := writes.RestOf(err, store.WriterSeq{}, stored, some.Len(), b.Len(), true)
				req.Refuse(http.StatusUnprocessableEntity, otherBody(key, e.WireOf(line)))
				return
			}
			e := writes.RestOf(err, w, stored, some.Len(), b.Len(), key != "")
			req.Fail(e.WireOf(line))
			return
		}
		stored, last, duplicate = stored+some.Len(), res.LastAcqNs, duplicate && res.Duplicate
		rest = puts.Tail(rest, some.Len())
	}
	if key == "" {
		s.Writes.Writers.Give(w)
	}
	if p.rejected > 0 {
		req.SetStatusCode(http.StatusMultiStatus)
	}
	req.JSON(written{Acq: record.FormatNs(last), AcqNs: last, Duplicate: duplicate,
		Rejected: p.rejected, Rejects: p.rejects, Written: stored})
}

// otherBody is the error of a body under a key that another one was stored under. It has the
// outcome only where groups of a cluster that do not know the key have stored something.
func otherBody(key string, e *wire.Error) *wire.Error {
	const before = "the key %q was used before, for another body; "
	const way = "use a new key for each body"
	if put, ok := e.Outcome(); ok && put.Stored != "" {
		e.Kind = wire.KindInvalid
		e.Message = fmt.Sprintf(before+"records of this one are stored in groups of the cluster "+
			"that did not know the key, see put; "+way, key)
		return e
	}
	return &wire.Error{Kind: wire.KindInvalid, Part: "Idempotency-Key",
		Message: fmt.Sprintf(before+"nothing of this one is stored; "+way, key)}
}
