package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// scripted answers each request for changes with the next of its answers.
type scripted struct {
	mu     sync.Mutex
	since  []string
	follow []string
	serve  []func(w http.ResponseWriter)
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/changes" {
		return // the client asks whether the node is well
	}
	_, _ = io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	s.since = append(s.since, r.URL.Query().Get("since"))
	s.follow = append(s.follow, r.URL.Query().Get("follow"))
	next := s.serve[min(len(s.since), len(s.serve))-1]
	s.mu.Unlock()
	next(w)
}

// dialScripted returns a client of a node that answers so, one answer after the other.
func dialScripted(t *testing.T, answers ...func(w http.ResponseWriter)) (*Client, *scripted) {
	t.Helper()
	s := &scripted{serve: answers}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c, err := Dial(soon(t), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, s
}

func stampedFrame(acqs ...int64) []byte {
	b := &record.Batch{}
	for _, acq := range acqs {
		b.AppendStamped(record.Key{MID: acq, AcqNs: acq}, []byte("x"))
	}
	frame, err := wire.AppendRows(nil, b)
	if err != nil {
		panic(err)
	}
	return frame
}

func writing(frames ...[]byte) func(w http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for _, f := range frames {
			_, _ = w.Write(f) // the reader may have gone
		}
	}
}

// A client whose answer breaks off, is garbled by its end, or which the node sends away for a
// while, asks again from where it was.
func TestChangesResume(t *testing.T) {
	event := wire.AppendChange(nil, &wire.Change{AcqNs: 7, ClosedNs: 8, Kind: wire.ChangeErase})
	busy := wire.AppendError(nil, &wire.Error{Kind: wire.KindOverloaded})
	cut := stampedFrame(9, 10)
	c, s := dialScripted(t,
		writing(stampedFrame(3, 5)),
		func(w http.ResponseWriter) { http.Error(w, "proxy", http.StatusBadGateway) },
		writing(event, busy),
		writing(wire.AppendClosed(nil, 9), cut[:len(cut)-1]),
		writing(cut),
		func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		writing(wire.AppendClosed(nil, 20)))
	ctx, cancel := context.WithCancel(soon(t))
	defer cancel()
	var acqs, closed []int64
	for ch, err := range c.Changes(ctx, &record.Query{}, 2) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case ch.Record != nil:
			acqs = append(acqs, ch.Record.AcqNs)
		case ch.Event != nil:
			acqs = append(acqs, -ch.Event.AcqNs)
		}
		if closed = append(closed, ch.ClosedNs); ch.ClosedNs == 20 {
			break
		}
	}
	if want := []int64{3, 5, -7, 9, 10}; !slices.Equal(acqs, want) {
		t.Errorf("changes %v, want %v", acqs, want)
	}
	if want := []int64{4, 6, 8, 9, 10, 11, 20}; !slices.Equal(closed, want) {
		t.Errorf("closed %v, want %v", closed, want)
	}
	if want := []string{"2", "6", "6", "8", "9", "11", "11"}; !slices.Equal(s.since, want) {
		t.Errorf("asked since %v, want %v", s.since, want)
	}
}

// What another try would not mend ends changes, with where they were.
func TestChangesFail(t *testing.T) {
	c, s := dialScripted(t, writing(stampedFrame(3), wire.AppendError(nil,
		&wire.Error{Kind: wire.KindDamaged, Message: "block 7"})))
	var failed error
	for b, err := range c.ChangeBatches(soon(t), &record.Query{}, FromNow) {
		if failed = err; err != nil && b.ClosedNs != 4 {
			t.Errorf("closed %d", b.ClosedNs)
		}
	}
	var remote *wire.Error
	if !errors.As(failed, &remote) || remote.Kind != wire.KindDamaged {
		t.Errorf("ended with %v", failed)
	}
	if !slices.Equal(s.since, []string{"now"}) || s.follow[0] != "1" {
		t.Errorf("asked since %v, follow %v", s.since, s.follow)
	}
	bad := &record.Query{Box: record.Box{record.CID: {{From: 5, To: 5}}}}
	for _, err := range c.ChangeBatches(soon(t), bad, 0) {
		if failed = err; !errors.As(err, new(*record.InvalidError)) {
			t.Errorf("a box that holds nothing: %v", err)
		}
	}
	if len(s.since) != 1 {
		t.Errorf("it was asked all the same")
	}
}

// Past changes end behind a closed frame, and nowhere else.
func TestPastChangesEnd(t *testing.T) {
	c, s := dialScripted(t, writing(stampedFrame(3)),
		writing(stampedFrame(5), wire.AppendClosed(nil, 9)))
	rows := 0
	for b, err := range c.PastChanges(soon(t), &record.Query{}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Rows != nil {
			rows += b.Rows.Len()
		}
	}
	if rows != 2 || !slices.Equal(s.since, []string{"0", "4"}) {
		t.Errorf("%d rows, asked since %v", rows, s.since)
	}
}

// A context that ends ends changes without an error, while they wait and while they connect.
func TestChangesEndWithTheContext(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	wait := func(w http.ResponseWriter) {
		_, _ = w.Write(wire.AppendClosed(nil, 1))
		w.(http.Flusher).Flush()
		<-release
	}
	fail := func(w http.ResponseWriter) { http.Error(w, "proxy", http.StatusBadGateway) }
	for _, answer := range []func(w http.ResponseWriter){wait, fail} {
		c, _ := dialScripted(t, answer)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		for _, err := range c.Changes(ctx, &record.Query{}, 0) {
			if err != nil {
				t.Error(err)
			}
		}
		if ctx.Err() == nil {
			t.Error("changes ended before their context")
		}
		cancel()
	}
}

// A box is written as the node reads it.
func TestSelectors(t *testing.T) {
	box := record.Box{record.CID: {record.At(7)}, record.MID: {{From: record.MID.Min(), To: 3},
		{From: 9, To: record.MID.Max()}}, record.Cap: {{From: 0, To: 1}}}
	v := selectors(&box)
	if v.Get("cid") != "7..8" || v.Get("mid") != "..3,9.." || v.Has("moid") ||
		!strings.HasPrefix(v.Get("cap"), "1970-01-01T00:00:00.000000000Z..1970") {
		t.Errorf("%v", v)
	}
}
