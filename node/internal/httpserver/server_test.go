package httpserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// grownBytes is what the requests of /grow need.
const grownBytes = 30 << 20

// serve serves some routes on this machine until the test ends.
func serve(t *testing.T, bodies *budget.Budget) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var s *Server
	get := func(path string, handle func(ctx *fasthttp.RequestCtx)) Route {
		return Route{Method: http.MethodGet, Path: path,
			Handle: func(r *Request) { handle(r.RequestCtx) }}
	}
	post := func(path string, handle func(ctx *fasthttp.RequestCtx)) Route {
		return Route{Method: http.MethodPost, Path: path,
			Handle: func(r *Request) { handle(r.RequestCtx) }}
	}
	s = New(l, Options{Hosts: Hosts{}, Bodies: bodies, Log: slog.New(slog.DiscardHandler),
		Routes: []Route{
			get("/ready", func(ctx *fasthttp.RequestCtx) { WriteJSON(ctx, "ready") }),
			get("/rows", func(ctx *fasthttp.RequestCtx) { streamRows(s, ctx) }),
			post("/take", func(ctx *fasthttp.RequestCtx) {
				WriteJSON(ctx, crc32.ChecksumIEEE(ctx.PostBody()))
			}),
			post("/grow", func(ctx *fasthttp.RequestCtx) {
				if err := ReserveDecoded(ctx, grownBytes); err != nil {
					s.refuseBody(ctx, err)
					return
				}
				WriteJSON(ctx, len(ctx.PostBody()))
			}),
		},
		Parse: func(*fasthttp.Args) (asked request.Options, err error) {
			return asked, nil
		},
		Other:    func(*fasthttp.RequestCtx, string, string) bool { return false },
		Serves:   func(string) bool { return true },
		Monitors: func(path string) bool { return path == "/ready" },
		Answered: func(int, time.Duration) {},
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Serve(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = s.Shutdown(ctx) // it may be closed already
		wg.Wait()
	})
	return s
}

// streamRows answers with rows.
func streamRows(s *Server, ctx *fasthttp.RequestCtx) {
	s.Stream(ctx, Stream{
		Begin: func() (context.Context, context.CancelFunc) { return s.Context(0) },
		Produce: func(_ context.Context, w *bufio.Writer) error {
			for i := range 100 {
				if _, err := fmt.Fprintf(w, "row %d\r\n", i); err != nil {
					return err
				}
			}
			return nil
		}})
}

// TestRefusals are requests that cannot be read: each says what and how much.
func TestRefusals(t *testing.T) {
	f := func(err error, status int, want string) {
		t.Helper()
		var ctx fasthttp.RequestCtx
		(&Server{maxBody: maxBodyBytes}).rejectUnreadable(&ctx, err)
		body := string(ctx.Response.Body())
		if ctx.Response.StatusCode() != status || !strings.Contains(body, want) ||
			!strings.Contains(body, fmt.Sprintf(`"status":%d`, status)) ||
			strings.Contains(body, "secret") {
			t.Errorf("%v: %d %s", err, ctx.Response.StatusCode(), body)
		}
	}
	f(fmt.Errorf("read: %w", &fasthttp.ErrSmallBuffer{}), 431, "URL and headers over 65536 bytes")
	f(os.ErrDeadlineExceeded, 408, "did not come whole within 1m0s")
	f(fmt.Errorf("read: %w", fasthttp.ErrBodyTooLarge), 413, "request body over")
	f(errors.New(`cannot parse: buffer size=9, contents: "secret"`), 400, "read request: cannot p")
}

func TestToWire(t *testing.T) {
	known := &wire.Error{Kind: wire.KindNotFound}
	if got := toWire(fmt.Errorf("wrapped: %w", known)); got != known {
		t.Errorf("%+v", got)
	}
	if got := toWire(os.ErrClosed); got.Kind != wire.KindInternal {
		t.Errorf("%+v", got)
	}
}
