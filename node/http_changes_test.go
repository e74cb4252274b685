package node

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/engine"
)

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
		if feeds := n.server.Feeds(); feeds != 1 {
			t.Fatalf("%d readers, want 1", feeds)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		for n.server.Feeds() > 0 && time.Since(began) < 4*engine.Heartbeat {
			<-tick.C
		}
		if time.Since(began) < engine.Heartbeat/2 {
			return
		}
	}
	t.Errorf("readers that left were not noticed within %v", engine.Heartbeat/2)
}
