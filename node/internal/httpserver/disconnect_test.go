package httpserver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/budget"
)

// connected returns the two ends of a connection.
func connected(t *testing.T) (server, peer net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	peer, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	taken, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	server = &conn{Conn: taken}
	t.Cleanup(func() { _, _ = peer.Close(), server.Close() })
	return server, peer
}

func TestHangUp(t *testing.T) {
	server, peer := connected(t)
	gone := make(chan struct{})
	stop := WatchDisconnect(server, func() { close(gone) })
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	<-gone
	stop()
}

// TestNoHangUp: a watch that ends, or is met by the next request, takes nothing from it.
func TestNoHangUp(t *testing.T) {
	server, peer := connected(t)
	for range 3 {
		stop := WatchDisconnect(server, func() { t.Error("hung up") })
		stop()
		stop = WatchDisconnect(server, func() { t.Error("hung up") })
		if _, err := peer.Write([]byte("next")); err != nil {
			t.Fatal(err)
		}
		stop()
		got := make([]byte, 4)
		if _, err := io.ReadFull(server, got); err != nil || string(got) != "next" {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

// TestHangUpOnAnswer: a stream in which nothing is written ends, too, when the node that asked for
// it hangs up.
func TestHangUpOnAnswer(t *testing.T) {
	s := serve(t, budget.New(1<<30, 0))
	conn, peer := connected(t)
	begun, ended := make(chan struct{}), make(chan error, 1)
	a := &streamBody{server: s, conn: conn, answer: Stream{
		Begin: func() (context.Context, context.CancelFunc) {
			rc, cancel := s.Context(5 * time.Minute)
			stop := WatchDisconnect(conn, cancel)
			return rc, func() {
				stop()
				cancel()
			}
		},
		Produce: func(rc context.Context, _ *bufio.Writer) error {
			close(begun)
			<-rc.Done()
			return rc.Err()
		}}}
	go func() {
		_, err := a.WriteTo(io.Discard)
		ended <- err
	}()
	<-begun
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
