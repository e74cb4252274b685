package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/leaks"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// fault is what a fake node does with a put.
type fault int

const (
	none      fault = iota
	deaf            // hangs up without having read the put as stored
	lost            // stores, and hangs up before the answer
	halfReply       // stores, and hangs up in the midst of the answer
	garbage         // stores, and answers bytes of another protocol
	busy            // asks for a retry
	closing         // says that it is going away
	numFaults
)

// fake is a node of which everything but the put's bookkeeping is scripted.
type fake struct {
	t      *testing.T
	server *http.Server
	addr   string
	done   chan struct{}

	mu     *sync.Mutex
	faults func(put int, p *wire.Put) fault // nil: none; called with mu held
	puts   int
	seen   map[[16]byte]uint64 // last sequence stored
	mids   []int64             // of the stored records, in order
	query  func(w http.ResponseWriter)
	nodes  string // what it says when it is asked whether it is well
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, mu: new(sync.Mutex), seen: map[[16]byte]uint64{}}
	f.start("127.0.0.1:0")
	t.Cleanup(f.stop)
	return f
}

// move lets the node listen at a port that systems do not give to connections, so that it can be
// started again there.
func (f *fake) move() {
	f.t.Helper()
	f.stop()
	for {
		addr := fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(20_000))
		l, err := net.Listen("tcp", addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			f.t.Fatal(err)
		}
		_ = l.Close()
		f.start(addr)
		return
	}
}

func (f *fake) start(addr string) {
	f.t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.addr, f.done = l.Addr().String(), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(f.nodes)) // see put
	})
	mux.HandleFunc("POST /v1/put", f.put)
	for _, path := range []string{"/v1/query", "/v1/count", "/v1/diff", "/v1/versions"} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, _ *http.Request) { f.query(w) })
	}
	f.server = &http.Server{Handler: mux}
	server, done := f.server, f.done
	go func() {
		_ = server.Serve(l) // ends with ErrServerClosed
		close(done)
	}()
}

// stop ends the node with its connections, as a kill does.
func (f *fake) stop() {
	_ = f.server.Close()
	<-f.done
}

func (f *fake) put(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the writer gave up
	}
	p := wire.Put{Batch: new(record.Batch)}
	if err := wire.ParsePut(body, &p); err != nil {
		f.t.Errorf("put of %d bytes: %v", len(body), err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.puts++
	what := none
	if f.faults != nil {
		what = f.faults(f.puts, &p)
	}
	reply := wire.PutReply{Records: uint32(p.Batch.Len()), LastAcqNs: 5}
	if what != deaf && what != busy && what != closing {
		reply.Duplicate = f.store(&p)
	}
	good := wire.AppendPutReply(nil, &reply)
	switch what {
	case none:
		_, _ = w.Write(good) // a writer that left is no fault of the node
	case deaf, lost:
		panic(http.ErrAbortHandler)
	case halfReply:
		_, _ = w.Write(good[:len(good)/2])
	case garbage:
		_, _ = w.Write([]byte("HTTP/1.1 200 OK"))
	case busy:
		refuse(w, http.StatusTooManyRequests, &wire.Error{Kind: wire.KindOverloaded,
			RetryAfterMs: 1})
	case closing:
		refuse(w, http.StatusServiceUnavailable, &wire.Error{Kind: wire.KindUnavailable})
	}
}

// store stores a batch once and reports whether it was there.
func (f *fake) store(p *wire.Put) bool {
	last := f.seen[p.Writer]
	if p.Seq <= last {
		return true
	}
	if p.Seq != last+1 {
		f.t.Errorf("sequence %d after %d", p.Seq, last)
	}
	f.seen[p.Writer] = p.Seq
	f.mids = append(f.mids, p.Batch.MID...)
	return false
}

func (f *fake) stored() []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mids
}

func refuse(w http.ResponseWriter, status int, e *wire.Error) {
	w.Header().Set("Content-Type", wire.ContentType)
	w.WriteHeader(status)
	_, _ = w.Write(wire.AppendError(nil, e)) // see put
}

func (f *fake) dial() *Client {
	f.t.Helper()
	c, err := Dial(f.t.Context(), f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

// soon is a context for what must not take for ever: a slow machine is no failure.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
