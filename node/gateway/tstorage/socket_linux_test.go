package tstorage

import (
	"net"
	"slices"
	"testing"
	"time"
)

// TestSmallWrites writes small PUTs as the client for Python does, in three writes that its system
// holds back until the one before is acknowledged: they are answered without the 40 ms for which
// systems delay that.
func TestSmallWrites(t *testing.T) {
	c := ttDial(t, serve(t, Options{Database: &fake{}}))
	if err := c.Conn.(*net.TCPConn).SetNoDelay(false); err != nil {
		t.Fatal(err)
	}
	request := ttPut(false, at(1, 1, "21.5"))
	put := func() time.Duration {
		began := time.Now()
		for _, part := range [][]byte{request[:12], request[12 : len(request)-4],
			request[len(request)-4:]} {
			if _, err := c.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, st, err := c.putAnswer(); err != nil || st != 0 {
			t.Fatalf("status %d, %v", st, err)
		}
		return time.Since(began)
	}
	for range 40 { // of a new connection all is acknowledged at once
		put()
	}
	const delayed = 40 * time.Millisecond
	var median time.Duration
	for range 50 { // until a busy machine lets one round pass
		var took []time.Duration
		for range 9 {
			took = append(took, put())
		}
		slices.Sort(took)
		if median = took[len(took)/2]; median < delayed/2 {
			t.Logf("a PUT in three writes takes %v", median)
			return
		}
	}
	t.Errorf("a PUT in three writes takes %v: its parts wait for acknowledgements", median)
}
