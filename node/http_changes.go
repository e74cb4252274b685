package node

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/internal/changestream"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/rowjson"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

const (
	// leastBeat keeps a reader from being told all the time how far it is.
	leastBeat = 50 * time.Millisecond
)

var (
	changesParams = []string{"cid", "mid", "moid", "cap", "filter", "filter_params", "unchecked",
		"keys", "type", "format", "since", "follow"}
	horizonParams = []string{"cid", "mid", "moid", "cap", request.ParamGroups, request.ParamWithin,
		request.ParamAfter, request.ParamRead}
	followParams = []string{"since", "follow", "beat_ms", request.ParamGroups, request.ParamWithin,
		request.ParamAfter}
)

// changesRequest is a parsed request for changes.
type changesRequest struct {
	q      *record.Query
	fromNs int64
	follow bool
	beat   time.Duration // how often it is told how far it is; 0 for the usual
	asked  request.Options
	out    changestream.Writer
}

// changes answers with what came to a box in the order of acq. The answer is written on a goroutine
// of its own, because it may go on for years.
func (s *server) changes(ctx *fasthttp.RequestCtx) {
	r, err := s.parseChanges(ctx)
	done := func() {}
	if err == nil {
		rc, cancel := s.watchedContext(ctx.Conn(), r.asked)
		defer cancel()
		done, err = s.node.engine.CheckChanges(rc, r.asked, r.q, r.fromNs)
	}
	if err == nil {
		err = s.http.CheckFeed(ctx)
	}
	if err != nil {
		done()
		httpserver.WriteError(ctx, toWire(err))
		return
	}
	ctx.SetContentType(changestream.ContentTypes[r.out.Form])
	if string(ctx.Method()) == http.MethodHead {
		done()
		return
	}
	s.http.StartFeed(ctx, done, func(out *httpserver.Feed) { s.feed(out, r) })
}

func (s *server) parseChanges(ctx *fasthttp.RequestCtx) (r *changesRequest, err error) {
	r = &changesRequest{q: new(record.Query)}
	args := ctx.QueryArgs()
	if string(ctx.Method()) == http.MethodPost {
		r.out.Form = changestream.Frames
		err = wire.ParseQuery(ctx.PostBody(), r.q)
	} else if r.q, err = s.parseQuery(ctx); err == nil {
		if r.out.Payloads,
			err = rowjson.ParsePayloadType(string(ctx.QueryArgs().Peek("type"))); err == nil {
			r.out.Form, err = parseChangesForm(ctx)
		}
	}
	if err == nil {
		r.follow, err = params.Flag(args, "follow")
	}
	if err != nil {
		return r, err
	}
	r.asked = askedOf(ctx)
	if text := string(ctx.Request.Header.Peek(wire.FeedHeader)); text != "" {
		if r.asked.FeedID, err = strconv.ParseUint(text, 10, 64); err != nil {
			return r, params.Bad(wire.FeedHeader, fmt.Errorf("%q is not a number",
				params.Clip(text)))
		}
	}
	if r.beat, err = parseBeat(args); err != nil {
		return r, err
	}
	r.out.Keys = r.q.KeysOnly
	r.fromNs, err = parseSince(ctx, s.node.now())
	return r, err
}

// parseBeat parses the heartbeat interval that another node wants for a feed that it merges.
func parseBeat(args *fasthttp.Args) (time.Duration, error) {
	text := string(args.Peek("beat_ms"))
	if text == "" {
		return engine.Heartbeat, nil
	}
	ms, err := strconv.ParseUint(text, 10, 31)
	beat := time.Duration(ms) * time.Millisecond
	if err != nil || beat < leastBeat || beat > engine.Heartbeat {
		return 0, params.Bad("beat_ms", fmt.Errorf("%q is not a time of %s to %s in ms",
			params.Clip(text),
			leastBeat, engine.Heartbeat))
	}
	return beat, nil
}

// parseSince parses where changes begin. Browsers send Last-Event-ID when they reconnect.
func parseSince(ctx *fasthttp.RequestCtx, now time.Time) (int64, error) {
	part, text := "Last-Event-ID", string(ctx.Request.Header.Peek("Last-Event-ID"))
	if text == "" {
		part, text = "since", string(ctx.QueryArgs().Peek("since"))
	}
	if text == "" {
		return math.MinInt64, nil // restored records may have acqs before 1970
	}
	if text == "now" {
		return SinceNow, nil
	}
	if ns, err := strconv.ParseInt(text, 10, 64); err == nil && ns != SinceNow {
		return ns, nil
	}
	at, err := timeparse.Parse(text, now)
	if err != nil {
		return 0, params.Bad(part, err)
	}
	return at.FromNs, nil
}

func parseChangesForm(ctx *fasthttp.RequestCtx) (changestream.Form, error) {
	switch format := string(ctx.QueryArgs().Peek("format")); format {
	case "ndjson":
		return changestream.Lines, nil
	case "sse":
		return changestream.Events, nil
	case "":
	default:
		return 0, params.Bad("format", fmt.Errorf("%q is not ndjson or sse", params.Clip(format)))
	}
	accept := string(ctx.Request.Header.Peek("Accept"))
	for form, contentType := range changestream.ContentTypes {
		if form > 0 && strings.Contains(accept, contentType) {
			return changestream.Form(form), nil
		}
	}
	return changestream.Lines, nil
}

// feed writes changes until they end, the client disconnects or the node closes.
func (s *server) feed(out *httpserver.Feed, r *changesRequest) {
	if out.Begin(changestream.ContentTypes[r.out.Form]) != nil {
		return // the client has disconnected
	}
	gone := false
	write := func(produce func(w *bufio.Writer) error) error {
		err := out.Produce(produce)
		gone = gone || err != nil
		return err
	}
	running, cancel := context.WithCancel(s.http.Running())
	defer cancel()
	defer out.Watch(cancel)()
	closed, err := s.node.engine.Changes(running, r.asked, r.q, r.fromNs, r.follow, r.beat,
		func(b *store.Slice) error {
			return write(func(w *bufio.Writer) error { return r.out.Slice(w, b) })
		})
	if gone {
		return
	}
	var failure *wire.Error
	if err != nil {
		failure = toWire(err)
	}
	if write(func(w *bufio.Writer) error { return r.out.End(w, closed, failure) }) == nil {
		_ = out.End() // the client has disconnected
	}
}
