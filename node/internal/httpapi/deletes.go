package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/node/internal/storewire"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

var (
	deleteParams = []string{"cid", "mid", "moid", "cap", "acq", "select", "everything", "dry_run"}
	policyParams = []string{"cid", "moid", "cap_age", "acq_age", "delay", "everything", "dry_run"}
	scopeParams  = []string{"cid", "moid"}
	holdParams   = []string{"action", "cid", "moid", "everything", "trust_clock"}
)

func (s *Server) erase(req *httpserver.Request) { s.deleteRange(req, record.ViewLatest, false) }

func (s *Server) purge(req *httpserver.Request) { s.deleteRange(req, record.ViewAll, true) }

// deleteRange erases or purges the box of a frame or of parameters.
func (s *Server) deleteRange(req *httpserver.Request, view record.View, purge bool) {
	rc, cancel := s.requestContext(req)
	defer cancel()
	var b wire.Box
	var dry bool
	var err error
	if req.SpeaksFrames() {
		if err = params.Check(req.QueryArgs(), peerParams); err == nil {
			err = wire.ParseBox(req.PostBody(), &b)
		}
	} else {
		b, dry, err = s.parseDelete(req)
	}
	if err == nil && dry {
		s.dryRun(rc, req, &record.Query{Box: b.Box, View: view, Select: b.Select})
		return
	}
	var acq int64
	if err == nil && s.closing() {
		err = nodeerror.ErrClosing
	}
	if err == nil {
		acq, err = s.Writes.DeleteRange(rc, req.Options, &b, purge)
	}
	switch {
	case err != nil:
		fail(req, err)
	case req.SpeaksFrames():
		req.SetContentType(wire.ContentType)
		req.SetBody(wire.AppendEvent(nil, &wire.Event{AcqNs: acq}))
	default:
		req.JSON(hidden{Acq: record.FormatNs(acq), AcqNs: acq})
	}
}

// checkNoBody rejects a body: fewer parameters mean more records, and a body may have been meant as
// parameters.
func checkNoBody(req *httpserver.Request) error {
	if len(req.PostBody()) == 0 {
		return nil
	}
	return &wire.Error{Kind: wire.KindInvalid, Part: "body", Reason: string(record.OutOfRange),
		Message: "request body not allowed; give all parameters in the URL"}
}

func (s *Server) parseDelete(req *httpserver.Request) (b wire.Box, dry bool, err error) {
	if err := checkNoBody(req); err != nil {
		return b, false, err
	}
	if err := params.Check(req.QueryArgs(), deleteParams); err != nil {
		return b, false, err
	}
	q, err := s.parseQuery(req)
	if err != nil {
		return b, false, err
	}
	b.Box, b.Select = q.Box, q.Select
	if b.Everything, err = params.Flag(req.QueryArgs(), "everything"); err != nil {
		return b, false, err
	}
	if dry, err = params.Flag(req.QueryArgs(), "dry_run"); err != nil {
		return b, false, err
	}
	err = b.Check()
	var invalid *record.InvalidError
	if errors.As(err, &invalid) && invalid.Part == "box" {
		err = params.Bad("box", errors.New("no selector is given; everything=1 selects "+
			"all records"))
	}
	return b, dry, err
}

// dryRun answers with the number of records that would be hidden.
func (s *Server) dryRun(
	rc context.Context, req *httpserver.Request, q *record.Query,
) {
	out := api.DryRun{DryRun: true}
	var err error
	if q.Select != "" {
		began := time.Now()
		var mids []int64
		mids, err = s.Engine.SelectDevices(rc, req.Options, &q.Box, q.Select)
		devices := len(mids)
		out.Devices, out.SelectNs = &devices, int64(time.Since(began))
	}
	if err == nil {
		out.Records, _, err = s.Engine.Count(rc, req.Options, q)
	}
	reply(req, out, err)
}

// paramsOfPeers are the parameters of what people ask for without any, and others for groups.
func paramsOfPeers(req *httpserver.Request) []string {
	switch args := req.QueryArgs(); {
	case args.Has(request.ParamGroups):
		return peerParams
	case args.Has(request.ParamOfGroup):
		return []string{request.ParamOfGroup}
	}
	return nil
}

func (s *Server) events(req *httpserver.Request) {
	rc, cancel := s.requestContext(req)
	defer cancel()
	err := params.Check(req.QueryArgs(), paramsOfPeers(req))
	var all []event.Event
	if err == nil {
		all, err = s.Engine.Events(rc, req.Options)
	}
	if err != nil {
		fail(req, err)
		return
	}
	out := []api.Event{}
	for _, e := range all {
		row := api.Event{Kind: e.Kind.String(), Acq: record.FormatNs(e.AcqNs), AcqNs: e.AcqNs,
			Box: selector.FormatBox(&e.Box), Removal: storewire.Removal(e.Removal)}
		if e.Kind == event.Purge {
			row.Done, row.Removed = &e.Done, &e.Removed
		}
		if e.ToSlot > 0 {
			row.Slots = []uint32{e.FromSlot, e.ToSlot}
		}
		out = append(out, row)
	}
	req.JSON(api.Events{Events: out})
}

func newJSONPolicy(p engine.Policy) api.Retention {
	out := api.Retention{CID: p.CID, MOID: p.MOID, MaxCapAgeNs: p.MaxCapAgeNs,
		MaxAcqAgeNs: p.MaxAcqAgeNs, DelayNs: p.DelayNs, Held: p.Held}
	for _, group := range p.Groups {
		out.Groups = append(out.Groups, int(group))
	}
	return out
}

func (s *Server) retention(req *httpserver.Request) {
	rc, cancel := s.requestContext(req)
	defer cancel()
	err := params.Check(req.QueryArgs(), paramsOfPeers(req))
	var all []engine.Policy
	if err == nil {
		all, err = s.Engine.Retention(rc, req.Options)
	}
	if err != nil {
		fail(req, err)
		return
	}
	out := []api.Retention{}
	for _, p := range all {
		out = append(out, newJSONPolicy(p))
	}
	req.JSON(api.Policies{Policies: out})
}

// setRetention sets a policy, or removes it.
func (s *Server) setRetention(req *httpserver.Request) {
	remove := req.IsDelete()
	var r retention.Rule
	var dry bool
	err := checkNoBody(req)
	if err == nil {
		err = s.replaceNames(req, req.QueryArgs())
	}
	if err == nil {
		r, err = parsePolicy(req.QueryArgs(), remove)
	}
	if err == nil {
		dry, err = params.Flag(req.QueryArgs(), "dry_run")
	}
	rc, cancel := s.context()
	defer cancel()
	if err == nil && dry {
		records, err := s.Engine.Expired(rc, r)
		reply(req, api.DryRun{Records: records, DryRun: true}, err)
		return
	}
	if err == nil {
		err = s.Writes.SetRetention(rc, r)
	}
	if err != nil {
		fail(req, err)
		return
	}
	req.JSON(newJSONPolicy(engine.Policy{Rule: r}))
}

func parsePolicy(args *fasthttp.Args, remove bool) (r retention.Rule, err error) {
	if r.CID, err = params.ID(args, record.CID); err != nil {
		return r, err
	}
	if r.MOID, err = params.ID(args, record.MOID); err != nil {
		return r, err
	}
	if r.MaxCapAgeNs, err = params.Age(args, "cap_age"); err != nil {
		return r, err
	}
	if r.MaxAcqAgeNs, err = params.Age(args, "acq_age"); err != nil {
		return r, err
	}
	if r.DelayNs, err = params.Age(args, "delay"); err != nil {
		return r, err
	}
	if !remove && r.MaxCapAgeNs == 0 && r.MaxAcqAgeNs == 0 {
		return r, params.Bad("cap_age", fmt.Errorf("give cap_age or acq_age; %s removes "+
			"a policy", http.MethodDelete))
	}
	everything, err := params.Flag(args, "everything")
	if err == nil && !remove && r.CID == nil && r.MOID == nil && !everything {
		err = params.Bad("box", errors.New("neither cid nor moid is given; everything=1 selects "+
			"all records"))
	}
	return r, err
}

// holdRetention stops policies, lets them go on, or undoes their last steps.
func (s *Server) holdRetention(req *httpserver.Request) {
	err := checkNoBody(req)
	var h retention.Hold
	var trust bool
	if err == nil {
		err = s.replaceNames(req, req.QueryArgs())
	}
	if err == nil {
		h, trust, err = parseHold(req.QueryArgs())
	}
	rc, cancel := s.context()
	defer cancel()
	if err == nil {
		err = s.Writes.HoldRetention(rc, h, trust)
	}
	if err != nil {
		fail(req, err)
		return
	}
	req.JSON(heldAction{string(req.QueryArgs().Peek("action"))})
}

func parseHold(args *fasthttp.Args) (h retention.Hold, trust bool, err error) {
	text := string(args.Peek("action"))
	h.Action = map[string]retention.Action{"hold": retention.HoldSteps,
		"resume": retention.HoldResume,
		"undo":   retention.HoldUndo}[text]
	if h.Action == 0 {
		return h, false, params.Bad("action", fmt.Errorf("%q is not hold, resume or undo",
			params.Clip(text)))
	}
	if h.CID, err = params.ID(args, record.CID); err != nil {
		return h, false, err
	}
	if h.MOID, err = params.ID(args, record.MOID); err != nil {
		return h, false, err
	}
	if h.All, err = params.Flag(args, "everything"); err != nil {
		return h, false, err
	}
	if trust, err = params.Flag(args, "trust_clock"); err != nil {
		return h, false, err
	}
	if h.All && (h.CID != nil || h.MOID != nil) {
		err = params.Bad("everything", errors.New("selects every policy; leave "+
			"cid and moid out"))
	}
	if trust && h.Action != retention.HoldResume {
		err = params.Bad("trust_clock", errors.New("only for resume, which then trusts the clock"))
	}
	return h, trust, err
}
