package httpserver

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/valyala/fasthttp"
)

// TestSilentClientsMakeRoom: a new connection takes the place of the client that has been silent
// for the longest time, unless it is sending a request.
func TestSilentClientsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := conns{open: map[net.Conn]func(){}, limits: newConnLimits(5)} // one for monitoring
		var clients []net.Conn
		var servers []*conn
		join := func() *conn {
			t.Helper()
			a, b := net.Pipe()
			c := &conn{Conn: a}
			if !all.admit(c) {
				t.Fatal("not admitted")
			}
			all.track(c, fasthttp.StateNew)
			go func() { _, _ = io.Copy(io.Discard, c) }()
			servers, clients = append(servers, c), append(clients, b)
			time.Sleep(time.Millisecond)
			return c
		}
		open := func(c *conn) bool {
			all.mu.Lock()
			defer all.mu.Unlock()
			_, ok := all.open[c]
			return ok
		}
		is := func(c *conn, kind int32, what string) {
			t.Helper()
			if got := c.kind.Load(); got != kind || open(c) != (kind != uncounted) {
				t.Errorf("%s: kind %d, want %d, open %t", what, got, kind, open(c))
			}
		}
		sending, idle, silent, other := join(), join(), join(), join()
		for _, client := range clients[:2] {
			if _, err := client.Write([]byte("G")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Millisecond)
		all.track(idle, fasthttp.StateIdle) // its request is answered
		first := join()
		is(first, monitoringOnly, "the fifth, when none is silent for long")
		second := join()
		is(first, uncounted, "the one for monitoring only, behind which another came")
		is(second, monitoringOnly, "the sixth")
		if all.makeOrdinary(second) {
			t.Error("promoted while all others are young")
		}
		time.Sleep(stalledAfter)
		if !all.makeOrdinary(second) {
			t.Error("not promoted")
		}
		is(second, ordinary, "one for monitoring only, when a silent one can be closed")
		is(silent, uncounted, "the one that was silent for the longest time")
		is(join(), ordinary, "another")
		is(other, uncounted, "the next silent one")
		is(join(), ordinary, "another")
		is(idle, uncounted, "one between requests")
		is(sending, ordinary, "one within a request")
		for _, c := range servers {
			all.track(c, fasthttp.StateClosed)
			_ = c.Close()
		}
		if all.limits[ordinary].taken+all.limits[monitoringOnly].taken != 0 || len(all.open) != 0 {
			t.Errorf("in the end: %+v, %d open", all.limits, len(all.open))
		}
	})
}

// crowd allows a server some connections, and takes the ordinary ones with clients that have begun
// a request.
func crowd(t *testing.T, s *Server, most int) {
	t.Helper()
	s.conns.mu.Lock()
	s.conns.limits = newConnLimits(most)
	most = s.conns.limits[ordinary].most
	s.conns.mu.Unlock()
	for range most {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, "G"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all have begun", func() bool {
		s.conns.mu.Lock()
		defer s.conns.mu.Unlock()
		begun := 0
		for c := range s.conns.open {
			if c.(*conn).asking.Load() {
				begun++
			}
		}
		return begun == most
	})
}

// TestCrowded: with all connections taken, requests of monitoring are answered, and others are told
// why they are not, after they came.
func TestCrowded(t *testing.T) {
	s := serve(t, budget.New(1<<30, 0))
	crowd(t, s, 8)
	for path, want := range map[string]int{"/ready": 200, "/rows": 503, "/unknown": 503} {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		request := "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != want || !answer.Close {
			t.Errorf("%s: %+v, %s, %v", path, answer, said, err)
		}
		if want == 503 {
			checkCrowded(t, answer, said)
		}
	}
}

// TestTurnedAway: a connection that is one too many is told so.
func TestTurnedAway(t *testing.T) {
	s := serve(t, budget.New(1<<30, 0))
	crowd(t, s, 1)
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 503 || !answer.Close {
		t.Errorf("%+v, %v", answer, err)
	}
	checkCrowded(t, answer, said)
}

func checkCrowded(t *testing.T, answer *http.Response, said []byte) {
	t.Helper()
	if answer.Header.Get("Retry-After") != "1" ||
		answer.Header.Get("Content-Type") != "application/problem+json" ||
		!strings.Contains(string(said), `"code":"unavailable"`) ||
		!strings.Contains(string(said), "too many connections") {
		t.Errorf("%v %s", answer.Header, said)
	}
}
