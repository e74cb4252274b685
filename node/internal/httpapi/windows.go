package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

var windowsParams = []string{"cid", "mid", "moid", "cap", "acq", "select", "moving", "moving_age",
	"view", "asof", "last",
	"where", "type", "filter",
	"filter_params", "unchecked", "every", "tz", "agg", "params", "group", "limit",
	request.ParamPartial, request.ParamAfter, request.ParamRead, request.ParamWithin}

// windows answers with an aggregate by windows of a calendar, of the latest versions unless another
// view is asked for.
func (s *Server) windows(req *httpserver.Request) {
	v, q, err := s.parseWindows(req)
	if v != nil {
		defer s.Plugins.Unpin(v)
	}
	var cal *calendar.Calendar
	if err == nil {
		cal, err = calendar.ForWindow(q.GroupBy.Window)
	}
	if err != nil {
		fail(req, err)
		return
	}
	s.answerGroups(req, v, q, "windows", func(row map[string]any, g *wire.Group) {
		from, to := cal.Window(g.CapNs)
		delete(row, "cap")
		delete(row, "cap_ns")
		row["start"], row["start_ns"] = cal.Format(from), from
		row["hours"] = calendar.Hours(from, to)
	})
}

// parseWindows parses the query. The caller releases the plugin, if there is one.
func (s *Server) parseWindows(req *httpserver.Request) (*registry.Version, *record.Query, error) {
	q, err := s.parseCounted(req)
	if err != nil {
		return nil, nil, err
	}
	args := req.QueryArgs()
	if err := params.GroupParts(args, q); err != nil {
		return nil, nil, err
	}
	every, name := string(args.Peek("every")), string(args.Peek("agg"))
	if every == "" || name == "" {
		return nil, nil, params.Bad(map[bool]string{true: "every", false: "agg"}[every == ""],
			errors.New("is missing; ask for every=1d and agg=stats, and tz=Europe/Berlin"))
	}
	zone := cmp.Or(string(args.Peek("tz")), time.UTC.String())
	if q.GroupBy.Window, err = calendar.ParseEvery(every, zone); err != nil {
		return nil, nil, params.Bad("every", fmt.Errorf("%q: %w", params.Clip(every), err))
	}
	v, err := s.Plugins.UseKind(s.http.Running(), name, plugin.KindAggregate)
	if err != nil {
		return nil, nil, err
	}
	if v.LinksPredecessors() && !args.Has("group") {
		q.GroupBy = q.GroupBy.BySeries(&q.Box)
	}
	q.Aggregate, err = s.parseCall(args, v, &q.Box, "params", string(args.Peek("params")))
	if err == nil {
		err = q.Normalize()
	}
	return v, q, err
}
