package httpapi

import (
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/puts"
	"github.com/pentad-db/pentad/node/internal/rowjson"
	"github.com/pentad-db/pentad/node/internal/writes"
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

// postRecords stores valid records and lists invalid ones; with atomic=1 it stores all or none.
func (s *Server) postRecords(req *httpserver.Request) {
	var atomic bool
	payloads, err := s.payloads(req)
	if err == nil {
		atomic, err = params.Flag(req.QueryArgs(), "atomic")
	}
	if err != nil {
		fail(req, err)
		return
	}
	if err := httpserver.Needs(req.RequestCtx, uint64(len(req.PostBody()))); err != nil {
		fail(req, err)
		return
	}
	records, lines, err := rowjson.SplitRecords(req.PostBody())
	if err == nil && len(records) == 0 {
		err = errors.New("it holds none")
	}
	if err != nil {
		req.Fail(&wire.Error{Kind: wire.KindInvalid, Part: "body",
			Message: fmt.Sprintf(
				"body is not a JSON record, an array of them or one a line: %v", err)})
		return
	}
	var b record.Batch
	bad := []rejected{}
	good := make([]int, 0, len(records)) // lines of what b has
	now := s.Clock.Now()
	for i, src := range records {
		r, err := rowjson.ParseRecord(src, payloads, now)
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
		req.Fail(&wire.Error{Kind: wire.KindInvalid, Part: "body",
			Message: fmt.Sprintf(
				"nothing is stored: %d of %d records are wrong, first on line %d: %s",
				len(bad), len(records), bad[0].Line, bad[0].Message)})
		return
	}
	httpserver.Decoded(req.RequestCtx)
	s.store(req, &b, good, bad, atomic)
}

// store stores the records of some lines of a body.
func (s *Server) store(
	req *httpserver.Request, b *record.Batch, lines []int, bad []rejected, atomic bool,
) {
	if atomic && b.Len() > record.MaxBatchRecords {
		req.Fail(&wire.Error{Kind: wire.KindTooLarge, Message: fmt.Sprintf(
			"%d records at once, at most %d with atomic=1", b.Len(), record.MaxBatchRecords)})
		return
	}
	// Under a writer, so that all of it can be sent again where the outcome is unknown.
	w := s.Writes.Writers.Take()
	keyed := false
	if key := req.Request.Header.Peek("Idempotency-Key"); len(key) > 0 {
		s.Writes.Writers.Give(w)
		var err error
		if w, err = puts.ParseKey(string(key)); err != nil {
			fail(req, err)
			return
		}
		keyed = true
	}
	rc, cancel := s.context()
	defer cancel()
	stored, last, duplicate := 0, int64(0), true
	for rest, part := b, 0; rest.Len() > 0; part++ {
		some := rest.Head(min(rest.Len(), record.MaxBatchRecords))
		res, err := s.Writes.Put(rc, some, puts.PartOf(w, part))
		if err != nil {
			e := writes.RestOf(err, w, stored, some.Len(), b.Len(), keyed)
			req.Fail(e.WireOf(func(row int) int { return lines[row] }))
			return
		}
		if res.Records != some.Len() {
			req.Fail(otherBody(res.Records, some.Len()))
			return
		}
		stored, last, duplicate = stored+some.Len(), res.LastAcqNs, duplicate && res.Duplicate
		rest = puts.Tail(rest, some.Len())
	}
	if !keyed {
		s.Writes.Writers.Give(w)
	}
	req.JSON(written{Acq: record.FormatNs(last), AcqNs: last, Duplicate: duplicate,
		Rejected: len(bad), Rejects: bad[:min(len(bad), maxRejectedShown)], Written: stored})
}

// otherBody is the error of a body under a key that another one was stored under.
func otherBody(stored, rows int) *wire.Error {
	return &wire.Error{Kind: wire.KindInvalid, Part: "Idempotency-Key", Message: fmt.Sprintf(
		"this key was used before, with another body: there are %d records where %d are stored; "+
			"these stay, and nothing of this body is stored; use another key", rows, stored)}
}
