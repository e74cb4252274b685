package node

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestPagesShareFeeds opens as many streams as the pages of a site may have, and one more.
func TestPagesShareFeeds(t *testing.T) {
	n := openTest(t, Options{})
	defer http.DefaultClient.CloseIdleConnections()
	follow := func(header, value string) (status int, body string, end func()) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET",
			"http://"+n.Addr().String()+"/v1/changes?follow=1&since=now", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(header, value)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			body = string(text)
		}
		return resp.StatusCode, body, func() { cancel(); _ = resp.Body.Close() }
	}
	var last func()
	for range 32 {
		status, body, end := follow("Origin", "https://one.example")
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		last = end
		defer end()
	}
	status, body, _ := follow("Origin", "https://one.example")
	if status == http.StatusOK || !strings.Contains(body, "read 32 streams of changes already") {
		t.Errorf("one more of the same site: %d %s", status, body)
	}
	for _, other := range []string{"Origin: https://two.example", "Sec-Fetch-Site: same-origin",
		"X-Program: mine"} {
		header, value, _ := strings.Cut(other, ": ")
		status, body, end := follow(header, value)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", other, status, body)
		}
		end()
	}

	// A stream that ended leaves its place, as soon as the node notices.
	last()
	tick, late := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for i := int64(0); ; i++ {
		b := &record.Batch{}
		b.Append(record.Key{CID: 1, MID: i}, []byte("x"))
		if _, err := n.Put(t.Context(), b, store.WriterSeq{}); err != nil {
			t.Fatal(err)
		}
		status, body, end := follow("Origin", "https://one.example")
		end()
		if status == http.StatusOK {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("no place became free: %d %s", status, body)
		}
	}
}
