package node

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestPagesChangeNothing sends what a browser sends for a page of any site.
func TestPagesChangeNothing(t *testing.T) {
	n := openTest(t, Options{})
	f := func(method, path, header, value string, refused bool) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method,
			"http://"+n.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(header, value)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || (resp.StatusCode == 403) != refused ||
			refused != strings.Contains(string(body), "programs only") {
			t.Errorf("%s %s, %s %s: %s %s, %v", method, path, header, value, resp.Status, body, err)
		}
	}
	for _, route := range []string{"POST /v1/put", "POST /v1/records", "POST /v1/erase?cid=1",
		"POST /v1/purge?cid=1", "PUT /v1/retention?cid=1&cap_age=1h", "DELETE /v1/retention?cid=1",
		"PUT /v1/plugins/mine", "DELETE /v1/plugins/mine", "PUT /v1/quantities/1",
		"POST /v1/plugins/mine/promote",
		"POST /v1/snapshots?name=one", "DELETE /v1/snapshots/one",
		"POST /v1/verify"} {
		method, path, _ := strings.Cut(route, " ")
		f(method, path, "Origin", "https://example.org", true)
		f(method, path, "Origin", "null", true)
		f(method, path, "Sec-Fetch-Site", "cross-site", true)
		f(method, path, "Sec-Fetch-Site", "none", false)
	}
	for _, route := range []string{"GET /v1/count", "POST /v1/query", "POST /v1/count",
		"POST /v1/explain", "POST /v1/plugins/count/run", "GET /v1/snapshots"} {
		method, path, _ := strings.Cut(route, " ")
		f(method, path, "Origin", "https://example.org", false)
	}
	http.DefaultClient.CloseIdleConnections()
}
