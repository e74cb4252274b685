// Package httpserver serves HTTP: connections, requests whose bodies take memory from a budget,
// routes and the guards before them, and answers that are streamed or never end.
//
// It knows nothing of what the routes do: handlers, and what parses the options of a request, are
// handed in, and errors are those of the wire protocol. Its main type is [Server]. Goroutines:
// those of fasthttp, one for each connection; one for each [Feed]; one for each connection that is
// watched, see [WatchDisconnect]; one that closes idle connections while the server ends.
package httpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/internal/accept"
	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// Limits of the server. fasthttp has none of its own.
const (
	maxBodyBytes = wire.MaxFramePayload + 4096
	// ReadTimeout is how long the client may take to send a request.
	ReadTimeout = time.Minute
	idleTimeout = 2 * time.Minute
	// requestTimeout bounds a request, answer included.
	requestTimeout = 10 * time.Minute
	// headerBytes bounds the headers and the query string.
	headerBytes = 64 << 10
	// writeBufferBytes is the write buffer of a connection.
	writeBufferBytes = 64 << 10
	// retryAfterMs is the retry advice of temporary errors.
	retryAfterMs = 200
)

// Options of a server.
type Options struct {
	Hosts  Hosts          // names that requests may have
	Bodies *budget.Budget // memory of request bodies
	Log    *slog.Logger
	Routes []Route
	// MaxFeeds is how many readers of changes there may be.
	MaxFeeds int
	// FeedsShort reports whether readers of changes that take nothing hold the memory of others:
	// they are hung up on sooner.
	FeedsShort func() bool
	// Parse parses and checks the options of every request, before the parameters of its route are
	// checked. Its errors are those of the protocol.
	Parse func(*fasthttp.Args) (request.Options, error)
	// Other answers a request whose path is not in Routes, and reports whether it did.
	Other func(ctx *fasthttp.RequestCtx, method, path string) bool
	// Serves reports whether the node has something to say at a path of Routes: others are left out
	// of the list in an error.
	Serves func(path string) bool
	// Monitors reports whether a path is of monitoring: it is also answered when there are too many
	// connections.
	Monitors func(path string) bool
	// Answered is called after the handler of each request.
	Answered func(status int, took time.Duration)
}

// Server serves HTTP. All methods may be called from many goroutines.
type Server struct {
	opt      Options
	listener *accept.Listener
	http     *fasthttp.Server
	// running is cancelled when a graceful end takes too long; every request's context comes
	// from it.
	running context.Context
	cancel  context.CancelFunc
	conns   conns
	feeds   feeds
	routes  *router
	maxBody int // bytes
}

// New returns a server of a listener, which it owns from then on. Serve begins.
func New(l net.Listener, opt Options) *Server {
	s := &Server{opt: opt,
		feeds:  feeds{most: opt.MaxFeeds, pages: map[string]int{}},
		routes: newRouter(opt.Routes),
		conns: conns{open: map[net.Conn]func(){},
			limits: newConnLimits(accept.AtMost(maxConnections))},
		maxBody: maxBody(opt.Bodies)}
	s.listener = accept.New(l, s.conns.closeStalled)
	s.running, s.cancel = context.WithCancel(context.Background())
	s.http = &fasthttp.Server{
		Handler:            s.handle,
		Name:               "pentad",
		Concurrency:        fasthttp.DefaultConcurrency, // conns bounds them
		MaxRequestBodySize: maxBodyBytes,
		StreamRequestBody:  true, // takeBody reads them
		HeaderReceived:     refuseLength,
		ExpectHandler:      s.continued,

		DisablePreParseMultipartForm: true, // into files, else
		ReadBufferSize:               headerBytes,
		WriteBufferSize:              writeBufferBytes,
		ReadTimeout:                  ReadTimeout,
		WriteTimeout:                 requestTimeout,
		IdleTimeout:                  idleTimeout,
		CloseOnShutdown:              true,
		NoDefaultServerHeader:        true,
		NoDefaultDate:                true,
		ErrorHandler:                 s.rejectUnreadable,
		ConnState:                    s.conns.track,
		Logger:                       discardLog{},
	}
	return s
}

// discardLog discards what fasthttp would log, e.g. disconnects of clients.
type discardLog struct{}

func (discardLog) Printf(string, ...any) {}

// rejectUnreadable answers requests that fasthttp could not read.
func (s *Server) rejectUnreadable(ctx *fasthttp.RequestCtx, err error) {
	var network net.Error
	text, _, _ := strings.Cut(err.Error(), ": buffer size=") // the rest repeats the request
	switch {
	case errors.As(err, new(*fasthttp.ErrSmallBuffer)):
		writeProblem(ctx, http.StatusRequestHeaderFieldsTooLarge, &wire.Error{
			Kind: wire.KindTooLarge, Message: fmt.Sprintf("URL and headers over %d bytes; "+
				"POST /v1/query takes longer queries, in frames", headerBytes)})
	case errors.As(err, &network) && network.Timeout():
		writeProblem(ctx, http.StatusRequestTimeout, &wire.Error{Kind: wire.KindTimeout,
			Message: fmt.Sprintf("the request did not come whole within %s", ReadTimeout)})
	case errors.Is(err, io.ErrUnexpectedEOF):
		WriteError(ctx, &wire.Error{Kind: wire.KindBadFrame, Message: "read request: the " +
			"connection ended before the request; send it again"})
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		WriteError(ctx, s.bodyTooLong())
	default:
		WriteError(ctx, &wire.Error{Kind: wire.KindBadFrame, Message: "read request: " + text})
	}
}

// Addr returns the address that is served.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Problems returns the problems of the listener.
func (s *Server) Problems() []health.Problem { return s.listener.Problems("clients") }

// Serve serves until Shutdown.
func (s *Server) Serve() error { return s.http.Serve(listener{s.listener, s}) }

// cancelRequests cancels the running requests and hangs up on clients that do not read their
// answers.
func (s *Server) cancelRequests() {
	s.cancel()
	s.conns.close(false)
}

// Shutdown stops accepting, waits for running requests and, when ctx ends, gives them up.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.cancelRequests()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { s.conns.sweep(done) })
	defer wg.Wait()
	defer close(done)
	err := s.http.ShutdownWithContext(ctx)
	// A Serve that has not begun yet is not known to fasthttp; it then ends as it begins.
	if e := s.listener.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
		err = errors.Join(err, e)
	}
	stop := context.AfterFunc(ctx, s.cancelRequests)
	s.feeds.end() // they end when the node closes, or by cancelRequests
	if !stop() {
		err = cmp.Or(err, ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("end gracefully: %w", err)
	}
	return nil
}

// Running returns the context that ends when the server gives requests up.
func (s *Server) Running() context.Context { return s.running }

// Context returns the context of a request, which ends with the server, or after the time that a
// request may take and, above 0, within.
func (s *Server) Context(limit time.Duration) (context.Context, context.CancelFunc) {
	timeout := requestTimeout
	if limit > 0 {
		timeout = min(timeout, limit)
	}
	return context.WithTimeout(s.running, timeout)
}

func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	began := time.Now()
	own := connOf(ctx)
	overLimit := own != nil && own.kind.Load() == monitoringOnly && !s.conns.makeOrdinary(own)
	defer func() {
		if fault := recover(); fault != nil {
			s.logPanic("panic in a request", fault)
			WriteError(ctx, &wire.Error{Kind: wire.KindInternal,
				Message: "internal fault; see the node's log"})
		}
		if overLimit {
			closeAfter(ctx)
		}
		s.opt.Answered(ctx.Response.StatusCode(), time.Since(began))
	}()
	if overLimit && !s.opt.Monitors(string(ctx.Path())) {
		WriteError(ctx, s.tooManyConnections())
		return
	}
	if err := s.takeBody(ctx); err != nil {
		s.refuseBody(ctx, err)
		return
	}
	if s.rejectHost(ctx) || rejectDotSegments(ctx) {
		return
	}
	s.route(ctx)
	s.zipBody(ctx)
}

func (s *Server) logPanic(where string, fault any) {
	s.opt.Log.Error(where, "err", fmt.Sprint(fault), "stack", string(debug.Stack()))
}
