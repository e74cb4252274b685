package httpapi

import (
	"bufio"
	"context"
	"net"
	"net/http"

	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// requestContext is [Server.context] for a query of many sources. In a cluster it ends when the
// client disconnects, so that other nodes do not work in vain.
func (s *Server) requestContext(
	req *httpserver.Request,
) (context.Context, context.CancelFunc) {
	return s.watchedContext(req.Conn(), req.Options)
}

// watchedContext returns the context of a request of a connection; see requestContext.
func (s *Server) watchedContext(
	conn net.Conn, options request.Options,
) (context.Context, context.CancelFunc) {
	rc, cancel := s.http.Context(options.Timeout)
	if options.Groups == nil && s.Engine.IsSingleStore() {
		return rc, cancel
	}
	stop := httpserver.WatchDisconnect(conn, cancel)
	return rc, func() {
		stop()
		cancel()
	}
}

// context returns the context of a request, which ends with the server or after a timeout.
func (s *Server) context() (context.Context, context.CancelFunc) { return s.http.Context(0) }

// stream answers with what produce writes, after the handler has returned. The context of produce
// ends with the server, after a timeout, or when a node that sent the request disconnects.
func (s *Server) stream(
	req *httpserver.Request, produce func(rc context.Context, w *bufio.Writer) error,
) {
	s.http.Stream(req.RequestCtx, httpserver.Stream{Begin: s.begin(req.Conn(), req.Options),
		Produce: produce})
}

// streamIn is stream under a permit. It releases the permit when the answer ends, or when nothing
// is produced. While the client does not read, the permit is lent to others.
func (s *Server) streamIn(
	req *httpserver.Request, a *engine.Admitted,
	produce func(rc context.Context, w *bufio.Writer) error,
) {
	s.http.Stream(req.RequestCtx, httpserver.Stream{Begin: s.begin(req.Conn(), a.Options()),
		Produce: produce, Permit: a.Permit(), End: a.Done})
}

// streamZipped is streamIn of an answer that may be compressed.
func (s *Server) streamZipped(
	req *httpserver.Request, a *engine.Admitted,
	produce func(rc context.Context, w *bufio.Writer) error,
) {
	s.http.Stream(req.RequestCtx, httpserver.Stream{Begin: s.begin(req.Conn(), a.Options()),
		Produce: produce, Zipped: true, Permit: a.Permit(), End: a.Done})
}

// begin returns what begins the context of a streamed answer.
func (s *Server) begin(
	conn net.Conn, options request.Options,
) func() (context.Context, context.CancelFunc) {
	return func() (context.Context, context.CancelFunc) { return s.watchedContext(conn, options) }
}

// prepare admits the query of a request.
func (s *Server) prepare(req *httpserver.Request, q *record.Query) (*engine.Admitted, error) {
	rc, cancel := s.requestContext(req)
	defer cancel()
	return s.Engine.Prepare(rc, req.Options, q)
}

// setStatus sets the status of an answer that is known to be incomplete.
func setStatus(req *httpserver.Request, end *wire.End) {
	if !end.Complete {
		req.SetStatusCode(http.StatusPartialContent)
	}
}
