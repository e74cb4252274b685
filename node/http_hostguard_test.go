package node

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
)

func TestHostNames(t *testing.T) {
	names, err := newHostAllowList([]string{"Meters.example.org", "standby"}, "edge.example:5150")
	if err != nil {
		t.Fatal(err)
	}
	f := func(host string, want bool) {
		t.Helper()
		if names.allow(host) != want {
			t.Errorf("host %q is allowed: %v", host, !want)
		}
	}
	f("", true)
	f("127.0.0.1", true)
	f("127.0.0.1:5150", true)
	f("192.0.2.7:80", true)
	f("[::1]", true)
	f("[::1]:5150", true)
	f("[fe80::1%eth0]:5150", true)
	f("localhost", true)
	f("LocalHost.:5150", true)
	f("meters.example.org", true)
	f("METERS.example.org.:443", true)
	f("standby:5150", true)
	f("edge.example", true)
	f("example.org", false)
	f("evil.example:5150", false)
	f("a.localhost:5150", false) // a browser holds six connections to each such name
	f("127.0.0.1.evil.example", false)
	f("meters.example.org.evil.example", false)
	f("0x7f.1", false)
	f("::1:5150:", false)
	f("[::1", false)
	f("[::1]x:5150", false)
	f("127.0.0.1:x", false)
	f("localhost/", false)
	f("localhost localhost", false)
}

func TestHostsOfOptions(t *testing.T) {
	for _, name := range []string{"", "a:5150", "http://a", "a/b", "[::1]", "a b"} {
		_, err := newHostAllowList([]string{name}, "127.0.0.1:0")
		if err == nil || !strings.Contains(err.Error(), "omit scheme and port") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

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
