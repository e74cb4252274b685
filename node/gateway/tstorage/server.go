// Package tstorage is a gateway: it speaks the wire protocol of TStorage, the system whose
// five-part key pentad shares, so that programs which use one of its client libraries can store
// and read records in a node. TSTORAGE.md describes the protocol and what of pentad it shows.
//
// It owns connections, the bytes on them, and the two epochs. It knows nothing of how records are
// kept: behind it stands a [Database], which a node is. Its main type is [Server].
package tstorage

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/internal/accept"
	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Database is what the gateway stores into and reads from.
type Database interface {
	// Put stores a batch, all of it or nothing.
	Put(ctx context.Context, b *record.Batch, w store.WriterSeq) (store.PutResult, error)
	// CheckStamped returns the error with which PutStamped, or PutBackdated when below is set,
	// would refuse a batch whatever else happens, and how many rows are there already of those that
	// PutStamped would refuse for their acqs. It stores nothing and moves no horizon.
	CheckStamped(ctx context.Context, b *record.Batch, below bool) (known int, err error)
	// PutStamped stores a batch under the acquisition times that it brings, which rise and lie
	// above all that were assigned or leased; it returns the least that it would have taken.
	PutStamped(ctx context.Context, b *record.Batch) (floorNs int64, err error)
	// PutBackdated stores a batch under the acquisition times that it brings, wherever they lie.
	PutBackdated(ctx context.Context, b *record.Batch) (store.PutBackdatedResult, error)
	// ByAcq returns a sorter of records by acq, which keeps in files what memory has no space for.
	ByAcq() *spill.Sorter
	// QueryBelow hands the records of a query with an acq below belowNs, which was a horizon of its
	// box, to emit, in batches that are valid during the call. It finds all of them.
	QueryBelow(ctx context.Context, q *record.Query, belowNs int64,
		emit func(b *record.Batch) error) (wire.End, error)
	// HorizonPast returns an acq below which nothing changes any more in a box, and waits until it
	// lies above afterNs; 0 waits for nothing.
	HorizonPast(ctx context.Context, box *record.Box, afterNs int64) (int64, error)
	// Kind returns the kind of an error that one of these returned.
	Kind(err error) wire.Kind
}

const (
	defaultConnections = 4096
	// maxWholeBytes is what one put of a node takes.
	maxWholeBytes      = record.MaxBatchBytes
	defaultBufferBytes = 256 << 20
	defaultIdle        = time.Hour
	defaultStall       = time.Minute
	defaultWait        = 30 * time.Second
)

// PutA says which acquisition times clients may bring.
type PutA uint8

// What clients may bring.
const (
	PutANone  PutA = 0 // none
	PutAAbove PutA = 1 // those above all that were assigned or leased
	PutAAny   PutA = 2 // any up to now, and so change what is below the horizon
)

// Options of a gateway. The zero value of each field but Database works.
type Options struct {
	Database Database
	Logger   *slog.Logger // nil: quiet
	TLS      *tls.Config  // nil: plain TCP
	PutA     PutA         // which acquisition times clients may bring

	Connections int // at the same time; more are hung up on; default 4096
	// WholeBytes is how large a batch of a PUT, or a PUTA, may be to be stored whole or not at all:
	// a larger one is stored in pieces as it comes. Default: a quarter of BufferBytes, at most
	// 64 MiB.
	WholeBytes  int
	BufferBytes int64 // of all batches that are coming in; above it one at a time; 256 MiB

	// Gets and Puts work in the database at the same time, others wait for a permit. The default
	// is 4 of each per processor, half of what a node takes: the other half is for its own clients.
	Gets, Puts int

	Idle  time.Duration // between requests, before a client is hung up on; default 1 h
	Stall time.Duration // without progress inside a request; default 1 min
	// Wait is for a permit, for memory, for a busy database, and for replicas that are behind an
	// acq which a client knows; default 30 s.
	Wait time.Duration
}

func (o Options) withDefaults() (Options, error) {
	if o.Database == nil {
		return o, errors.New("tstorage: Options.Database is nil; name a node")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Connections = cmp.Or(o.Connections, accept.AtMost(defaultConnections))
	o.BufferBytes = cmp.Or(o.BufferBytes, defaultBufferBytes)
	o.WholeBytes = cmp.Or(o.WholeBytes, int(min(max(o.BufferBytes/4, 1), maxWholeBytes)))
	o.Gets = cmp.Or(o.Gets, 4*runtime.GOMAXPROCS(0))
	o.Puts = cmp.Or(o.Puts, 4*runtime.GOMAXPROCS(0))
	o.Idle = cmp.Or(o.Idle, defaultIdle)
	o.Stall = cmp.Or(o.Stall, defaultStall)
	o.Wait = cmp.Or(o.Wait, defaultWait)
	return o, nil
}

// Server is a gateway that listens. All methods may be called from many goroutines.
//
// Goroutines: one accepts, one serves each connection, and one more stores while a connection
// brings more records than one put takes. Close ends and waits for them. Timers write the first
// bytes of answers that take long.
type Server struct {
	opt      Options
	log      *slog.Logger
	listener *accept.Listener
	budget   *budget.Budget
	gets     chan struct{} // a permit is taken while a GET runs
	puts     chan struct{}

	running context.Context // of every request; ends when a graceful end takes too long
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	counters counters
	talk     talk
	stored   atomic.Int64 // greatest acq that a PUT was answered with, in pentad's time

	restoring sync.Mutex // one PUTA below the horizon at a time, from its check to its last record

	ending atomic.Bool // set as Close begins

	mu      sync.Mutex
	conns   map[*conn]struct{} // guarded by mu
	closing bool               // guarded by mu; set under it, so that no connection begins after
}

// Listen opens an address and serves it until Close.
func Listen(addr string, opt Options) (*Server, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s for TStorage clients: %w", addr, err)
	}
	s := &Server{opt: opt, log: opt.Logger, listener: accept.New(listener, nil),
		budget: budget.New(opt.BufferBytes, 0), gets: make(chan struct{}, opt.Gets),
		puts: make(chan struct{}, opt.Puts), conns: map[*conn]struct{}{}}
	s.running, s.cancel = context.WithCancel(context.Background())
	s.wg.Go(s.accept)
	return s, nil
}

// Problems returns what is wrong and stays wrong.
func (s *Server) Problems() []health.Problem {
	return s.listener.Problems("TStorage clients")
}

// Addr returns the address that is served.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// endStall is how long a client may keep an ending server waiting for the next bytes of a request.
const endStall = 3 * time.Second

func (s *Server) accept() {
	for {
		raw, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.begin(raw)
	}
}

// begin serves a connection on a goroutine of its own, or hangs up when there are too many.
func (s *Server) begin(raw net.Conn) {
	c := &conn{server: s, raw: raw, tcp: raw}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || len(s.conns) >= s.opt.Connections {
		s.counters.refused.Add(1)
		_ = raw.Close() // nothing was sent yet
		return
	}
	s.conns[c] = struct{}{}
	s.counters.connections.Add(1)
	s.wg.Go(c.serve)
}

// end forgets a connection.
func (s *Server) end(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// rest marks a connection as waiting for a request; false when the server is closing.
func (s *Server) rest(c *conn, idle bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.idle = idle
	return !s.closing
}

// Close stops accepting, hangs up on clients between requests, waits for the running requests
// and, when ctx ends, gives them up.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return net.ErrClosed
	}
	s.closing = true
	s.mu.Unlock()
	s.ending.Store(true)
	err := s.listener.Close()
	s.hangUp(false)
	s.hurry()
	stop := context.AfterFunc(ctx, func() {
		s.cancel()
		s.hangUp(true)
	})
	s.wg.Wait()
	if !stop() {
		err = errors.Join(err, fmt.Errorf("end TStorage requests gracefully: %w",
			context.Cause(ctx)))
	}
	s.cancel()
	return err
}

// hurry lets no pending read last longer than those that follow.
func (s *Server) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.raw.SetReadDeadline(time.Now().Add(endStall)) // it is closed at worst
	}
}

// hangUp closes the connections that are idle, or all.
func (s *Server) hangUp(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if all || c.idle {
			_ = c.raw.Close() // closed twice at worst
		}
	}
}

var errBusy = errors.New("no place became free in time")

// take waits for a permit to work in the database.
func (s *Server) take(permits chan struct{}) error {
	select {
	case permits <- struct{}{}:
		return nil
	default:
	}
	timeout := time.NewTimer(s.opt.Wait)
	defer timeout.Stop()
	select {
	case permits <- struct{}{}:
		return nil
	case <-timeout.C:
		return errBusy
	case <-s.running.Done():
		return s.running.Err()
	}
}

const (
	firstPause = 5 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// patiently calls f again while the database says that it is overloaded, or has stored a part of a
// put and may store the rest soon, until Options.Wait is over: the protocol's clients do not try
// again by themselves.
func (s *Server) patiently(f func() error) error {
	deadline := time.Now().Add(s.opt.Wait)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := f()
		if err == nil || !s.mayPass(err) || time.Now().Add(pause).After(deadline) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-s.running.Done():
			return s.running.Err()
		}
	}
}

// mayPass reports whether the same call may succeed soon, and stores nothing twice.
func (s *Server) mayPass(err error) bool {
	kind := s.opt.Database.Kind(err)
	var begun resumable
	return kind == wire.KindOverloaded || errors.As(err, &begun) && kind.Temporary()
}

// statusFor returns the status for an error of a request.
func (s *Server) statusFor(err error) status {
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return refused.status
	case errors.Is(err, errBusy):
		return statusRetry
	case errors.Is(err, budget.ErrFull), errors.Is(err, errSlow):
		return statusNoMemory
	case errors.Is(err, context.Canceled):
		return statusInactive // the server's context: it is closing
	}
	return statusOf(s.opt.Database.Kind(err))
}

// refusal is a request that is wrong, whatever the state of the database.
type refusal struct {
	status status
	text   string
}

// Error implements error.
func (r *refusal) Error() string { return r.text }

func refuse(st status, format string, args ...any) error {
	return &refusal{st, fmt.Sprintf(format, args...)}
}
