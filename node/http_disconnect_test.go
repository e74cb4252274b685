package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
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
	stop := watchDisconnect(server, func() { close(gone) })
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
		stop := watchDisconnect(server, func() { t.Error("hung up") })
		stop()
		stop = watchDisconnect(server, func() { t.Error("hung up") })
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
	n := openTest(t, Options{})
	conn, peer := connected(t)
	begun, ended := make(chan struct{}), make(chan error, 1)
	a := &streamBody{server: n.server, conn: conn,
		asked: requestOptions{groups: []cluster.GroupID{1}, within: 5 * time.Minute},
		produce: func(rc context.Context, _ *bufio.Writer) error {
			close(begun)
			<-rc.Done()
			return rc.Err()
		}}
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

// TestAReaderOfChangesHangsUp: its place is free at once, and not when beats meet no reader. Of
// some that leave one must be noticed before the first beat: a machine may be slow.
func TestAReaderOfChangesHangsUp(t *testing.T) {
	n := openTest(t, Options{})
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 3 {
		c, err := net.Dial("tcp", n.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := fmt.Fprintf(c, "GET /v1/changes?follow=1&since=now HTTP/1.1\r\n"+
			"Host: %s\r\n\r\n", n.Addr()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if feeds := n.server.feeds.count(); feeds != 1 {
			t.Fatalf("%d readers, want 1", feeds)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		for n.server.feeds.count() > 0 && time.Since(began) < 4*heartbeat {
			<-tick.C
		}
		if time.Since(began) < heartbeat/2 {
			return
		}
	}
	t.Errorf("readers that left were not noticed within %v", heartbeat/2)
}
