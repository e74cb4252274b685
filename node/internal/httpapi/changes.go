package httpapi

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
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

var (
	changesParams = []string{"cid", "mid", "moid", "cap", "select", "where", "filter",
		"filter_params", "unchecked", "keys", "type", "format", "since", "follow"}
	horizonParams = []string{"cid", "mid", "moid", "cap", request.ParamGroups, request.ParamWithin,
		request.ParamAfter, request.ParamRead}
	followParams = []string{"since", "follow", "beat_ms", request.ParamGroups, request.ParamWithin,
		request.ParamAfter}
)

// changesRequest is a parsed request for changes.
type changesRequest struct {
	q       *record.Query
	fromNs  int64
	follow  bool
	beat    time.Duration // how often it is told how far it is; 0 for the usual
	options request.Options
	out     changestream.Writer
}

// changes answers with what came to a box in the order of acq. The answer is written on a goroutine
// of its own, because it may go on for years.
func (s *Server) changes(req *httpserver.Request) {
	r, err := s.parseChanges(req)
	done := func() {}
	if err == nil {
		rc, cancel := s.watchedContext(req.Conn(), r.options)
		defer cancel()
		done, err = s.Engine.CheckChanges(rc, r.options, r.q, r.fromNs)
	}
	if err == nil {
		err = s.http.CheckFeed(req.RequestCtx)
	}
	if err != nil {
		done()
		fail(req, err)
		return
	}
	req.SetContentType(changestream.ContentTypes[r.out.Format])
	if string(req.Method()) == http.MethodHead {
		done()
		return
	}
	s.http.StartFeed(req.RequestCtx, done, func(out *httpserver.Feed) { s.feed(out, r) })
}

func (s *Server) parseChanges(req *httpserver.Request) (r *changesRequest, err error) {
	r = &changesRequest{q: new(record.Query)}
	args := req.QueryArgs()
	if string(req.Method()) == http.MethodPost {
		r.out.Format = changestream.Frames
		err = wire.ParseQuery(req.PostBody(), r.q)
	} else if r.q, err = s.parseQuery(req); err == nil {
		if r.out.Payloads, err = s.payloads(req); err == nil {
			r.out.Format, err = parseChangesFormat(req)
		}
	}
	if err == nil {
		r.follow, err = params.Flag(args, "follow")
	}
	if err != nil {
		return r, err
	}
	r.options = req.Options
	if text := string(req.Request.Header.Peek(wire.FeedHeader)); text != "" {
		if r.options.FeedID, err = strconv.ParseUint(text, 10, 64); err != nil {
			return r, params.Bad(wire.FeedHeader, fmt.Errorf("%q is not a number",
				params.Clip(text)))
		}
	}
	if r.beat, err = parseBeat(args); err != nil {
		return r, err
	}
	r.out.Keys = r.q.KeysOnly
	r.fromNs, err = parseSince(req, s.Clock.Now())
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
	if err != nil || beat < engine.LeastHeartbeat || beat > engine.Heartbeat {
		return 0, params.Bad("beat_ms", fmt.Errorf("%q is not a time of %s to %s in ms",
			params.Clip(text), engine.LeastHeartbeat, engine.Heartbeat))
	}
	return beat, nil
}

// parseSince parses where changes begin. Browsers send Last-Event-ID when they reconnect.
func parseSince(req *httpserver.Request, now time.Time) (int64, error) {
	part, text := "Last-Event-ID", string(req.Request.Header.Peek("Last-Event-ID"))
	if text == "" {
		part, text = "since", string(req.QueryArgs().Peek("since"))
	}
	if text == "" {
		return math.MinInt64, nil // restored records may have acqs before 1970
	}
	if text == "now" {
		return engine.SinceNow, nil
	}
	if ns, err := strconv.ParseInt(text, 10, 64); err == nil && ns != engine.SinceNow {
		return ns, nil
	}
	at, err := timeparse.Parse(text, now)
	if err != nil {
		return 0, params.Bad(part, err)
	}
	return at.FromNs, nil
}

func parseChangesFormat(req *httpserver.Request) (changestream.Format, error) {
	switch format := string(req.QueryArgs().Peek("format")); format {
	case "ndjson":
		return changestream.Lines, nil
	case "sse":
		return changestream.Events, nil
	case "":
	default:
		return 0, params.Bad("format", fmt.Errorf("%q is not ndjson or sse", params.Clip(format)))
	}
	accept := string(req.Request.Header.Peek("Accept"))
	for f, contentType := range changestream.ContentTypes {
		if f > 0 && strings.Contains(accept, contentType) {
			return changestream.Format(f), nil
		}
	}
	return changestream.Lines, nil
}

// feed writes changes until they end, the client disconnects or the node closes.
func (s *Server) feed(out *httpserver.Feed, r *changesRequest) {
	if out.Begin(changestream.ContentTypes[r.out.Format]) != nil {
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
	closed, err := s.Engine.Changes(running, r.options, r.q, r.fromNs, r.follow, r.beat,
		func(b *store.Slice) error {
			return write(func(w *bufio.Writer) error { return r.out.Slice(w, b) })
		})
	if gone {
		return
	}
	var failure *wire.Error
	if err != nil {
		failure = nodeerror.ToWire(err)
	}
	if write(func(w *bufio.Writer) error { return r.out.End(w, closed, failure) }) == nil {
		_ = out.End() // the client has disconnected
	}
}
