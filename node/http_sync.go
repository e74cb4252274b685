package node

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// digestFrame answers a digest query frame.
func (s *server) digestFrame(ctx *fasthttp.RequestCtx) {
	rc, cancel := s.requestContext(ctx)
	defer cancel()
	var q wire.DigestQuery
	var all []store.Digest
	answer := &wire.Digests{}
	err := wire.ParseDigestQuery(ctx.PostBody(), &q)
	if err == nil {
		all, answer.PurgedAcqNs, err = s.node.Digest(rc, q.Box, q.Cuts, q.Rows)
	}
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	for i := range all {
		d := &all[i]
		answer.Slices = append(answer.Slices, wire.Digest{FromNs: d.FromNs, ToNs: d.ToNs,
			Rows: d.Rows, Bytes: d.Bytes, Sum: sumOf(d)})
	}
	ctx.SetContentType(wire.ContentType)
	ctx.SetBody(wire.AppendDigests(nil, answer))
}

// sumOf returns the sum of a digest with its lowest byte first.
func sumOf(d *store.Digest) (sum [16]byte) {
	binary.LittleEndian.PutUint64(sum[:8], d.Sum[0])
	binary.LittleEndian.PutUint64(sum[8:], d.Sum[1])
	return sum
}

// digestParams are the parameters of a digest for people.
var digestParams = []string{"cid", "mid", "moid", "cap", "acq"}

// digest answers people with the digest of a box, up to the horizon.
func (s *server) digest(ctx *fasthttp.RequestCtx) {
	rc, cancel := s.requestContext(ctx)
	defer cancel()
	q, err := s.parseBox(ctx)
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	until, err := s.node.HorizonPast(rc, &q.Box, 0)
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
	var all []store.Digest
	var purged int64
	if err == nil {
		// A replica that is read now may be behind those that reported the horizon.
		all, purged, err = s.node.Digest(afterContext(rc, min(cuts[1], until)-1), q.Box, cuts, 0)
	}
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	sum := sumOf(&all[0])
	httpserver.WriteJSON(ctx, map[string]any{"rows": all[0].Rows, "bytes": all[0].Bytes,
		"sum": hex.EncodeToString(sum[:]), "until_acq_ns": cuts[1], "purged_acq_ns": purged})
}

// syncState answers with the source of a mirror, and the acq that it has reached.
func (s *server) syncState(ctx *fasthttp.RequestCtx) {
	rc, cancel := s.requestContext(ctx)
	defer cancel()
	err := params.Check(ctx.QueryArgs(), append([]string{paramAfter}, paramsOfPeers(ctx)...))
	var st store.State
	groups := 0
	if err == nil {
		st, groups, err = s.node.State(rc)
	}
	var out *wire.State
	if err == nil {
		out, err = copyStateOf(&st)
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
		box := map[string]string{}
		for d, set := range st.Box {
			if dim := record.Dim(d); len(set) > 0 {
				box[dim.String()] = selector.Format(dim, set)
			}
		}
		httpserver.WriteJSON(ctx, map[string]any{"store": st.Store, "copy_of": st.Of, "box": box,
			"empty": st.Empty, "horizon_ns": st.HorizonNs,
			"horizon": record.FormatNs(st.HorizonNs), "events": len(st.Events),
			"policies": len(st.Policies), "groups": groups})
	}
}

// putRange takes a range frame.
func (s *server) putRange(ctx *fasthttp.RequestCtx) {
	rc, cancel := s.context()
	defer cancel()
	asked, _ := parseRequestOptions(ctx.QueryArgs()) // handle has checked it
	if asked.onlyGroup > 0 {
		rc = withOptions(rc, requestOptions{onlyGroup: asked.onlyGroup})
	}
	var in wire.Range
	err := wire.ParseRange(ctx.PostBody(), &in)
	var horizon int64
	if err == nil {
		horizon, err = s.node.PutRange(rc, rangeOf(&in))
	}
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	ctx.SetContentType(wire.ContentType)
	ctx.SetBody(wire.AppendEvent(nil, &wire.Event{AcqNs: horizon}))
}

// releaseCopy makes the node one of its own.
func (s *server) releaseCopy(ctx *fasthttp.RequestCtx) {
	rc, cancel := s.context()
	defer cancel()
	err := checkNoBody(ctx)
	if err == nil {
		err = s.node.ReleaseCopy(rc)
	}
	if err != nil {
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	s.syncState(ctx)
}

// identity reads the identity of a store, 32 hex digits; empty is zero.
func identity(text string) (id [16]byte, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(id) && len(raw) != 0 {
		return id, fmt.Errorf("identity %q of a store is not 32 hex digits", text)
	}
	copy(id[:], raw)
	return id, nil
}

func copyStateOf(st *store.State) (*wire.State, error) {
	out := &wire.State{Box: st.Box, Empty: st.Empty, HorizonNs: st.HorizonNs,
		Lineage: st.Lineage, Held: st.Held, HeldNs: st.HeldNs}
	var err error
	if out.Store, err = identity(st.Store); err == nil {
		out.Of, err = identity(st.Of)
	}
	for _, e := range st.Events {
		out.History.Hiding = append(out.History.Hiding, wire.Hiding{AcqNs: e.AcqNs,
			Purge: e.Kind == event.Purge, Box: e.Box})
	}
	for _, p := range st.Policies {
		out.History.Policies = append(out.History.Policies, wire.Policy{CID: p.CID, MOID: p.MOID,
			MaxCapAgeNs: p.MaxCapAgeNs, MaxAcqAgeNs: p.MaxAcqAgeNs, DelayNs: p.DelayNs,
			Held: p.Held, Cap: floorsToWire(&p.Cap), Acq: floorsToWire(&p.Acq)})
	}
	return out, err
}

func rangeOf(in *wire.Range) *store.Range {
	r := &store.Range{Timeline: in.Timeline, Box: in.Box, FromNs: in.FromNs, ToNs: in.ToNs,
		Rows: in.Rows, Whole: in.Whole}
	if in.Of != ([16]byte{}) {
		r.Of = hex.EncodeToString(in.Of[:])
	}
	for _, e := range in.History.Hiding {
		kind := event.Erase
		if e.Purge {
			kind = event.Purge
		}
		r.Events = append(r.Events, event.Event{AcqNs: e.AcqNs, Kind: kind, Box: e.Box})
	}
	for _, p := range in.History.Policies {
		r.Policies = append(r.Policies, retention.Policy{
			Scope:       retention.Scope{CID: p.CID, MOID: p.MOID},
			MaxCapAgeNs: p.MaxCapAgeNs, MaxAcqAgeNs: p.MaxAcqAgeNs, DelayNs: p.DelayNs,
			Held: p.Held, Cap: floorsOfWire(&p.Cap), Acq: floorsOfWire(&p.Acq)})
	}
	return r
}

func floorsToWire(f *retention.Floors) wire.Floors {
	out := wire.Floors{Hidden: wire.Bound(f.Hidden), StepAcqNs: f.StepAcqNs,
		Shown: wire.Bound(f.Shown)}
	for _, g := range f.Gone {
		out.Gone = append(out.Gone, wire.Released{Bound: wire.Bound(g.Bound), AcqNs: g.AcqNs,
			TimeNs: g.TimeNs})
	}
	return out
}

func floorsOfWire(f *wire.Floors) retention.Floors {
	out := retention.Floors{Hidden: retention.Bound(f.Hidden), StepAcqNs: f.StepAcqNs,
		Shown: retention.Bound(f.Shown)}
	for _, g := range f.Gone {
		out.Gone = append(out.Gone, retention.Released{Bound: retention.Bound(g.Bound),
			AcqNs: g.AcqNs, TimeNs: g.TimeNs})
	}
	return out
}
