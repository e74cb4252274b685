package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// scope is what a request says beside its question: whom it is asked of, and how it may end.
type scope struct {
	groups  []int         // of slots, all of them here; nil for all there are
	held    []slots.Range // that the stores of groups must hold; zero of those never split
	only    int           // number of the group that alone is asked, from 1 on; 0: all
	partial bool          // sources that cannot be asked may be left out
	linear  bool          // all that was acknowledged before must be there
	feed    uint64        // by which one who merges it knows a feed; 0: none
	fresh   bool          // no states are taken that were kept, and none are kept
	within  time.Duration // how long the one who asks waits; 0 for as long as the node allows
	// after are acqs that must lie below the horizons of what is asked: one for all, or one for
	// each of groups.
	after []int64
}

type scopeKey struct{}

// AllowPartial makes answers of many sources go on without those that cannot be asked: the end of
// an answer then says that it is not complete, and what is missing.
func AllowPartial(ctx context.Context) context.Context {
	s := scopeOf(ctx)
	s.partial = true
	return withScope(ctx, s)
}

// Fresh makes an aggregate read all rows of its box, where otherwise states of blocks may be taken
// that were kept. Its answer is the same.
func Fresh(ctx context.Context) context.Context {
	s := scopeOf(ctx)
	s.fresh = true
	return withScope(ctx, s)
}

func withScope(ctx context.Context, s scope) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

func scopeOf(ctx context.Context) scope {
	s, _ := ctx.Value(scopeKey{}).(scope) // without one, the zero scope
	return s
}

// Parameters of a scope. Those of peers belong to requests in frames.
const (
	paramPartial = "partial"
	paramFresh   = "fresh"
	paramGroups  = "groups"
	paramOfGroup = "of_group"
	paramWithin  = "within_ms"
	paramAfter   = "after"
	paramRead    = "read"
)

// peerParams are what a node says that asks another one.
var peerParams = []string{paramGroups, paramWithin, paramAfter}

// parseScope reads the scope of a request.
func parseScope(args *fasthttp.Args) (s scope, err error) {
	switch text := string(args.Peek(paramPartial)); text {
	case "":
	case "allow":
		s.partial = true
	default:
		return s, badParam(paramPartial, fmt.Errorf("%q is not allow; leave it out to get all or "+
			"an error", clip(text)))
	}
	if s.fresh, err = parseFlag(args, paramFresh); err != nil {
		return s, err
	}
	if text := string(args.Peek(paramGroups)); text != "" {
		if s.groups, s.held, err = parseAsked(text); err != nil {
			return s, badParam(paramGroups, err)
		}
	}
	if text := string(args.Peek(paramOfGroup)); text != "" {
		number, err := strconv.ParseUint(text, 10, 16)
		if err != nil || number == 0 || s.groups != nil {
			return s, badParam(paramOfGroup, fmt.Errorf("%q is not the number of a group, of "+
				"which the first is 1; or %s is there, too", clip(text), paramGroups))
		}
		s.only = int(number)
	}
	if text := string(args.Peek(paramAfter)); text != "" {
		if s.after, err = parseAcqs(text); err != nil || len(s.after) > 1 &&
			len(s.after) != len(s.groups) {
			return s, badParam(paramAfter, fmt.Errorf("%q is neither an acq in ns nor one for "+
				"each of groups, joined by commas", clip(text)))
		}
	}
	switch text := string(args.Peek(paramRead)); text {
	case "":
	case "linearizable":
		s.linear = true
	default:
		return s, badParam(paramRead, fmt.Errorf("%q is not linearizable; leave it out to read "+
			"what the nearest replicas have", clip(text)))
	}
	if text := string(args.Peek(paramWithin)); text != "" {
		ms, err := strconv.ParseUint(text, 10, 31)
		if err != nil || ms == 0 {
			return s, badParam(paramWithin, fmt.Errorf("%q is not a time in ms", clip(text)))
		}
		s.within = time.Duration(ms) * time.Millisecond
	}
	return s, nil
}

// parseAsked reads numbers of groups, ascending and joined by commas, and the slots that those
// hold which were split: 3,7:0-512.
func parseAsked(text string) (groups []int, held []slots.Range, err error) {
	for part := range strings.SplitSeq(text, ",") {
		number, span, split := strings.Cut(part, ":")
		g, err := strconv.ParseUint(number, 10, 16)
		var r slots.Range
		if split && err == nil {
			r, err = parseSlotRange(span)
		}
		if err != nil || len(groups) > 0 && int(g) <= groups[len(groups)-1] {
			return nil, nil, fmt.Errorf("%q is not a list of ascending numbers joined by commas, "+
				"each with :FROM-TO where it was split", clip(text))
		}
		groups, held = append(groups, int(g)), append(held, r)
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

// heldOf returns the slots that the store of a group that is asked must hold.
func (s *scope) heldOf(group int) slots.Range {
	if i := slices.Index(s.groups, group); i >= 0 && i < len(s.held) {
		return s.held[i]
	}
	return slots.Range{}
}

// parseAcqs reads acqs in ns that are joined by commas.
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

// afterOf returns the acq that must lie below the horizon of a group that is asked.
func (s *scope) afterOf(group int) int64 {
	switch i := slices.Index(s.groups, group); {
	case len(s.after) == 1:
		return s.after[0]
	case i >= 0 && i < len(s.after):
		return s.after[i]
	}
	return 0
}

// checkScope refuses a scope that cannot be read or is not of this node.
func (s *server) checkScope(args *fasthttp.Args) error {
	asked, err := parseScope(args)
	if err != nil {
		return err
	}
	l := s.node.layout.Load()
	if asked.only > 0 {
		if err := l.hasWhole(asked.only); err != nil {
			return err
		}
	}
	for _, g := range asked.groups {
		if g >= len(l.groups) || l.groups[g].here == nil {
			return notHere(g)
		}
	}
	return nil
}

// hasWhole returns an error unless there is a group that was never split. One that was holds other
// slots than before, which a copy of it would not notice.
func (l *layout) hasWhole(number int) error {
	kind, why := wire.KindNotFound, "it is in no cluster"
	switch {
	case l.only != nil:
	case len(l.groups) == 0:
		return errNoView
	case number > len(l.groups):
		why = fmt.Sprintf("its cluster has groups 1 to %d", len(l.groups))
	case l.groups[number-1].held != slots.Range{} || l.groups[number-1].settling:
		kind, why = wire.KindInvalid, "it was split, or split off, so that nothing that has its "+
			"number elsewhere has the same slots; give its records new acqs with --restamp"
	default:
		return nil
	}
	return &wire.Error{Kind: kind, Part: paramOfGroup,
		Message: fmt.Sprintf("group %d of this node alone: %s", number, why)}
}

// scoped is [server.context] for a question that may be asked of many sources. Where there are
// other nodes, it ends when who asks hangs up, so that they do not work for nobody.
func (s *server) scoped(ctx *fasthttp.RequestCtx) (context.Context, context.CancelFunc) {
	asked, _ := parseScope(ctx.QueryArgs()) // handle has checked it
	return s.watched(ctx.Conn(), asked)
}

// watched is under for the request of a connection.
func (s *server) watched(conn net.Conn, asked scope) (context.Context, context.CancelFunc) {
	rc, cancel := s.under(asked)
	if asked.groups == nil && s.node.layout.Load().only != nil {
		return rc, cancel
	}
	stop := watchHangUp(conn, cancel)
	return rc, func() {
		stop()
		cancel()
	}
}

// under returns the context of a request with a scope.
func (s *server) under(asked scope) (context.Context, context.CancelFunc) {
	timeout := queryTimeout
	if asked.within > 0 {
		timeout = min(timeout, asked.within)
	}
	rc, cancel := context.WithTimeout(s.running, timeout)
	if asked.groups != nil || asked.only > 0 || asked.partial || asked.fresh ||
		asked.after != nil || asked.linear {
		rc = withScope(rc, asked)
	}
	return rc, cancel
}

// setStatus says before an answer that it is not complete, where that is known.
func setStatus(ctx *fasthttp.RequestCtx, end *wire.End) {
	if !end.Complete {
		ctx.SetStatusCode(http.StatusPartialContent)
	}
}
