package node

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/valyala/fasthttp"
)

// The parameters of each route. Unknown parameters are rejected: an answer to another query than
// the client meant is worse than none.
var (
	countParams = []string{"cid", "mid", "moid", "cap", "acq", "view", "asof", "last", "filter",
		"filter_params", "unchecked", paramPartial, paramAfter, paramRead, paramWithin}
	recordsParams = []string{"cid", "mid", "moid", "cap", "acq", "view", "asof", "last", "filter",
		"filter_params", "unchecked", "order", "limit", "keys", "type", "format",
		paramPartial, paramAfter, paramRead, paramWithin}
	runParams = []string{"cid", "mid", "moid", "cap", "acq", "view", "asof", "last", "filter",
		"filter_params", "unchecked", "params", "group", "every", "limit", paramPartial, paramFresh,
		paramAfter, paramRead, paramWithin}
	postParams     = []string{"type", "atomic"}
	verifyParams   = []string{"rate", "group", "segment"}
	snapshotParams = []string{"name"}
)

// parseBox parses the parameters of a query: a selector per dimension, view or asof, last, order,
// limit, keys=1, and a filter and filter_params for each filter.
func (s *server) parseBox(ctx *fasthttp.RequestCtx) (*record.Query, error) {
	args := ctx.QueryArgs()
	now := s.node.now()
	if zone := string(args.Peek("tz")); zone != "" {
		loc, err := calendar.Zone(zone)
		var unknown *record.InvalidError
		switch {
		case errors.As(err, &unknown) && zone[0] == ' ':
			return nil, params.Bad("tz", fmt.Errorf("%s; a + is written %%2B in a URL",
				unknown.Detail))
		case errors.As(err, &unknown):
			return nil, params.Bad("tz", errors.New(unknown.Detail))
		case err != nil:
			return nil, err
		}
		now = now.In(loc)
	}
	q := &record.Query{}
	for d := range record.NumDims {
		dim := record.Dim(d)
		if text := string(args.Peek(dim.String())); text != "" {
			set, err := selector.ParseIn(dim, text, now)
			if err != nil {
				return nil, params.Bad(dim.String(), err)
			}
			q.Box[d] = set
		}
	}
	if err := parseView(args, q, now); err != nil {
		return nil, err
	}
	if text := string(args.Peek("limit")); text != "" {
		limit, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, params.Bad("limit", fmt.Errorf("%q is not a count", params.Clip(text)))
		}
		q.Limit = limit
	}
	var err error
	if q.KeysOnly, err = params.Flag(args, "keys"); err != nil {
		return nil, err
	}
	if err := q.Box.Normalize(); err != nil {
		return nil, err
	}
	if q.Filters, err = s.parseFilters(args, q); err != nil {
		return nil, err
	}
	return q, q.Normalize()
}

// parseFilters parses the chain of filters. Each filter_params belongs to the filter before it.
func (s *server) parseFilters(args *fasthttp.Args, q *record.Query) (
	calls []record.PluginCall, err error,
) {
	var names, texts []string
	for key, value := range args.All() {
		switch string(key) {
		case "filter":
			names, texts = append(names, string(value)), append(texts, "")
		case "filter_params":
			if len(names) == 0 {
				return nil, params.Bad("filter_params", errors.New("no filter precedes it"))
			}
			if texts[len(names)-1] != "" {
				return nil, params.Bad("filter_params", fmt.Errorf("occurs twice for filter "+
					"%q; join parameters by commas", params.Clip(names[len(names)-1])))
			}
			texts[len(names)-1] = string(value)
		}
	}
	for i, name := range names[:min(len(names), record.MaxFilters+1)] {
		v, err := s.node.plugins.UseKind(s.http.Running(), name, plugin.KindFilter)
		if err != nil {
			return nil, err
		}
		call, err := s.parseCall(args, v, &q.Box, "filter_params", texts[i])
		s.node.plugins.Release(v)
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
	}
	return calls, nil
}

func parseView(args *fasthttp.Args, q *record.Query, now time.Time) error {
	switch view := string(args.Peek("view")); view {
	case "", "all":
	case "latest":
		q.View = record.ViewLatest
	default:
		return params.Bad("view", fmt.Errorf("%q is not all or latest", params.Clip(view)))
	}
	if text := string(args.Peek("asof")); text != "" {
		if q.View != record.ViewAll {
			return params.Bad("asof", errors.New("cannot be combined with view"))
		}
		at, err := timeparse.ParseIn(text, now)
		if err != nil {
			return params.Bad("asof", err)
		}
		q.View, q.AsOfAcqNs = record.ViewAsOf, at.FromNs
	}
	if text := string(args.Peek("last")); text != "" {
		last, err := strconv.ParseUint(text, 10, 32)
		if err != nil || last == 0 {
			return params.Bad("last", fmt.Errorf("%q is not a count of readings from 1 on",
				params.Clip(text)))
		}
		q.Last = uint32(last)
		if !args.Has("view") && q.View == record.ViewAll {
			q.View = record.ViewLatest // versions are not readings
		}
	}
	switch order := string(args.Peek("order")); order {
	case "", "none":
	case "acq":
		q.Order = record.OrderAcq
	case "key":
		q.Order = record.OrderKey
	default:
		return params.Bad("order", fmt.Errorf("%q is not none, acq or key", params.Clip(order)))
	}
	return nil
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
	values := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if _, twice := values[key]; !ok || twice {
			return call, params.Bad(part,
				fmt.Errorf("%q: write name=value, joined by commas, each "+
					"once", params.Clip(text)))
		}
		values[key] = value
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

// parseGroupParts parses group=cid,mid,moid.
func parseGroupParts(args *fasthttp.Args, q *record.Query) error {
	for part := range strings.SplitSeq(string(args.Peek("group")), ",") {
		switch part {
		case "":
		case "cid":
			q.GroupBy.CID = true
		case "mid":
			q.GroupBy.MID = true
		case "moid":
			q.GroupBy.MOID = true
		default:
			return params.Bad("group",
				fmt.Errorf("%q is not cid, mid or moid; for cap say every=1h",
					params.Clip(part)))
		}
	}
	return nil
}

// parseGroups parses group=cid,mid,moid and every=15m.
func parseGroups(ctx *fasthttp.RequestCtx, q *record.Query) error {
	if err := parseGroupParts(ctx.QueryArgs(), q); err != nil {
		return err
	}
	text := string(ctx.QueryArgs().Peek("every"))
	if text == "" {
		return nil
	}
	width, err := timeparse.Duration(text)
	if err != nil || width <= 0 {
		return params.Bad("every", fmt.Errorf("%q is not a time span such as 15m or 1d",
			params.Clip(text)))
	}
	q.GroupBy.CapBucketNs = int64(width)
	return nil
}

// payloadType is how JSON shows payloads.
type payloadType uint8

const (
	payloadBase64 payloadType = 0
	payloadF64    payloadType = 1
	payloadI64    payloadType = 2
	payloadText   payloadType = 3
)

func parsePayloadType(ctx *fasthttp.RequestCtx) (payloadType, error) {
	switch name := string(ctx.QueryArgs().Peek("type")); name {
	case "", "base64":
		return payloadBase64, nil
	case "f64":
		return payloadF64, nil
	case "i64":
		return payloadI64, nil
	case "text":
		return payloadText, nil
	default:
		return 0, params.Bad("type", fmt.Errorf("%q is not f64, i64, text or base64",
			params.Clip(name)))
	}
}

// value decodes a payload by its type, or returns nil if it does not have that form.
func (t payloadType) value(payload []byte) any {
	switch {
	case t == payloadText && utf8.Valid(payload):
		return string(payload)
	case t == payloadF64 && len(payload) == 8:
		f := math.Float64frombits(binary.LittleEndian.Uint64(payload))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
		return f
	case t == payloadI64 && len(payload) == 8:
		return int64(binary.LittleEndian.Uint64(payload))
	case t == payloadBase64:
		return base64.StdEncoding.EncodeToString(payload)
	default:
		return nil
	}
}
