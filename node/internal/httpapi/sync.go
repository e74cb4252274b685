package httpapi

import (
	"encoding/hex"
	"errors"
	"math"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/node/internal/storewire"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/digest"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// digestFrame answers a digest query frame.
func (s *Server) digestFrame(req *httpserver.Request) {
	rc, cancel := s.requestContext(req)
	defer cancel()
	var q wire.DigestQuery
	var all []digest.Slice
	answer := &wire.Digests{}
	err := wire.ParseDigestQuery(req.PostBody(), &q)
	if err == nil {
		all, answer.HistoryChangedAcqNs, err = s.Engine.Digest(rc, req.Options, &q)
	}
	if err != nil {
		fail(req, err)
		return
	}
	for i := range all {
		d := &all[i]
		answer.Slices = append(answer.Slices, wire.Digest{FromNs: d.FromNs, ToNs: d.ToNs,
			Rows: d.Rows, Bytes: d.Bytes, Sum: storewire.Sum(d)})
	}
	req.SetContentType(wire.ContentType)
	req.SetBody(wire.AppendDigests(nil, answer))
}

// digestParams are the parameters of a digest for people.
var digestParams = []string{"cid", "mid", "moid", "cap", "acq", "select"}

// digest answers people with the digest of a box, up to the horizon. Unless it restricts moid, it
// has reserved ones, too, because digests say whether two nodes have the same.
func (s *Server) digest(req *httpserver.Request) {
	rc, cancel := s.requestContext(req)
	defer cancel()
	q, err := s.parseBox(req)
	if err == nil {
		q.Box.IncludeReserved()
		err = q.Normalize()
	}
	if err != nil {
		fail(req, err)
		return
	}
	until, err := s.Engine.HorizonPast(rc, req.Options, &q.Box, 0)
	cuts := []int64{math.MinInt64, until}
	if set := q.Box[record.Acq]; err == nil && len(set) > 0 {
		cuts[0], cuts[1] = set[0].From, set[0].To
		if cuts[1] == record.Acq.Max() {
			cuts[1] = until
		}
		if len(set) > 1 {
			err = params.Bad("acq", errors.New("a digest is of one range"))
		}
		q.Box[record.Acq] = nil
	}
	var all []digest.Slice
	var purged int64
	if err == nil {
		// A replica that is read now may be behind those that reported the horizon.
		all, purged, err = s.Engine.Digest(rc, req.Options.Passing(min(cuts[1], until)-1),
			&wire.DigestQuery{Box: q.Box, Cuts: cuts, Select: q.Select})
	}
	if err != nil {
		fail(req, err)
		return
	}
	sum := storewire.Sum(&all[0])
	req.JSON(digestAnswer{Rows: all[0].Rows, Bytes: all[0].Bytes,
		Sum: hex.EncodeToString(sum[:]), UntilNs: cuts[1], PurgedNs: purged})
}

// syncState answers with the source of a mirror, and the acq that it has reached.
func (s *Server) syncState(req *httpserver.Request) {
	rc, cancel := s.requestContext(req)
	defer cancel()
	known := append([]string{request.ParamAfter}, paramsOfPeers(req)...)
	err := params.Check(req.QueryArgs(), known)
	var st store.State
	groups := 0
	if err == nil {
		st, groups, err = s.Engine.State(rc, req.Options)
	}
	var out *wire.State
	if err == nil {
		out, err = storewire.State(&st)
	}
	if err == nil {
		out.Groups = uint16(groups)
	}
	switch {
	case err != nil:
		fail(req, err)
	case req.SpeaksFrames():
		req.SetContentType(wire.ContentType)
		req.SetBody(wire.AppendState(nil, out))
	default:
		req.JSON(syncAnswer{Store: st.Store, Of: st.Of, Box: selector.FormatBox(&st.Box),
			Empty: st.Empty, HorizonNs: st.HorizonNs, Horizon: record.FormatNs(st.HorizonNs),
			Events: len(st.Events), Policies: len(st.Policies), Groups: groups})
	}
}

// putRange takes a range frame.
func (s *Server) putRange(req *httpserver.Request) {
	rc, cancel := s.context()
	defer cancel()
	var in wire.Range
	err := httpserver.ReserveDecoded(req.RequestCtx, uint64(len(req.PostBody())))
	if err == nil {
		err = wire.ParseRange(req.PostBody(), &in)
	}
	var horizon int64
	if err == nil {
		horizon, err = s.Writes.PutRange(rc, req.Options.OnlyGroup, storewire.Range(&in))
	}
	if err != nil {
		fail(req, err)
		return
	}
	req.SetContentType(wire.ContentType)
	req.SetBody(wire.AppendEvent(nil, &wire.Event{AcqNs: horizon}))
}

// promoteCopy makes the node one of its own.
func (s *Server) promoteCopy(req *httpserver.Request) {
	rc, cancel := s.context()
	defer cancel()
	err := checkNoBody(req)
	if err == nil {
		err = s.Writes.PromoteCopy(rc)
	}
	if err != nil {
		fail(req, err)
		return
	}
	s.syncState(req)
}
