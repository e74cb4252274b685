package node

import (
	"io"
	"net"
	"testing"
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
	if server, err = (listener{l}).Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = peer.Close(), server.Close() })
	return server, peer
}

func TestHangUp(t *testing.T) {
	server, peer := connected(t)
	gone := make(chan struct{})
	stop := watchHangUp(server, func() { close(gone) })
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
		stop := watchHangUp(server, func() { t.Error("hung up") })
		stop()
		stop = watchHangUp(server, func() { t.Error("hung up") })
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
