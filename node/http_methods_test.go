package node

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/plugin"
)

// TestMethods asks every route with every method.
func TestMethods(t *testing.T) {
	n := openTest(t, Options{})
	// One that DELETE finds.
	if err := n.SetRetention(t.Context(), retention.Rule{MaxAcqAgeNs: 1 << 60}); err != nil {
		t.Fatal(err)
	}
	if err := n.SetQuantity(plugin.Quantity{MOID: 9, Name: "x", Type: plugin.F64}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.CommitCursor(t.Context(), "9", 1, false); err != nil {
		t.Fatal(err)
	}
	if _, _, err := dial(t, n).NameDevices(t.Context(), 1, []string{"t9"}); err != nil {
		t.Fatal(err)
	}
	for path, allowed := range map[string]string{
		"/v1/put": "POST", "/v1/query": "POST", "/v1/records": "GET, HEAD, POST",
		"/v1/count": "GET, HEAD, POST", "/v1/explain": "GET, HEAD, POST",
		"/v1/latest": "GET, HEAD", "/v1/asof": "GET, HEAD", "/v1/diff": "GET, HEAD, POST",
		"/v1/versions": "GET, HEAD, POST",
		"/v1/horizon":  "GET, HEAD", "/v1/plugins": "GET, HEAD, POST", "/v1/failures": "GET, HEAD",
		"/v1/quantities": "GET, HEAD", "/v1/quantities/9": "DELETE, PUT",
		"/v1/changes": "GET, HEAD, POST", "/v1/cursors": "GET, HEAD",
		"/v1/cursors/9":        "DELETE, GET, HEAD, PUT",
		"/v1/devices?cid=1":    "GET, HEAD, POST",
		"/v1/devices/t9?cid=1": "DELETE, GET, HEAD, PATCH, PUT",
		"/healthz":             "GET, HEAD", "/readyz": "GET, HEAD", "/version": "GET, HEAD",
		"/v1/erase": "POST", "/v1/purge": "POST", "/v1/events": "GET, HEAD",
		"/v1/retention": "DELETE, GET, HEAD, POST, PUT",
		"/v1/snapshots": "GET, HEAD, POST", "/v1/verify": "POST",
		"/v1/digest": "GET, HEAD, POST", "/v1/sync": "DELETE, GET, HEAD, POST",
		"/metrics": "GET, HEAD", "/v1/plugins/count": "DELETE, GET, HEAD, PUT",
		"/v1/plugins/count/run": "GET, HEAD, POST", "/v1/plugins/count/promote": "POST",
		"/": "GET, HEAD", "/nothing": "",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE",
			"OPTIONS"} {
			req, err := http.NewRequestWithContext(t.Context(), method,
				"http://"+n.Addr().String()+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if _ = resp.Body.Close(); err != nil {
				t.Fatal(err)
			}
			known := strings.Contains(allowed, method)
			switch {
			case path == "/nothing" && resp.StatusCode == 404:
			case path == "/nothing", known && (resp.StatusCode == 404 || resp.StatusCode == 405):
				t.Errorf("%s %s: %s", method, path, resp.Status)
			case method == "OPTIONS" && resp.StatusCode != 204,
				method != "OPTIONS" && !known && resp.StatusCode != 405,
				!known && resp.Header.Get("Allow") != allowed:
				t.Errorf("%s %s: %s, allow %q", method, path, resp.Status,
					resp.Header.Get("Allow"))
			case method != "HEAD" && (resp.StatusCode == 405) !=
				strings.Contains(string(body), `"code":"method-not-allowed"`):
				t.Errorf("%s %s: %s, %.200s", method, path, resp.Status, body)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestNotOfThisNode asks a node for what edge nodes and nodes of a cluster have.
func TestNotOfThisNode(t *testing.T) {
	n := openTest(t, Options{})
	for path, want := range map[string]string{
		"/v1/edge": "this node is not an edge node", "/v1/cluster": "this node is in no cluster",
		"/v1/cluster/nodes": "this node is in no cluster", "/v1/x": "no route GET /v1/x"} {
		status, body := post(t, n, "GET", path, "", nil)
		text := string(body)
		if status != 404 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %q", path, status, text, want)
		}
		if path == "/v1/x" && (!strings.Contains(text, "/v1/records, ") ||
			strings.Contains(text, "/v1/edge") || strings.Contains(text, "/v1/cluster")) {
			t.Errorf("routes: %s", text)
		}
	}
}

// TestHeadKeepsTheConnection asks twice on one connection: an answer to HEAD has no body.
func TestHeadKeepsTheConnection(t *testing.T) {
	n := openTest(t, Options{})
	conn, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	answers := bufio.NewReader(conn)
	for _, path := range []string{"/v1/records", "/v1/count", "/healthz", "/nothing", "/metrics"} {
		if _, err := fmt.Fprintf(conn, "HEAD %s HTTP/1.1\r\nHost: localhost\r\n\r\n"+
			"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
		for _, method := range []string{"HEAD", "GET"} {
			resp, err := http.ReadResponse(answers, &http.Request{Method: method})
			if err != nil {
				t.Fatalf("%s %s: %v", method, path, err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || (method == "GET") != (len(body) > 0) {
				t.Fatalf("%s %s: %q, %v", method, path, body, err)
			}
		}
	}
}

// TestPackedBody: a body that is compressed in an unknown way is refused.
func TestPackedBody(t *testing.T) {
	n := openTest(t, Options{})
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+n.Addr().String()+
		"/v1/records", strings.NewReader("\x1f\x8b"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Encoding", "br")
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != 415 {
		t.Fatalf("a packed body: %v, %v", resp, err)
	}
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}
