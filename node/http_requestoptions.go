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
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// Parameters of request options.
const (
	paramPartial = "partial"
	paramFresh   = "fresh"
	paramGroups  = "groups"
	paramOfGroup = "of_group"
	paramWithin  = "within_ms"
	paramAfter   = "after"
	paramRead    = "read"
)

// peerParams are those that only other nodes send.
var peerParams = []string{paramGroups, paramWithin, paramAfter}

// parseRequestOptions parses the options of a request.
func parseRequestOptions(args *fasthttp.Args) (s requestOptions, err error) {
	switch text := string(args.Peek(paramPartial)); text {
	case "":
	case "allow":
		s.partial = true
	default:
		return s, params.Bad(paramPartial,
			fmt.Errorf("%q is not allow; leave it out to get all or "+
				"an error", params.Clip(text)))
	}
	if s.noCache, err = params.Flag(args, paramFresh); err != nil {
		return s, err
	}
	if text := string(args.Peek(paramGroups)); text != "" {
		if s.groups, s.mustHold, err = parseAsked(text); err != nil {
			return s, params.Bad(paramGroups, err)
		}
	}
	if text := string(args.Peek(paramOfGroup)); text != "" {
		number, err := strconv.ParseUint(text, 10, 16)
		if err != nil || number == 0 || s.groups != nil {
			return s, params.Bad(paramOfGroup, fmt.Errorf("%q is not the number of a group, of "+
				"which the first is 1; or %s is there, too", params.Clip(text), paramGroups))
		}
		s.onlyGroup = cluster.GroupID(number)
	}
	if text := string(args.Peek(paramAfter)); text != "" {
		if s.after, err = parseAcqs(text); err != nil || len(s.after) > 1 &&
			len(s.after) != len(s.groups) {
			return s, params.Bad(paramAfter, fmt.Errorf("%q is neither an acq in ns nor one for "+
				"each of groups, joined by commas", params.Clip(text)))
		}
	}
	switch text := string(args.Peek(paramRead)); text {
	case "":
	case "linearizable":
		s.linear = true
	default:
		return s, params.Bad(paramRead, fmt.Errorf("%q is not linearizable; leave it out to read "+
			"what the nearest replicas have", params.Clip(text)))
	}
	if text := string(args.Peek(paramWithin)); text != "" {
		ms, err := strconv.ParseUint(text, 10, 31)
		if err != nil || ms == 0 {
			return s, params.Bad(paramWithin, fmt.Errorf("%q is not a time in ms",
				params.Clip(text)))
		}
		s.within = time.Duration(ms) * time.Millisecond
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
	l := s.node.routes.Load()
	if asked.onlyGroup > 0 {
		if err := l.checkNeverSplit(asked.onlyGroup); err != nil {
			return err
		}
	}
	for _, g := range asked.groups {
		if p := l.route(g); p == nil || p.local == nil {
			return notHere(g)
		}
	}
	return nil
}

// requestContext is [server.context] for a query of many sources. In a cluster it ends when the
// client disconnects, so that other nodes do not work in vain.
func (s *server) requestContext(ctx *fasthttp.RequestCtx) (context.Context, context.CancelFunc) {
	asked, _ := parseRequestOptions(ctx.QueryArgs()) // Options.Check has
	return s.watchedContext(ctx.Conn(), asked)
}

// watchedContext is contextWith for the request of a connection.
func (s *server) watchedContext(
	conn net.Conn, asked requestOptions,
) (context.Context, context.CancelFunc) {
	rc, cancel := s.contextWith(asked)
	if asked.groups == nil && s.node.routes.Load().single != nil {
		return rc, cancel
	}
	stop := httpserver.WatchDisconnect(conn, cancel)
	return rc, func() {
		stop()
		cancel()
	}
}

// context returns the context of a request, which ends with the server or after a timeout.
func (s *server) context() (context.Context, context.CancelFunc) {
	return s.contextWith(requestOptions{})
}

// contextWith returns the context of a request with options.
func (s *server) contextWith(asked requestOptions) (context.Context, context.CancelFunc) {
	rc, cancel := s.http.Context(asked.within)
	if asked.groups != nil || asked.onlyGroup > 0 || asked.partial || asked.noCache ||
		asked.after != nil || asked.linear {
		rc = withOptions(rc, asked)
	}
	return rc, cancel
}

// stream answers with what produce writes, after the handler has returned. The context of produce
// ends with the server, after a timeout, or when a node that sent the request disconnects.
func (s *server) stream(
	ctx *fasthttp.RequestCtx, produce func(rc context.Context, w *bufio.Writer) error,
) {
	asked, _ := parseRequestOptions(ctx.QueryArgs()) // Options.Check has
	s.http.Stream(ctx, httpserver.Stream{Begin: s.begin(ctx.Conn(), asked), Produce: produce})
}

// streamIn is stream under a permit. It releases the permit when the answer ends, or when nothing
// is produced. While the client does not read, the permit is lent to others.
func (s *server) streamIn(
	ctx *fasthttp.RequestCtx, permit *queryPermit,
	produce func(rc context.Context, w *bufio.Writer) error,
) {
	s.http.Stream(ctx, httpserver.Stream{Begin: s.begin(ctx.Conn(), permit.asked),
		Produce: produce, Permit: permit.permit, End: permit.done})
}

// begin returns what begins the context of a streamed answer.
func (s *server) begin(
	conn net.Conn, asked requestOptions,
) func() (context.Context, context.CancelFunc) {
	return func() (context.Context, context.CancelFunc) { return s.watchedContext(conn, asked) }
}

// prepare is prepareQuery for a request.
func (s *server) prepare(ctx *fasthttp.RequestCtx, q *record.Query) (*queryPermit, error) {
	asked, _ := parseRequestOptions(ctx.QueryArgs()) // Options.Check has
	rc, cancel := s.watchedContext(ctx.Conn(), asked)
	defer cancel()
	permit, err := s.node.prepareQuery(rc, q)
	if err == nil {
		permit.asked = asked
	}
	return permit, err
}

// setStatus sets the status of an answer that is known to be incomplete.
func setStatus(ctx *fasthttp.RequestCtx, end *wire.End) {
	if !end.Complete {
		ctx.SetStatusCode(http.StatusPartialContent)
	}
}
