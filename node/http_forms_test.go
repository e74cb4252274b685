package node

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// formed is an answer with all that belongs to it.
type formed struct {
	status  int
	header  http.Header
	trailer http.Header
	body    []byte
}

// askForm sends a request with headers, each as "Name: value", and takes the answer as it comes.
func askForm(t *testing.T, n *Node, method, path string, body []byte, headers ...string) formed {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+n.Addr().String()+path,
		bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return formed{resp.StatusCode, resp.Header, resp.Trailer, text}
}

func zipped(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unzipped(t *testing.T, text []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRejectedRecordsHaveAStatus: a client that looks at the status alone does not take a put for
// whole of which a part was rejected.
func TestRejectedRecordsHaveAStatus(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	const one, bad = `{"cid":1,"mid":1,"moid":1,"cap":1,"value":5}`, `{"cid":1}`
	a.expect("POST", "/v1/records?type=f64", one+"\n"+bad+"\n"+one, 207, `"written":2`,
		`"rejected":1`, `"rejects":[{"line":2,`)
	a.expect("POST", "/v1/records?type=f64&atomic=1", one+"\n"+bad, 422, `"status":422`,
		`"code":"invalid"`, "nothing is stored: 1 of 2 records are wrong, first on line 2")
	a.expect("POST", "/v1/records?type=f64", bad, 422, "nothing is stored: 1 of 1")
	many := a.expect("POST", "/v1/records?type=f64", one+strings.Repeat("\n"+bad, 300), 207,
		`"rejected":300`)
	if n := strings.Count(many, `"line":`); n != 100 {
		t.Errorf("%d rejected records are listed", n)
	}
	a.expect("GET", "/v1/count?view=all", "", 200, `"records":3`)
}

// TestConcatenatedRecords stores what curl -d makes of a file of lines: it takes line ends away.
func TestConcatenatedRecords(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	lines := devices(1000)
	a.expect("POST", "/v1/records?type=i64", strings.ReplaceAll(lines, "\n", ""), 200,
		`"written":1000`)
	a.expect("POST", "/v1/records?type=i64", strings.ReplaceAll(lines, ",", ",\n "), 200,
		`"written":1000`)
	a.expect("POST", "/v1/records?type=i64", `{"cid":1,"mid":1,"moid":1,"cap":1,"value":1}`+
		`{"cid":1}{"cid":1,"mid":1,"moid":1,"cap":2,"value":1}`, 207, `"line":2,`, `"written":2`)
	a.expect("GET", "/v1/count?view=all", "", 200, `"records":2002`)
}

// TestZippedBodies takes bodies in gzip, and counts what they unpack to.
func TestZippedBodies(t *testing.T) {
	n := openTest(t, Options{})
	const gzipped = "Content-Encoding: gzip"
	put := func(body []byte, status int, says string, headers ...string) {
		t.Helper()
		got := askForm(t, n, "POST", "/v1/records?type=i64", body, append(headers, gzipped)...)
		if got.status != status || !strings.Contains(string(got.body), says) {
			t.Errorf("status %d, want %d with %q: %s", got.status, status, says, got.body)
		}
	}
	small, large := zipped(t, []byte(devices(3))), zipped(t, []byte(devices(30_000)))
	put(small, 200, `"written":3`)
	put(large, 200, `"written":30000`)
	put(append(slices.Clone(small), small...), 200, `"written":6`) // two members
	put([]byte(devices(1)), 400, "the body is not, or is cut off")
	put(small[:len(small)-6], 400, "cut off")
	put(large[:len(large)/2], 400, "cut off")
	bomb := zipped(t, bytes.Repeat([]byte(" "), 100<<20))
	if len(bomb) > 1<<20 {
		t.Fatalf("%d bytes", len(bomb))
	}
	put(bomb, 413, "request body over")
	put(nil, 400, "it holds none")
}

// TestZippedAnswers compresses answers of some size for clients that take them so.
func TestZippedAnswers(t *testing.T) {
	n := openTest(t, Options{})
	a := &asker{t, n}
	a.expect("POST", "/v1/records?type=i64", devices(5000), 200)
	const accept = "Accept-Encoding: gzip"
	for _, path := range []string{"/v1/records?type=i64&order=key&keys=1", "/openapi.json",
		"/v1/plugins"} {
		plain := askForm(t, n, "GET", path, nil)
		packed := askForm(t, n, "GET", path, nil, accept)
		coding := packed.header.Get("Content-Encoding")
		if coding != "gzip" || len(packed.body) > len(plain.body)/2 ||
			!slices.Contains(packed.header.Values("Vary"), "Accept-Encoding") {
			t.Errorf("%s: %d bytes as %q for %d, %v", path, len(packed.body), coding,
				len(plain.body), packed.header)
			continue
		}
		got, _, _ := strings.Cut(string(unzipped(t, packed.body)), `"end"`)
		if want, _, _ := strings.Cut(string(plain.body), `"end"`); got != want {
			t.Errorf("%s: another answer", path)
		}
	}
	for _, accepts := range []string{"identity", "gzip;q=0", "br"} {
		got := askForm(t, n, "GET", "/v1/plugins", nil, "Accept-Encoding: "+accepts)
		if got.header.Get("Content-Encoding") != "" || got.body[0] != '{' {
			t.Errorf("%s: %v", accepts, got.header)
		}
	}
	if got := askForm(t, n, "GET", "/v1/count", nil, accept); got.body[0] != '{' {
		t.Errorf("a small answer: %q", got.body)
	}
	if got := askForm(t, n, "HEAD", "/v1/records", nil, accept); len(got.body) > 0 {
		t.Errorf("HEAD: %q", got.body)
	}
}

// TestLinesAreRows: lines by Accept are rows alone, so that programs read them as a table. The end
// is a trailer.
func TestLinesAreRows(t *testing.T) {
	n := openTest(t, Options{})
	a := &asker{t, n}
	a.expect("POST", "/v1/records?type=i64", devices(3), 200)
	end := func(got formed, header http.Header, rows int) {
		t.Helper()
		var said struct {
			Complete bool `json:"complete"`
			Rows     int  `json:"rows"`
		}
		if err := json.Unmarshal([]byte(header.Get("Pentad-End")), &said); err != nil ||
			!said.Complete || said.Rows != rows || got.status != 200 {
			t.Errorf("end %q, %v: %s", header.Get("Pentad-End"), err, got.body)
		}
	}
	got := askForm(t, n, "GET", "/v1/records?type=i64", nil, "Accept: application/x-ndjson")
	end(got, got.trailer, 3)
	if strings.Contains(string(got.body), `"end"`) || bytes.Count(got.body, []byte("\n")) != 3 {
		t.Errorf("%s", got.body)
	}
	got = askForm(t, n, "GET", "/v1/records?type=i64&format=ndjson&limit=2", nil) // as pandas asks
	end(got, got.trailer, 2)
	if !eachLineHas(got.body, "cid", "mid", "moid", "cap", "cap_ns", "acq", "acq_ns", "value") {
		t.Errorf("%s", got.body)
	}
	got = askForm(t, n, "GET", "/v1/records?cid=9", nil, "Accept: application/x-ndjson")
	end(got, got.trailer, 0)
	table := func(path string, rows int, head ...string) [][]string {
		t.Helper()
		got = askForm(t, n, "GET", path, nil, "Accept: text/csv")
		all, err := csv.NewReader(bytes.NewReader(got.body)).ReadAll()
		if err != nil || len(all) != rows+1 || !slices.Equal(all[0], head) ||
			!strings.HasPrefix(got.header.Get("Content-Type"), "text/csv") {
			t.Fatalf("%s: %s %v, %v", path, got.body, err, got.header)
		}
		return all
	}
	head := []string{"cid", "mid", "moid", "cap", "acq", "value", "payload", "deleted"}
	all := table("/v1/latest?type=i64&order=key", 3, head...)
	end(got, got.trailer, 3)
	if all[2][1] != "256" || all[2][5] != "1" || all[2][3] != "1970-01-01T00:00:00.000000001Z" {
		t.Errorf("%q", all)
	}
	table("/v1/records?cid=9", 0, head...)
	table("/v1/versions?cid=1&type=i64", 3, append(slices.Clone(head), "latest", "erased")...)
	all = table("/v1/windows?every=1d&agg=count&group=mid&cid=1", 3, "start", "hours", "mid",
		"records", "count")
	end(got, got.header, 3)
	if all[1][0] != "1970-01-01T00:00:00Z" || all[1][1] != "24" {
		t.Errorf("%q", all)
	}
	table("/v1/plugins/count/run?cid=9", 0, "records")
}

// eachLineHas reports whether every line is an object of these members, so that a table of them has
// no empty cells.
func eachLineHas(lines []byte, members ...string) bool {
	slices.Sort(members)
	for line := range bytes.Lines(lines) {
		row := map[string]json.RawMessage{}
		if json.Unmarshal(line, &row) != nil ||
			!slices.Equal(slices.Sorted(maps.Keys(row)), members) {
			return false
		}
	}
	return true
}

// TestTrailersOnOneConnection: the end of one answer is not that of the next.
func TestTrailersOnOneConnection(t *testing.T) {
	n := openTest(t, Options{})
	c, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	for i, accept := range []string{"application/x-ndjson", "application/json", "text/csv"} {
		if _, err := fmt.Fprintf(c, "GET /v1/records HTTP/1.1\r\nHost: localhost\r\n"+
			"Accept: %s\r\n\r\n", accept); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if has := resp.Trailer.Get("Pentad-End") != ""; err != nil || has != (i != 1) {
			t.Errorf("%s: trailer %v, %v", accept, resp.Trailer, err)
		}
	}
}

// TestFailedAnswersAreCut: rows without an end among them do not look whole when the answer fails.
func TestFailedAnswersAreCut(t *testing.T) {
	n := openTest(t, Options{})
	putShort(t, n)
	get := func(coding, accept string) []byte {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+n.Addr().String()+
			"/v1/records?filter=threshold&filter_params=value=0", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", coding)
		req.Header.Set("Accept", accept)
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if whole := accept == "application/json"; (err == nil) != whole || resp.StatusCode != 200 ||
			resp.Trailer.Get("Pentad-End") != "" {
			t.Errorf("%s, %q: status %d, %v, %v", accept, coding, resp.StatusCode, err,
				resp.Trailer)
		}
		return text
	}
	const failed = `"end":{"complete":false,"error":`
	for _, accept := range []string{"application/json", "application/x-ndjson", "text/csv"} {
		said := get("identity", accept)
		if got := strings.Contains(string(said), failed); got != (accept != "text/csv") {
			t.Errorf("%s: %.200s", accept, said)
		}
		get("gzip", accept)
	}
}
