package node

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
	"github.com/valyala/fasthttp"
)

// digestFrame answers a digest query frame.
func (s *server) digestFrame(ctx *fasthttp.RequestCtx) {
	rc, asked, cancel := s.requestContext(ctx)
	defer cancel()
	var q wire.DigestQuery
	var all []digest.Slice
	answer := &wire.Digests{}
	err := wire.ParseDigestQuery(ctx.PostBody(), &q)
	if err == nil {
		all, answer.HistoryChangedAcqNs, err = s.node.engine.Digest(rc, asked, q.Box, q.Cuts,
			q.Rows)
	}
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	for i := range all {
		d := &all[i]
		answer.Slices = append(answer.Slices, wire.Digest{FromNs: d.FromNs, ToNs: d.ToNs,
			Rows: d.Rows, Bytes: d.Bytes, Sum: storewire.Sum(d)})
	}
	ctx.SetContentType(wire.ContentType)
	ctx.SetBody(wire.AppendDigests(nil, answer))
}

// digestParams are the parameters of a digest for people.
var digestParams = []string{"cid", "mid", "moid", "cap", "acq"}

// digest answers people with the digest of a box, up to the horizon.
func (s *server) digest(ctx *fasthttp.RequestCtx) {
	rc, asked, cancel := s.requestContext(ctx)
	defer cancel()
	q, err := s.parseQuery(ctx)
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	until, err := s.node.engine.HorizonPast(rc, asked, &q.Box, 0)
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
		all, purged, err = s.node.engine.Digest(rc, asked.Passing(min(cuts[1], until)-1),
			q.Box, cuts, 0)
	}
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	sum := storewire.Sum(&all[0])
	httpserver.WriteJSON(ctx, map[string]any{"rows": all[0].Rows, "bytes": all[0].Bytes,
		"sum": hex.EncodeToString(sum[:]), "until_acq_ns": cuts[1], "purged_acq_ns": purged})
}

// syncState answers with the source of a mirror, and the acq that it has reached.
func (s *server) syncState(ctx *fasthttp.RequestCtx) {
	rc, asked, cancel := s.requestContext(ctx)
	defer cancel()
	known := append([]string{request.ParamAfter}, paramsOfPeers(ctx)...)
	err := params.Check(ctx.QueryArgs(), known)
	var st store.State
	groups := 0
	if err == nil {
		st, groups, err = s.node.engine.State(rc, asked)
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
		httpserver.WriteError(ctx, toWire(err))
	case httpserver.SpeaksFrames(ctx):
		ctx.SetContentType(wire.ContentType)
		ctx.SetBody(wire.AppendState(nil, out))
	default:
		httpserver.WriteJSON(ctx, map[string]any{"store": st.Store, "copy_of": st.Of,
			"box":   selector.FormatBox(&st.Box),
			"empty": st.Empty, "horizon_ns": st.HorizonNs,
			"horizon": record.FormatNs(st.HorizonNs), "events": len(st.Events),
			"policies": len(st.Policies), "groups": groups})
	}
}

// putRange takes a range frame.
func (s *server) putRange(ctx *fasthttp.RequestCtx) {
	rc, cancel := s.context()
	defer cancel()
	var in wire.Range
	err := wire.ParseRange(ctx.PostBody(), &in)
	var horizon int64
	if err == nil {
		horizon, err = s.node.putRange(rc, askedOf(ctx).OnlyGroup, storewire.Range(&in))
	}
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	ctx.SetContentType(wire.ContentType)
	ctx.SetBody(wire.AppendEvent(nil, &wire.Event{AcqNs: horizon}))
}

// promoteCopy makes the node one of its own.
func (s *server) promoteCopy(ctx *fasthttp.RequestCtx) {
	rc, cancel := s.context()
	defer cancel()
	err := checkNoBody(ctx)
	if err == nil {
		err = s.node.PromoteCopy(rc)
	}
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	s.syncState(ctx)
}
