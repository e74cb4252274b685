package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// peerParams are those that only other nodes send.
var peerParams = []string{request.ParamGroups, request.ParamWithin, request.ParamAfter}

// parseRequestOptions parses the options of a request.
func parseRequestOptions(args *fasthttp.Args) (s request.Options, err error) {
	switch text := string(args.Peek(request.ParamPartial)); text {
	case "":
	case "allow":
		s.Partial = true
	default:
		return s, params.Bad(request.ParamPartial,
			fmt.Errorf("%q is not allow; leave it out to get all or "+
				"an error", params.Clip(text)))
	}
	if s.NoCache, err = params.Flag(args, request.ParamFresh); err != nil {
		return s, err
	}
	if text := string(args.Peek(request.ParamGroups)); text != "" {
		if s.Groups, s.RequiredRanges, err = parseAsked(text); err != nil {
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
		s.Linear = true
	default:
		return s, params.Bad(request.ParamRead, fmt.Errorf("%q is not linearizable; leave it "+
			"out to read what the nearest replicas have", params.Clip(text)))
	}
	if text := string(args.Peek(request.ParamWithin)); text != "" {
		ms, err := strconv.ParseUint(text, 10, 31)
		if err != nil || ms == 0 {
			return s, params.Bad(request.ParamWithin, fmt.Errorf("%q is not a time in ms",
				params.Clip(text)))
		}
		s.Within = time.Duration(ms) * time.Millisecond
	}
	return s, nil
}

// parseAsked parses ascending numbers of groups, from 1 on, joined by commas, with the slots of
// groups that were split: 3,7:0-512.
func parseAsked(text string) (groups []cluster.GroupID, held []slots.Range, err error) {
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

// checkOptions rejects options that cannot be parsed or name groups that are not here.
func (s *server) checkOptions(args *fasthttp.Args) error {
	asked, err := parseRequestOptions(args)
	if err != nil {
		return err
	}
	return s.node.engine.CheckGroups(asked)
}

// askedOf returns the options of a request.
func askedOf(ctx *fasthttp.RequestCtx) request.Options {
	asked, _ := parseRequestOptions(ctx.QueryArgs()) // checkOptions has checked it
	return asked
}

// requestContext is [server.context] for a query of many sources, with its options. In a cluster it
// ends when the client disconnects, so that other nodes do not work in vain.
func (s *server) requestContext(
	ctx *fasthttp.RequestCtx,
) (context.Context, request.Options, context.CancelFunc) {
	asked := askedOf(ctx)
	rc, cancel := s.watchedContext(ctx.Conn(), asked)
	return rc, asked, cancel
}

// watchedContext returns the context of a request of a connection; see requestContext.
func (s *server) watchedContext(
	conn net.Conn, asked request.Options,
) (context.Context, context.CancelFunc) {
	rc, cancel := s.http.Context(asked.Within)
	if asked.Groups == nil && s.node.engine.IsSingleStore() {
		return rc, cancel
	}
	stop := httpserver.WatchDisconnect(conn, cancel)
	return rc, func() {
		stop()
		cancel()
	}
}

// context returns the context of a request, which ends with the server or after a timeout.
func (s *server) context() (context.Context, context.CancelFunc) { return s.http.Context(0) }

// stream answers with what produce writes, after the handler has returned. The context of produce
// ends with the server, after a timeout, or when a node that sent the request disconnects.
func (s *server) stream(
	ctx *fasthttp.RequestCtx, asked request.Options,
	produce func(rc context.Context, w *bufio.Writer) error,
) {
	s.http.Stream(ctx, httpserver.Stream{Begin: s.begin(ctx.Conn(), asked), Produce: produce})
}

// streamIn is stream under a permit. It releases the permit when the answer ends, or when nothing
// is produced. While the client does not read, the permit is lent to others.
func (s *server) streamIn(
	ctx *fasthttp.RequestCtx, a *engine.Admitted,
	produce func(rc context.Context, w *bufio.Writer) error,
) {
	s.http.Stream(ctx, httpserver.Stream{Begin: s.begin(ctx.Conn(), a.Asked()),
		Produce: produce, Permit: a.Permit(), End: a.Done})
}

// begin returns what begins the context of a streamed answer.
func (s *server) begin(
	conn net.Conn, asked request.Options,
) func() (context.Context, context.CancelFunc) {
	return func() (context.Context, context.CancelFunc) { return s.watchedContext(conn, asked) }
}

// prepare admits the query of a request.
func (s *server) prepare(ctx *fasthttp.RequestCtx, q *record.Query) (*engine.Admitted, error) {
	rc, asked, cancel := s.requestContext(ctx)
	defer cancel()
	return s.node.engine.Prepare(rc, asked, q)
}

// setStatus sets the status of an answer that is known to be incomplete.
func setStatus(ctx *fasthttp.RequestCtx, end *wire.End) {
	if !end.Complete {
		ctx.SetStatusCode(http.StatusPartialContent)
	}
}
