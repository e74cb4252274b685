package httpserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/valyala/fasthttp"
)

// TestSweepSparesProgress sweeps connections while one brings a byte now and then, one falls silent
// in the middle of a request, one has never said anything, and one has its request answered.
func TestSweepSparesProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := conns{open: map[net.Conn]func(){}}
		var wg sync.WaitGroup
		begin := time.Now()
		// ended waits until a connection is closed and returns after how long that was.
		ended := func(c net.Conn, into *time.Duration) {
			wg.Go(func() {
				_, _ = io.Copy(io.Discard, c) // until it is closed
				*into = time.Since(begin)
			})
		}
		pair := func() (server *conn, client net.Conn) {
			a, b := net.Pipe()
			server = &conn{Conn: a}
			all.track(server, fasthttp.StateNew)
			return server, b
		}
		say := func(c net.Conn) {
			if _, err := c.Write([]byte("x")); err != nil {
				t.Errorf("after %s: %v", time.Since(begin), err)
			}
		}
		slow, slowClient := pair()
		half, halfClient := pair()
		silent, _ := pair()
		answered, answeredClient := pair()
		var slowEnd, halfEnd, silentEnd time.Duration
		ended(slow, &slowEnd)
		ended(half, &halfEnd)
		ended(silent, &silentEnd)
		wg.Go(func() {
			if _, err := answered.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute) // its request is worked on
			say(answered)
		})
		say(halfClient)
		say(answeredClient)
		say(slowClient)
		synctest.Wait()
		done := make(chan struct{})
		wg.Go(func() { all.sweep(done) })
		for range 20 {
			time.Sleep(2 * time.Second)
			say(slowClient)
		}
		if _, err := answeredClient.Read(make([]byte, 1)); err != nil {
			t.Errorf("a request that was worked on was cut: %v", err)
		}
		close(done)
		_, _ = slow.Close(), answered.Close()
		wg.Wait()
		if silentEnd > sweepEvery || halfEnd < stalledAfter || halfEnd > stalledAfter+2*sweepEvery {
			t.Errorf("closed: a silent one after %s, half a request after %s", silentEnd, halfEnd)
		}
		if slowEnd < 40*time.Second {
			t.Errorf("a request that came on was cut after %s", slowEnd)
		}
	})
}

// TestCloseWithHalfARequest closes a server to which clients have sent parts of requests.
func TestCloseWithHalfARequest(t *testing.T) {
	s := serve(t, budget.New(1<<30, 0))
	const whole = "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for _, half := range []string{"GET /rea", whole + "GET /rea",
		"POST /take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf"} {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprint(c, half); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(half, whole) {
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%+v, %v", resp, err)
			}
		}
	}
	// The connections before this one have been accepted.
	if resp, err := http.Get("http://" + s.Addr().String() + "/ready"); err != nil {
		t.Fatal(err)
	} else if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), ReadTimeout-10*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// writeCount counts what is written at once.
type writeCount struct {
	net.Conn
	writes atomic.Int64
}

func (c *writeCount) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// askRaw sends requests, as they are, over a connection of their own, which ends with the test.
func askRaw(t *testing.T, s *Server, requests string) (server *writeCount, client net.Conn) {
	t.Helper()
	client, inner := net.Pipe()
	server = &writeCount{Conn: inner}
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = s.http.ServeConn(&conn{Conn: server}) // ends with the connection
		_ = server.Close()
	})
	wg.Go(func() {
		if _, err := client.Write([]byte(requests)); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		_ = client.Close()
		wg.Wait()
	})
	return server, client
}

// TestSmallAnswerIsOneWrite: an answer in chunks goes out as one with its end, whatever becomes of
// the connection.
func TestSmallAnswerIsOneWrite(t *testing.T) {
	s := serve(t, budget.New(1<<30, 0))
	ask := func(version, headers string) string {
		return fmt.Sprintf("GET /rows HTTP/%s\r\nHost: localhost\r\n%s\r\n", version, headers)
	}
	const health = "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, test := range map[string]struct {
		requests string
		answers  int
		writes   int64 // 0: not told
	}{
		"one":            {ask("1.1", ""), 1, 1},
		"close":          {ask("1.1", "Connection: close\r\n"), 1, 1},
		"HTTP/1.0":       {ask("1.0", ""), 1, 1},
		"two at once":    {ask("1.1", "") + ask("1.1", ""), 2, 0},
		"a short behind": {ask("1.1", "") + health, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			out, client := askRaw(t, s, test.requests)
			in := bufio.NewReader(client)
			for i := range test.answers {
				answer, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(answer.Body)
				if err != nil || answer.StatusCode != http.StatusOK || len(body) == 0 {
					t.Fatalf("answer %d: %s, %d bytes, %v", i, answer.Status, len(body), err)
				}
			}
			if got := out.writes.Load(); test.writes > 0 && got != test.writes {
				t.Errorf("%d writes", got)
			}
		})
	}
}

// TestAnswerIsNotHeldBack: who asks twice at once has the first answer, but for the empty line
// behind it, while the second query is worked on.
func TestAnswerIsNotHeldBack(t *testing.T) {
	s := serve(t, budget.New(1<<30, 0))
	first, working := make(chan struct{}), s.http.Handler
	s.http.Handler = func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/ready" {
			<-first
		}
		working(ctx)
	}
	const behind = " HTTP/1.1\r\nHost: localhost\r\n\r\n"
	_, client := askRaw(t, s, "GET /rows"+behind+"GET /ready"+behind)
	if err := client.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(client)
	for line := ""; line != "0\r\n"; {
		var err error
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatalf("%v behind %q", err, line)
		}
	}
	close(first)
	if _, err := in.ReadString('\n'); err != nil {
		t.Error(err)
	}
	if answer, err := http.ReadResponse(in, nil); err != nil || answer.StatusCode != 200 {
		t.Errorf("%+v, %v", answer, err)
	}
}
