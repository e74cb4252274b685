package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

func one(mid int64) *record.Batch {
	var b record.Batch
	b.Append(record.Key{MID: mid}, nil)
	return &b
}

// TestPutsOutliveNodes: whatever nodes do to puts, also to those that are in flight, a client
// hears nothing of it and each batch is stored once.
func TestPutsOutliveNodes(t *testing.T) {
	f, other := newFake(t), newFake(t)
	other.mu, other.seen = f.mu, f.seen // as nodes of one cluster have the same
	f.faults = func(put int, _ *wire.Put) fault { return fault(put % int(numFaults)) }
	c, err := Dial(t.Context(), f.addr+","+other.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	put := func(mid int64) {
		reply, err := c.Put(soon(t), one(mid), [16]byte{}, 0)
		if err != nil || reply.Records != 1 || reply.Duplicate {
			t.Errorf("put %d: %+v, %v", mid, reply, err)
		}
	}
	for mid := range int64(20) {
		put(mid)
	}
	f.stop()
	put(20)
	got := slices.Sorted(slices.Values(slices.Concat(f.stored(), other.stored())))
	if !slices.Equal(got, upTo(21)) || len(other.stored()) == 0 {
		t.Errorf("stored %v", got)
	}
	if len(f.seen) != 1 {
		t.Errorf("one put after another takes %d writers", len(f.seen))
	}
}

func TestPutsAtOnceHaveWritersOfTheirOwn(t *testing.T) {
	f, other := newFake(t), newFake(t)
	other.mu, other.seen = f.mu, f.seen // on a slow machine the first may be left
	c, err := New(f.addr + "," + other.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	var wg sync.WaitGroup
	for w := range int64(8) {
		wg.Go(func() {
			for i := range int64(20) {
				if _, err := c.Put(soon(t), one(w*20+i), [16]byte{}, 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait() // the fake finds sequences that do not rise
	got := slices.Sorted(slices.Values(slices.Concat(f.stored(), other.stored())))
	if !slices.Equal(got, upTo(160)) {
		t.Errorf("stored %d", len(got))
	}
	if len(f.seen) > 8 {
		t.Errorf("8 puts at a time take %d writers", len(f.seen))
	}
}

// TestSilentNodesAreLeft by puts and feeds.
func TestSilentNodesAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mute{}
		c := &Client{nodes: &nodes{bases: []string{"http://a", "http://b"}},
			http: &http.Client{Transport: m}}
		ctx, cancel := context.WithTimeout(t.Context(), probeAfter+probeTimeout+2*firstBackoff)
		defer cancel()
		_, err := c.Put(ctx, one(1), [16]byte{}, 0)
		if base, _, _ := c.nodes.now(); base != "http://b" || err == nil {
			t.Errorf("puts go to %s, %v", base, err)
		}
		if m.asked != 3 { // with a query whether the first is there
			t.Errorf("%d puts and queries", m.asked)
		}
		m.asked = 2
		m.first = wire.AppendClosed(nil, 5)
		ctx, cancel = context.WithTimeout(t.Context(), silenceTimeout+time.Second)
		defer cancel()
		for _, err := range c.Changes(ctx, &record.Query{}, 5) {
			if err != nil {
				t.Error(err)
			}
		}
		if base, _, _ := c.nodes.now(); base != "http://a" || m.asked != 4 {
			t.Errorf("after %d queries feeds are at %s", m.asked, base)
		}
	})
}

// TestBusyNodesAreNotLeft: one that takes long for a put and answers something else is there.
func TestBusyNodesAreNotLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{nodes: &nodes{bases: []string{"http://a", "http://b"}},
			http: &http.Client{Transport: occupied{}}}
		ctx, cancel := context.WithTimeout(t.Context(), silentPut-time.Second)
		defer cancel()
		_, err := c.Put(ctx, one(1), [16]byte{}, 0)
		if base, _, _ := c.nodes.now(); base != "http://a" || err == nil {
			t.Errorf("puts go to %s, %v", base, err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), silentPut+time.Second)
		defer cancel()
		_, err = c.Put(ctx, one(1), [16]byte{}, 0)
		if base, _, _ := c.nodes.now(); base != "http://b" || err == nil {
			t.Errorf("puts that take long go to %s, %v", base, err)
		}
	})
}

// occupied is a network of nodes that answer nothing but whether they are there.
type occupied struct{}

// RoundTrip implements http.RoundTripper.
func (occupied) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/healthz" {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody,
			Header: http.Header{}, Request: r}, nil
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// silence is a network on which no answers begin, but for those of one node.
type silence struct{ but string }

// RoundTrip implements http.RoundTripper.
func (s silence) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == s.but {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestSilentNodesAreLeftByQueries whose time is over.
func TestSilentNodesAreLeftByQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{nodes: &nodes{bases: []string{"http://a", "http://b"}},
			http: &http.Client{Transport: silence{}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Horizon(ctx, nil)
		if base, _, _ := c.nodes.now(); base != "http://b" || err == nil {
			t.Errorf("queries go to %s, %v", base, err)
		}
	})
}

// TestDialMeetsWhoeverAnswers.
func TestDialMeetsWhoeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{nodes: &nodes{bases: []string{"http://a", "http://b", "http://c"}},
			http: &http.Client{Transport: silence{but: "c"}}}
		if err := c.meet(t.Context(), "a,b,c"); err != nil {
			t.Error(err)
		}
		c.http.Transport = silence{}
		if err := c.meet(t.Context(), "a,b,c"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// TestQueriesGoToTheNextNode, which waits for what was stored through the first.
func TestQueriesGoToTheNextNode(t *testing.T) {
	f, other := newFake(t), newFake(t)
	f.nodes = `{"status":"ready","nodes":["` + other.addr + `"]}`
	c := f.dial() // learns of the other
	if _, err := c.Put(soon(t), one(1), [16]byte{}, 0); err != nil {
		t.Fatal(err)
	}
	var asked string
	other.server.Handler.(*http.ServeMux).HandleFunc("GET /v1/horizon",
		func(w http.ResponseWriter, r *http.Request) {
			asked = r.URL.RawQuery
			_, _ = w.Write([]byte(`{"horizon_ns":7}`))
		})
	f.stop()
	if ns, err := c.Horizon(soon(t), nil); err != nil || ns != 7 || asked != "after=5" {
		t.Errorf("horizon %d, asked %q, %v", ns, asked, err)
	}
	other.stop()
	if _, err := c.Horizon(soon(t), nil); err == nil {
		t.Error("nobody is there, and somebody answers")
	}
}

// TestANodeThatAnswersKnowsMore: where one node is gone and another has no answer yet, the caller
// is told to try again, whichever of them was asked last.
func TestANodeThatAnswersKnowsMore(t *testing.T) {
	for _, firstIsGone := range []bool{true, false} {
		f, gone := newFake(t), newFake(t)
		gone.stop()
		f.server.Handler.(*http.ServeMux).HandleFunc("GET /v1/horizon",
			func(w http.ResponseWriter, _ *http.Request) {
				refuse(w, http.StatusServiceUnavailable, &wire.Error{Kind: wire.KindUnavailable})
			})
		addrs := []string{f.addr, gone.addr}
		if firstIsGone {
			slices.Reverse(addrs)
		}
		c, err := New(strings.Join(addrs, ","))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Horizon(soon(t), nil)
		var remote *wire.Error
		if !errors.As(err, &remote) || remote.Kind != wire.KindUnavailable {
			t.Errorf("the first is gone %v: %v", firstIsGone, err)
		}
		_ = c.Close()
	}
}

// TestQueriesWaitForPutsInFlight: the node is left for another one by who asks, before it answers
// who puts.
func TestQueriesWaitForPutsInFlight(t *testing.T) {
	f, other := newFake(t), newFake(t)
	c, err := New(f.addr + "," + other.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	f.faults = func(int, *wire.Put) fault {
		c.nodes.leave("http://" + f.addr)
		return none
	}
	if _, err := c.Put(soon(t), one(1), [16]byte{}, 0); err != nil {
		t.Fatal(err)
	}
	if base, _, after := c.nodes.now(); base != "http://"+other.addr || after != 5 {
		t.Errorf("queries go to %s and wait for %d", base, after)
	}
}

func TestAddressesOfNodes(t *testing.T) {
	c, err := New("a:1,http://b:2,a:1")
	if err != nil || !slices.Equal(c.nodes.bases, []string{"http://a:1", "http://b:2"}) {
		t.Errorf("%v, %v", c, err)
	}
	for _, bad := range []string{"", "a:1,", "a:1,https://b:2"} {
		if _, err := New(bad); !errors.Is(err, ErrAddress) || !strings.Contains(err.Error(), `"`) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
