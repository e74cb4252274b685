package node

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

// TestCloseWithHalfARequest closes a node to which clients have sent parts of requests.
func TestCloseWithHalfARequest(t *testing.T) {
	n := openTest(t, Options{})
	const whole = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for _, half := range []string{"GET /rea", whole + "GET /rea",
		"POST /v1/put HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf"} {
		c, err := net.Dial("tcp", n.Addr().String())
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
	dial(t, n) // asks something: the connections before it have been accepted
	ctx, cancel := context.WithTimeout(t.Context(), readTimeout-10*time.Second)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}
