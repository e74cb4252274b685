package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestChangesForPeople reads changes as lines and as server-sent events, over both HTTPs.
func TestChangesForPeople(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	put := func(body string) {
		a.expect("POST", "/v1/records?type=f64", body, 200, `"written":1`)
	}
	put(`{"cid":1,"mid":1,"moid":1,"cap":1,"value":5}`)
	put(`{"cid":1,"mid":2,"moid":1,"cap":1,"value":6}`)
	a.expect("POST", "/v1/erase?mid=1", "", 200, `"acq_ns":`)
	put(`{"cid":1,"mid":1,"moid":1,"cap":1,"deleted":true}`)

	answer := a.expect("GET", "/v1/changes?type=f64&mid=1", "", 200)
	var lines []map[string]any
	for line := range strings.Lines(answer) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		lines = append(lines, v)
	}
	if len(lines) != 5 || lines[0]["value"] != 5.0 || lines[1]["event"] != "erase" ||
		lines[2]["deleted"] != true || lines[3]["closed_ns"] == nil || lines[4]["end"] == nil {
		t.Fatalf("lines %s", answer)
	}
	a.expect("GET", "/v1/changes?mid=2..&since=2020-01-01&keys=1", "", 200, `"mid":2`, `"rows":1`)
	if got := a.expect("GET", "/v1/changes?since=now", "", 200, `"rows":0`); strings.Contains(got,
		"cid") {
		t.Error(got)
	}

	events := a.expect("GET", "/v1/changes?format=sse&mid=1", "", 200, "event: erase\nid: ",
		"event: closed\nid: ", "event: end\nid: ")
	first := events[strings.Index(events, "id: ")+4 : strings.Index(events, "\ndata")]
	if got := a.expect("GET", "/v1/changes?since="+first+"&mid=1", "", 200, `"event":"erase"`,
		`"rows":1`); strings.Contains(got, `"payload"`) {
		t.Errorf("since %s: %s", first, got)
	}

	a.expect("GET", "/v1/changes?since=9000000000000000000", "", 400, `"part":"since"`,
		"above the horizon")
	a.expect("GET", "/v1/changes?since=9223372036854775807", "", 400, `"part":"since"`)
	for _, bad := range []string{"acq=1..2", "view=latest", "limit=1", "format=csv", "follow=x",
		"since=once"} {
		name, _, _ := strings.Cut(bad, "=")
		a.expect("GET", "/v1/changes?"+bad, "", 400, name)
	}
	a.expect("GET", "/v1/changes?filter=nobody", "", 404, "nobody")
	q := wire.AppendQuery(nil, &record.Query{View: record.ViewLatest})
	if code, body := post(t, a.node, "POST", "/v1/changes", wire.ContentType, q); code != 400 {
		t.Errorf("changes of the latest view: %d %q", code, body)
	}
}

// An answer to HTTP/1.0, which proxies speak, ends with its connection.
func TestChangesOverOldHTTP(t *testing.T) {
	n := openTest(t, Options{})
	c, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	fmt.Fprint(c, "GET /v1/changes HTTP/1.0\r\nAccept: text/event-stream\r\n\r\n")
	answer, err := io.ReadAll(c)
	head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	if err != nil || strings.Contains(head, "chunked") ||
		!strings.Contains(head, "text/event-stream") ||
		!strings.Contains(head, "X-Accel-Buffering: no") ||
		!strings.HasPrefix(body, "event: closed\nid: ") {
		t.Fatalf("%q, %v", answer, err)
	}
}

// TestChangesGoOn follows a node by its client while it is written to, closed and opened again:
// each record comes once, in the order of acq. It has no limit of time: how long some fifty syncs
// take is the disk's business, and a feed whose context ends leaves without a word.
func TestChangesGoOn(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Listen: freeaddr.New(t)}
	n := openTest(t, opt)
	const total = 4000
	db := dial(t, n)
	w := db.NewWriter(client.WriterOptions{BatchRecords: 100, RetryFor: time.Hour})
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	written := make(chan error, 1)
	go func() {
		var err error
		for i := range int64(total) {
			if err = w.Add(t.Context(), record.Key{MID: i}, f64(1)); err != nil {
				break
			}
			if i%500 == 0 {
				err = w.Flush(t.Context())
			}
		}
		if err = errors.Join(err, w.Close(t.Context())); err != nil {
			giveUp() // what is missing does not come any more
		}
		written <- err
	}()
	seen, last := map[int64]int{}, int64(0)
	for ch, err := range dial(t, n).Changes(ctx, &record.Query{}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ch.Record == nil {
			continue
		}
		if ch.Record.AcqNs <= last || ch.ClosedNs != ch.Record.AcqNs+1 {
			t.Fatalf("acq %d after %d, closed %d", ch.Record.AcqNs, last, ch.ClosedNs)
		}
		last = ch.Record.AcqNs
		if seen[ch.Record.MID]++; len(seen) == total {
			break
		}
		if len(seen) == total/4 {
			if err := n.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			n = openTest(t, opt)
		}
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	for mid, times := range seen {
		if times != 1 {
			t.Errorf("record %d came %d times", mid, times)
		}
	}
	if len(seen) != total {
		t.Errorf("%d records came, want %d", len(seen), total)
	}
}

// Filters choose records; tombstones and events come all the same.
func TestChangesThroughFilters(t *testing.T) {
	n := openTest(t, Options{})
	db := dial(t, n)
	rng := rand.New(rand.NewPCG(7, 7))
	want := 0
	for _, r := range fill(t, db, rng, 3000) {
		if r.value > 20 && r.value < 60 {
			want++
		}
	}
	if _, err := db.Delete(t.Context(), record.Key{MID: 1}); err != nil {
		t.Fatal(err)
	}
	q := &record.Query{KeysOnly: true}
	for _, params := range []string{"op=gt,value=20", "op=lt,value=60"} {
		call, err := parseCallOf(t, n, "threshold", params)
		if err != nil {
			t.Fatal(err)
		}
		q.Filters = append(q.Filters, call)
	}
	rows, tombs := 0, 0
	for b, err := range db.PastChanges(t.Context(), q, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Rows != nil {
			rows, tombs = rows+b.Rows.Len(), tombs+b.Rows.CountTombs()
			if len(b.Rows.Data) > 0 {
				t.Fatal("keys were asked for")
			}
		}
	}
	if rows != want+1 || tombs != 1 {
		t.Fatalf("%d rows with %d tombstones, want %d with 1", rows, tombs, want+1)
	}
	q.Filters[0].Name = "nobody"
	for _, err := range db.ChangeBatches(t.Context(), q, 0) {
		var remote *wire.Error
		if !errors.As(err, &remote) || remote.Kind != wire.KindUnknownPlugin {
			t.Fatalf("an unknown filter: %v", err)
		}
	}
}

// Readers that wait do not keep a node from closing, and are told.
func TestChangesEndWithTheNode(t *testing.T) {
	n := openTest(t, Options{})
	var bodies []*bufio.Reader
	for range 20 {
		resp, err := http.Get("http://" + n.Addr().String() + "/v1/changes?follow=1")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body := bufio.NewReader(resp.Body)
		if line, err := body.ReadString('\n'); err != nil || !strings.Contains(line, "closed_ns") {
			t.Fatalf("%q, %v", line, err)
		}
		bodies = append(bodies, body)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for _, body := range bodies {
		rest, err := io.ReadAll(body)
		if err != nil || !strings.Contains(string(rest), `"code":"unavailable"`) {
			t.Fatalf("%q, %v", rest, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// A reader that takes nothing does not keep a node from closing: it is hung up on.
func TestChangesOfADeafReader(t *testing.T) {
	n := openTest(t, Options{})
	var b record.Batch
	payload := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(payload)
	for i := range int64(16) {
		b.Append(record.Key{MID: i}, payload)
	}
	for range 2 { // more than sockets hold
		if _, err := n.Put(t.Context(), &b, store.WriterSeq{}); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := http.Get("http://" + n.Addr().String() + "/v1/changes?follow=1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := n.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("closed with %v", err)
	}
}

// A reader is told how far it is when nothing comes.
func TestChangesBeat(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n, err := Open(t.Context(), Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = n.Close(context.Background()) }()
		began, beats, closed := time.Now(), 0, int64(0)
		enough := errors.New("enough")
		_, err = n.Changes(t.Context(), &record.Query{}, SinceNow, true,
			func(s *store.Slice) error {
				if s.Rows.Len() > 0 || s.ClosedNs < closed {
					t.Errorf("%d rows, closed %d after %d", s.Rows.Len(), s.ClosedNs, closed)
				}
				closed = s.ClosedNs
				if beats++; beats == 5 {
					return enough
				}
				return nil
			})
		if took := time.Since(began); !errors.Is(err, enough) || took < 4*engine.Heartbeat ||
			took > 5*engine.Heartbeat {
			t.Errorf("%d beats in %v, %v", beats, took, err)
		}
	})
}
