package node

import (
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/valyala/fasthttp"
)

// The parameters of each route. Unknown parameters are rejected: an answer to another query than
// the client meant is worse than none.
var (
	countParams = []string{"cid", "mid", "moid", "cap", "acq", "view", "asof", "last", "filter",
		"filter_params", "unchecked",
		request.ParamPartial, request.ParamAfter, request.ParamRead, request.ParamWithin}
	recordsParams = []string{"cid", "mid", "moid", "cap", "acq", "view", "asof", "last", "filter",
		"filter_params", "unchecked", "order", "limit", "keys", "type", "format",
		request.ParamPartial, request.ParamAfter, request.ParamRead, request.ParamWithin}
	runParams = []string{"cid", "mid", "moid", "cap", "acq", "view", "asof", "last", "filter",
		"filter_params", "unchecked", "params", "group", "every", "limit", request.ParamPartial,
		request.ParamFresh, request.ParamAfter, request.ParamRead, request.ParamWithin}
	postParams     = []string{"type", "atomic"}
	verifyParams   = []string{"rate", "group", "segment"}
	snapshotParams = []string{"name"}
)

// parseQuery parses and normalizes a query that has no other parameters than parseBox knows.
func (s *server) parseQuery(ctx *fasthttp.RequestCtx) (*record.Query, error) {
	q, err := s.parseBox(ctx)
	if err != nil {
		return nil, err
	}
	return q, q.Normalize()
}

// parseBox parses parameters of a query: those of [params.Query], and a filter and filter_params
// for each filter. Only its box is normalized; the rest is to be when the query is complete.
func (s *server) parseBox(ctx *fasthttp.RequestCtx) (*record.Query, error) {
	args := ctx.QueryArgs()
	q, err := params.Query(args, s.node.now())
	if err != nil {
		return nil, err
	}
	if q.Filters, err = s.parseFilters(args, q); err != nil {
		return nil, err
	}
	return q, nil
}

// parseFilters parses the chain of filters.
func (s *server) parseFilters(args *fasthttp.Args, q *record.Query) (
	calls []record.PluginCall, err error,
) {
	chain, err := params.Filters(args)
	if err != nil {
		return nil, err
	}
	for _, filter := range chain[:min(len(chain), record.MaxFilters+1)] {
		v, err := s.node.plugins.UseKind(s.http.Running(), filter.Name, plugin.KindFilter)
		if err != nil {
			return nil, err
		}
		call, err := s.parseCall(args, v, &q.Box, "filter_params", filter.Text)
		s.node.plugins.Unpin(v)
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
	}
	return calls, nil
}

// parseCall encodes "name=value,name=value", the value of the parameter part, as the plugin's
// document says.
//
// The call names the exact version, so that an upload cannot replace the module that the parameters
// were encoded for.
func (s *server) parseCall(
	args *fasthttp.Args, v *registry.Version, box *record.Box, part, text string,
) (call record.PluginCall, err error) {
	unchecked, err := params.Flag(args, "unchecked")
	if err != nil {
		return call, err
	}
	call.Name = v.Ref()
	values, err := params.Values(part, text)
	if err != nil {
		return call, err
	}
	err = v.Doc.Fit(values, s.node.Quantities(), spansOf(box[record.MOID]), unchecked)
	if err == nil {
		call.Params, err = v.Doc.EncodeParams(values)
	}
	if err != nil {
		return call, params.Bad(part, err)
	}
	return call, nil
}
