package httpapi

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/valyala/fasthttp"
)

// peerParams are those that only other nodes send.
var peerParams = []string{request.ParamGroups, request.ParamWithin, request.ParamAfter}

// parseRequestOptions parses the options of a request.
func parseRequestOptions(args *fasthttp.Args) (s request.Options, err error) {
	switch text := string(args.Peek(request.ParamPartial)); text {
	case "":
	case "allow":
		s.AllowPartial = true
	default:
		return s, params.Bad(request.ParamPartial,
			fmt.Errorf("%q is unknown; use allow, or leave it out to get all or "+
				"an error", params.Clip(text)))
	}
	if s.NoCache, err = params.Flag(args, request.ParamFresh); err != nil {
		return s, err
	}
	if text := string(args.Peek(request.ParamGroups)); text != "" {
		if s.Groups, s.RequiredRanges, err = parseGroups(text); err != nil {
			return s, params.Bad(request.ParamGroups, err)
		}
	}
	if text := string(args.Peek(request.ParamOfGroup)); text != "" {
		number, err := strconv.ParseUint(text, 10, 16)
		if err != nil || number == 0 || s.Groups != nil {
			return s, params.Bad(request.ParamOfGroup, fmt.Errorf("%q is not the "+
				"number of a group, of which the first is 1; or %s is there, too",
				params.Clip(text), request.ParamGroups))
		}
		s.OnlyGroup = cluster.GroupID(number)
	}
	if text := string(args.Peek(request.ParamAfter)); text != "" {
		if s.After, err = parseAcqs(text); err != nil || len(s.After) > 1 &&
			len(s.After) != len(s.Groups) {
			return s, params.Bad(request.ParamAfter, fmt.Errorf("%q is neither an acq in ns "+
				"nor one for each of groups, joined by commas", params.Clip(text)))
		}
	}
	switch text := string(args.Peek(request.ParamRead)); text {
	case "":
	case "linearizable":
		s.Linearizable = true
	default:
		return s, params.Bad(request.ParamRead, fmt.Errorf("%q is unknown; use "+
			"linearizable, or leave it out to read from the nearest replicas", params.Clip(text)))
	}
	if text := string(args.Peek(request.ParamWithin)); text != "" {
		ms, err := strconv.ParseUint(text, 10, 31)
		if err != nil || ms == 0 {
			return s, params.Bad(request.ParamWithin, fmt.Errorf("%q is not a time in ms",
				params.Clip(text)))
		}
		s.Timeout = time.Duration(ms) * time.Millisecond
	}
	return s, nil
}

// parseGroups parses ascending numbers of groups, from 1 on, joined by commas, with the slots of
// groups that were split: 3,7:0-512.
func parseGroups(text string) (groups []cluster.GroupID, held []slots.Range, err error) {
	for part := range strings.SplitSeq(text, ",") {
		number, span, split := strings.Cut(part, ":")
		g, err := strconv.ParseUint(number, 10, 16)
		var r slots.Range
		if split && err == nil {
			r, err = parseSlotRange(span)
		}
		group, last := cluster.GroupID(g), cluster.GroupID(0)
		if len(groups) > 0 {
			last = groups[len(groups)-1]
		}
		if err != nil || group <= last {
			return nil, nil, fmt.Errorf("%q is not a list of ascending numbers from 1 on, joined "+
				"by commas, each with :FROM-TO where it was split", params.Clip(text))
		}
		groups, held = append(groups, group), append(held, r)
	}
	return groups, held, nil
}

func parseSlotRange(text string) (slots.Range, error) {
	first, end, _ := strings.Cut(text, "-")
	from, err := strconv.ParseUint(first, 10, 32)
	to, err2 := strconv.ParseUint(end, 10, 32)
	if err = errors.Join(err, err2); err == nil && (from >= to || to > slots.Count) {
		err = strconv.ErrRange
	}
	return slots.Range{From: uint32(from), To: uint32(to)}, err
}

// parseAcqs parses acqs in ns, joined by commas.
func parseAcqs(text string) ([]int64, error) {
	acqs := make([]int64, 0, strings.Count(text, ",")+1)
	for part := range strings.SplitSeq(text, ",") {
		ns, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return nil, err
		}
		acqs = append(acqs, ns)
	}
	return acqs, nil
}

// parseOptions parses the options of a request, and rejects those that name groups which are not
// here.
func (s *Server) parseOptions(args *fasthttp.Args) (request.Options, error) {
	options, err := parseRequestOptions(args)
	if err == nil {
		err = s.Engine.CheckGroups(options)
	}
	if err != nil {
		return options, nodeerror.ToWire(err)
	}
	return options, nil
}
