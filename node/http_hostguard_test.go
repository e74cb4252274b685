package node

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
)

// TestOtherHosts asks as a page would whose name was made to lead here, on routes of every kind.
func TestOtherHosts(t *testing.T) {
	n := openTest(t, Options{Hosts: []string{"meters.example"}})
	f := func(method, path, host string, want int) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method,
			"http://"+n.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		refused := strings.Contains(string(body), "start it with --host evil.example\"")
		if err != nil || resp.StatusCode != want || refused != (want == 421 && method != "HEAD") {
			t.Errorf("%s %s of %s: %s %s, %v", method, path, host, resp.Status, body, err)
		}
	}
	for _, route := range []string{"GET /v1/records", "HEAD /v1/records", "POST /v1/records",
		"POST /v1/query", "GET /v1/changes?follow=1", "POST /v1/changes", "GET /v1/plugins",
		"PUT /v1/plugins/mine", "DELETE /v1/sync", "GET /healthz", "GET /metrics",
		"OPTIONS /v1/put", "GET /", "GET /v1/x/../sync"} {
		method, path, _ := strings.Cut(route, " ")
		f(method, path, "evil.example:5150", 421)
	}
	f("GET", "/v1/records", "meters.example", 200)
	f("GET", "/v1/changes", "localhost:1", 200)
	http.DefaultClient.CloseIdleConnections()

	_, port, _ := strings.Cut(n.Addr().String(), ":")
	db, err := client.Dial(t.Context(), "localhost:"+port)
	if err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
}
