package client

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// serving starts a node that answers every query with the frames, and with what behind does
// after they were sent. It counts its connections.
func serving(
	t *testing.T, behind func(r *http.Request), frames ...[]byte,
) (c *Client, conns *atomic.Int64) {
	t.Helper()
	conns = new(atomic.Int64)
	server := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			for _, frame := range frames {
				if _, err := w.Write(frame); err != nil {
					return // the reader had enough
				}
			}
			w.(http.Flusher).Flush()
			behind(r)
		}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c, err := New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, conns
}

// TestAnswersShareAConnection: what HTTP sends behind the end frame may come later than that, and
// the next query goes over the same connection all the same.
func TestAnswersShareAConnection(t *testing.T) {
	late := func(*http.Request) { <-time.After(2 * time.Millisecond) }
	sorry := wire.AppendError(nil, &wire.Error{Kind: wire.KindTimeout, Message: "sorry"})
	for name, last := range map[string][]byte{"end": endFrame(wire.End{Complete: true, Rows: 3}),
		"error": sorry} {
		took := int64(0)
		for try := 0; try < 10 && took != 1; try++ { // a slow machine may give a connection up
			c, conns := serving(t, late, rowsFrame(t, 0, 3), last)
			for range 20 {
				_, err := c.Scan(soon(t), &record.Query{}, func(*record.Batch) error { return nil })
				if (err != nil) != (name == "error") {
					t.Fatal(name, err)
				}
			}
			took = conns.Load()
		}
		if took != 1 {
			t.Errorf("20 answers with an %s frame took %d connections", name, took)
		}
	}
}

// TestAnswerWithoutEndOfBody: a whole answer counts though the node falls silent behind it.
func TestAnswerWithoutEndOfBody(t *testing.T) {
	silent := func(r *http.Request) { <-r.Context().Done() }
	c, conns := serving(t, silent, rowsFrame(t, 0, 3), endFrame(wire.End{Complete: true, Rows: 3}))
	for range 2 {
		end, err := c.Scan(soon(t), &record.Query{}, func(*record.Batch) error { return nil })
		if err != nil || end.Rows != 3 {
			t.Errorf("%+v, %v", end, err)
		}
	}
	if n := conns.Load(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

// TestLastBatchStays: the batch of an iterator is valid until the next, so the last one is when
// other answers have been read.
func TestLastBatchStays(t *testing.T) {
	end := endFrame(wire.End{Complete: true, Rows: 3})
	nothing := func(*http.Request) {}
	one, _ := serving(t, nothing, rowsFrame(t, 0, 3), end)
	other, _ := serving(t, nothing, rowsFrame(t, 100, 103), end)
	for range 20 {
		var last *record.Batch
		for b, err := range one.QueryBatches(soon(t), &record.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			last = b
		}
		_, err := other.Scan(soon(t), &record.Query{}, func(*record.Batch) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if last.Len() != 3 || last.MID[0] != 0 || last.Data[2] != 2 {
			t.Fatalf("the last batch became %+v", last)
		}
	}
}
