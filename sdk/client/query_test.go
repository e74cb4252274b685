package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// rowsFrame is a rows frame of the devices [from, to).
func rowsFrame(t *testing.T, from, to int64) []byte {
	t.Helper()
	var b record.Batch
	for mid := from; mid < to; mid++ {
		b.AppendStamped(record.Key{MID: mid, AcqNs: mid + 1}, []byte{byte(mid)})
	}
	frame, err := wire.AppendRows(nil, &b)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func endFrame(e wire.End) []byte { return wire.AppendEnd(nil, &e) }

// answers makes the fake node answer queries with the bytes.
func (f *fake) answers(frames ...[]byte) {
	f.query = func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", wire.ContentType)
		for _, frame := range frames {
			_, _ = w.Write(frame) // a reader that has enough hangs up
		}
	}
}

// collect reads an answer record by record.
func collect(t *testing.T, c *Client) (mids []int64, err error) {
	t.Helper()
	for r, err := range c.Query(soon(t), &record.Query{}) {
		if err != nil {
			return mids, err
		}
		if r.AcqNs != r.MID+1 || len(r.Payload) != 1 || r.Payload[0] != byte(r.MID) {
			t.Errorf("record %+v", r)
		}
		mids = append(mids, r.MID)
	}
	return mids, nil
}

func TestQuery(t *testing.T) {
	f := newFake(t)
	c := f.dial()
	good := endFrame(wire.End{Complete: true, Rows: 5})
	f.answers(rowsFrame(t, 0, 3), rowsFrame(t, 3, 5), good)
	if mids, err := collect(t, c); err != nil || len(mids) != 5 {
		t.Errorf("a good answer: %v, %v", mids, err)
	}
	for r, err := range c.Query(soon(t), &record.Query{}) {
		if err != nil || r.MID != 0 {
			t.Errorf("first record: %+v, %v", r, err)
		}
		break // leaves no goroutine, says goleak
	}
	end, err := c.Scan(soon(t), &record.Query{}, func(*record.Batch) error { return nil })
	if err != nil || end.Rows != 5 || !end.Complete {
		t.Errorf("end %+v, %v", end, err)
	}
	mine := errors.New("mine")
	_, err = c.Scan(soon(t), &record.Query{}, func(*record.Batch) error { return mine })
	if !errors.Is(err, mine) {
		t.Errorf("error of emit: %v", err)
	}

	f.answers(rowsFrame(t, 0, 3), wire.AppendError(nil, &wire.Error{Kind: wire.KindDamaged,
		Message: "00000001.seg"}))
	mids, err := collect(t, c)
	if remote := (*wire.Error)(nil); len(mids) != 3 || !errors.As(err, &remote) ||
		remote.Kind != wire.KindDamaged {
		t.Errorf("an error after rows: %v, %v", mids, err)
	}
	f.answers(rowsFrame(t, 0, 3), endFrame(wire.End{Rows: 3, Reason: "two shards are missing"}))
	if mids, err = collect(t, c); len(mids) != 3 || err == nil ||
		!strings.Contains(err.Error(), "two shards are missing") {
		t.Errorf("an incomplete answer: %v, %v", mids, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Scan(ctx, &record.Query{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	var invalid *record.InvalidError
	bad := record.Query{Box: record.Box{{{From: 2, To: 1}}}}
	if _, err := c.Scan(soon(t), &bad, nil); !errors.As(err, &invalid) {
		t.Errorf("a reversed range: %v", err)
	}
}

// TestCutAnswers cuts a good answer at every byte: records may come, but never a good end.
func TestCutAnswers(t *testing.T) {
	f := newFake(t)
	c := f.dial()
	whole := append(rowsFrame(t, 0, 3), endFrame(wire.End{Complete: true, Rows: 3})...)
	for at := range whole {
		f.answers(whole[:at])
		if mids, err := collect(t, c); err == nil {
			t.Fatalf("cut at %d of %d: %v without an error", at, len(whole), mids)
		}
	}
	f.answers(wire.AppendGroups(nil, nil, false))
	if _, err := collect(t, c); err == nil {
		t.Error("groups where records were asked for")
	}
	f.answers([]byte("<html>"))
	if _, err := collect(t, c); err == nil {
		t.Error("another protocol")
	}
}

func TestAggregate(t *testing.T) {
	f := newFake(t)
	c := f.dial()
	groups := []wire.Group{{CID: 1, Records: 2, Result: []byte("a")}, {CID: 2, Result: []byte("b")}}
	f.answers(wire.AppendGroups(nil, groups[:1], false), wire.AppendGroups(nil, groups[1:], false),
		endFrame(wire.End{Complete: true, Rows: 2}))
	q := record.Query{Aggregate: record.PluginCall{Name: "count"}}
	got, end, err := c.Aggregate(soon(t), &q)
	if err != nil || len(got) != 2 || string(got[1].Result) != "b" || end.Rows != 2 {
		t.Errorf("%v %v %v", got, end, err)
	}
	f.answers(rowsFrame(t, 0, 1), endFrame(wire.End{Complete: true}))
	if _, _, err := c.Aggregate(soon(t), &q); err == nil {
		t.Error("records where groups were asked for")
	}
}

func TestCount(t *testing.T) {
	f := newFake(t)
	c := f.dial()
	f.answers(endFrame(wire.End{Complete: true, Rows: 7}))
	if n, end, err := c.Count(soon(t), &record.Query{}); n != 7 || !end.Complete || err != nil {
		t.Errorf("%d %+v %v", n, end, err)
	}
	f.answers(rowsFrame(t, 0, 1), endFrame(wire.End{Complete: true}))
	if _, _, err := c.Count(soon(t), &record.Query{}); err == nil {
		t.Error("records where a count was asked for")
	}
	f.answers()
	if _, _, err := c.Count(soon(t), &record.Query{}); !errors.Is(err, ErrNoEnd) {
		t.Errorf("an answer without an end: %v", err)
	}
}

func TestDial(t *testing.T) {
	for _, addr := range []string{"", "ftp://x", "http://", "127.0.0.1:1", "http://[::1"} {
		if c, err := Dial(soon(t), addr); err == nil {
			_ = c.Close()
			t.Errorf("%q: no error", addr)
		}
	}
	f := newFake(t)
	if c, err := Dial(soon(t), "http://"+f.addr+"/ignored"); err != nil {
		t.Error(err)
	} else if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestErrors reads what nodes and what stands before them answer.
func TestErrors(t *testing.T) {
	status, contentType, body := 0, "", ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			return
		}
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the reader may not want it
	}))
	defer s.Close()
	c, err := Dial(soon(t), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	f := func(answer int, kind, text string, want wire.Error) {
		t.Helper()
		status, contentType, body = answer, kind, text
		_, err := c.Horizon(soon(t), nil)
		var remote *wire.Error
		if !errors.As(err, &remote) || *remote != want {
			t.Errorf("%q: %v, want %+v", text, err, want)
		}
	}
	problem, err := json.Marshal(map[string]string{"detail": "not now", "code": "overloaded",
		"part": "p", "reason": "r"})
	if err != nil {
		t.Fatal(err)
	}
	f(503, "application/problem+json", string(problem), wire.Error{Kind: wire.KindOverloaded,
		Message: "not now", Part: "p", Reason: "r", RetryAfterMs: 3000})
	e := wire.Error{Kind: wire.KindTooLarge, Message: "m"}
	f(413, wire.ContentType, string(wire.AppendError(nil, &e)), e)

	plain := func(answer int, kind, text, want string) {
		t.Helper()
		status, contentType, body = answer, kind, text
		if _, err := c.Horizon(soon(t), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
	plain(502, "text/html", "<h1>Bad gateway</h1>",
		`status 502, not an answer of a node: "<h1>Bad gateway</h1>"`)
	plain(500, wire.ContentType, "junk", "status 500, and its error cannot be read")
	plain(500, wire.ContentType, string(endFrame(wire.End{})),
		"status 500, and its error cannot be read")
	plain(200, "application/json", "{", "GET /v1/horizon")
}
