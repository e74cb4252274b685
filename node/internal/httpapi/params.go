package httpapi

import (
	"errors"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/rowjson"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/valyala/fasthttp"
)

// The parameters of each route. Unknown parameters are rejected: an answer to another query than
// the client meant is worse than none.
var (
	countParams = []string{"cid", "mid", "moid", "cap", "acq", "select", "moving", "moving_age",
		"view", "asof", "last",
		"where", "type", "filter", "filter_params", "unchecked",
		request.ParamPartial, request.ParamAfter, request.ParamRead, request.ParamWithin}
	recordsParams = []string{"cid", "mid", "moid", "cap", "acq", "select", "moving", "moving_age",
		"view", "asof", "last",
		"where", "filter", "filter_params", "unchecked", "order", "limit", "keys", "type",
		"format",
		request.ParamPartial, request.ParamAfter, request.ParamRead, request.ParamWithin}
	explainParams = []string{"of", "from", "to", "since",
		"cid", "mid", "moid", "cap", "acq", "select", "moving", "moving_age",
		"view", "asof", "last",
		"where", "filter", "filter_params", "unchecked", "order", "limit", "keys", "type",
		"format",
		request.ParamPartial, request.ParamAfter, request.ParamRead, request.ParamWithin}
	runParams = []string{"cid", "mid", "moid", "cap", "acq", "select", "moving", "moving_age",
		"view", "asof", "last",
		"where", "type", "filter", "filter_params", "unchecked", "params", "group", "every",
		"limit",
		request.ParamPartial, request.ParamFresh, request.ParamAfter, request.ParamRead,
		request.ParamWithin}
	postParams     = []string{"type", "atomic", "create"}
	verifyParams   = []string{"rate", "group", "segment"}
	snapshotParams = []string{"name"}
)

// parseQuery parses and normalizes a query that has no other parameters than parseBox knows.
func (s *Server) parseQuery(req *httpserver.Request) (*record.Query, error) {
	q, err := s.parseBox(req)
	if err != nil {
		return nil, err
	}
	return q, q.Normalize()
}

// payloads returns how payloads are shown and read: by the parameter type, else as their quantities
// are declared.
func (s *Server) payloads(req *httpserver.Request) (quantity.Types, error) {
	if text := string(req.QueryArgs().Peek("type")); text != "" {
		return rowjson.ParseType(text)
	}
	return quantity.NewDeclared(s.Plugins.Quantities(), quantity.Base64), nil
}

// parseReadings is parseBox for routes whose default is the latest view.
func (s *Server) parseReadings(req *httpserver.Request) (*record.Query, error) {
	q, err := s.parseBox(req)
	if err == nil {
		params.LatestByDefault(req.QueryArgs(), q)
	}
	return q, err
}

// parseCounted is parseReadings for routes that answer without payloads, where type says only what
// where is about: without where it is rejected.
func (s *Server) parseCounted(req *httpserver.Request) (*record.Query, error) {
	args := req.QueryArgs()
	if args.Has("type") && !args.Has("where") {
		return nil, params.Bad("type", errors.New("is the type of the payloads that where is "+
			"about; give where, too, or leave type out"))
	}
	return s.parseReadings(req)
}

// parseBox parses parameters of a query: those of [params.Query], where with type, and a filter and
// filter_params for each filter. Only its box is normalized; the rest is to be when the query is
// complete.
func (s *Server) parseBox(req *httpserver.Request) (*record.Query, error) {
	args := req.QueryArgs()
	if err := s.replaceNames(req, args); err != nil {
		return nil, err
	}
	q, err := params.Query(args, s.Clock.Now())
	if err != nil {
		return nil, err
	}
	if q.Where, err = params.Where(args); err != nil {
		return nil, err
	}
	if q.Filters, err = s.parseFilters(args, q); err != nil {
		return nil, err
	}
	return q, nil
}

// parseFilters parses the chain of filters.
func (s *Server) parseFilters(args *fasthttp.Args, q *record.Query) (
	calls []record.PluginCall, err error,
) {
	chain, err := params.Filters(args)
	if err != nil {
		return nil, err
	}
	for _, filter := range chain[:min(len(chain), record.MaxFilters+1)] {
		v, err := s.Plugins.UseKind(s.http.Running(), filter.Name, plugin.KindFilter)
		if err != nil {
			return nil, err
		}
		call, err := s.parseCall(args, v, &q.Box, "filter_params", filter.Text)
		s.Plugins.Unpin(v)
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
	}
	return calls, nil
}

// parseCall encodes "name=value,name=value", the value of the parameter part, for a plugin in use.
func (s *Server) parseCall(
	args *fasthttp.Args, v *registry.Version, box *record.Box, part, text string,
) (call record.PluginCall, err error) {
	unchecked, err := params.Flag(args, "unchecked")
	if err != nil {
		return call, err
	}
	values, err := params.Values(part, text)
	if err != nil {
		return call, err
	}
	if call, err = s.Plugins.Call(v, values, box.Asked(record.MOID), unchecked); err != nil {
		return call, params.Bad(part, err)
	}
	return call, nil
}
