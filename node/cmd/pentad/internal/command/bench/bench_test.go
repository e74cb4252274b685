package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/load"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// benched is one row of a summary in JSON.
type benched struct {
	Kind                              string
	Duration                          float64
	Requests, Failed, Retries, Errors int64
	ErrorKinds                        map[string]int64 `json:"error_kinds"`
	Unsent, Records                   int64
	P50, P90                          float64
	ServiceP90                        float64 `json:"service_p90"`
	MaxLag                            float64 `json:"max_lag"`
}

// runBenchCommand runs a command whose summary is one object, and returns it with stderr.
func runBenchCommand(ctx context.Context, t *testing.T, wantCode int, args ...string) (benched,
	string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{&cli.App{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		Now: time.Now, Getenv: func(string) string { return "" }}}
	if code := a.run(ctx, append([]string{"bench", "-o", "json"}, args...)); code != wantCode {
		t.Fatalf("%s: exit code %d, want %d: %s", args, code, wantCode, &stderr)
	}
	var b benched
	if err := json.Unmarshal(stdout.Bytes(), &b); err != nil {
		t.Fatalf("%s: %v: %s", args, err, &stdout)
	}
	return b, stderr.String()
}

// putServer is a node that takes every batch; before says what happens to put i, from 1, first.
func putServer(t *testing.T, before func(i int, w http.ResponseWriter) (answered bool)) string {
	var mu sync.Mutex
	puts := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/put" {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // the worker may have gone
		mu.Lock()
		defer mu.Unlock() // held while the node stalls, so that all puts stall
		puts++
		if !before(puts, w) {
			_, _ = w.Write(wire.AppendPutReply(nil, &wire.PutReply{Records: 1})) // as above
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestBenchShowsStall stalls a node for half a second of a second and a half. What was due in
// that time shows with a rate, and not without.
func TestBenchShowsStall(t *testing.T) {
	f := func(args ...string) benched {
		t.Helper()
		addr := putServer(t, func(i int, _ http.ResponseWriter) bool {
			if i == 100 {
				<-time.After(500 * time.Millisecond)
			}
			return false
		})
		b, stderr := runBenchCommand(t.Context(), t, cli.ExitOK, append([]string{"write", "--addr",
			addr, "--force", "--writers", "2", "--batch", "10", "--progress"}, args...)...)
		line := regexp.MustCompile(`(?m)^ +\d+ s .* requests .* records .* p50 .* lag `)
		if b.Duration > 1.1 && !line.MatchString(stderr) {
			t.Errorf("progress: %s", stderr)
		}
		if b.Requests != 300 || b.Failed != 0 || b.Records != 3000 {
			t.Errorf("%s: %+v", args, b)
		}
		return b
	}
	for try := range 10 {
		paced, free := f("--records", "3000", "--rate", "2000"), f("--records", "3000")
		if paced.P90 < 0.25 || paced.MaxLag < 0.3 {
			t.Errorf("with a rate: %+v", paced)
		}
		if paced.ServiceP90 <= 0.25 && free.P90 <= 0.25 { // half of the stall
			return
		}
		t.Logf("try %d, all may be slow: %+v, without a rate %+v", try, paced, free)
	}
	t.Error("a stall shows where requests do not wait for each other")
}

// TestBenchRetries has a node refuse every third put, in two ways.
func TestBenchRetries(t *testing.T) {
	addr := putServer(t, func(i int, w http.ResponseWriter) bool {
		switch {
		case i%6 == 0:
			panic(http.ErrAbortHandler)
		case i%3 == 0:
			w.Header().Set("Content-Type", wire.ContentType)
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write(wire.AppendError(nil, &wire.Error{Kind: wire.KindOverloaded}))
			return true
		}
		return false
	})
	b, _ := runBenchCommand(t.Context(), t, cli.ExitOK, "write", "--addr", addr, "--force",
		"--records", "100", "--batch", "10", "--writers", "1")
	if b.Requests != 10 || b.Failed != 0 || b.Retries != 4 || b.Records != 100 ||
		b.ErrorKinds["overloaded"] != 2 || b.ErrorKinds["connection-lost"] != 2 {
		t.Errorf("%+v", b)
	}
}

// TestBenchRefused ends at once when all other batches would be refused too.
func TestBenchRefused(t *testing.T) {
	addr := putServer(t, func(_ int, w http.ResponseWriter) bool {
		w.Header().Set("Content-Type", wire.ContentType)
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write(wire.AppendError(nil, &wire.Error{Kind: wire.KindForbidden, Message: "no"}))
		return true
	})
	b, stderr := runBenchCommand(t.Context(), t, cli.ExitForbidden, "write", "--addr", addr,
		"--force", "--writers", "1")
	if b.Requests != 1 || b.Failed != 1 || b.ErrorKinds["forbidden"] != 1 ||
		!strings.Contains(stderr, "pentad: bench write: no\n") {
		t.Errorf("%+v, %s", b, stderr)
	}
}

// TestBenchNodeGoes closes the node under a load that would go on for an hour.
func TestBenchNodeGoes(t *testing.T) {
	n, err := node.Open(t.Context(), node.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	addr := n.Addr().String()
	var closing sync.WaitGroup
	closing.Go(func() {
		waitForRecords(t, addr, 0)
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	start := time.Now()
	b, stderr := runBenchCommand(t.Context(), t, cli.ExitUnavailable, "write", "--addr", addr,
		"--rate", "1000", "--for", "1h", "--give-up", "5s")
	closing.Wait()
	if b.Failed == 0 || b.ErrorKinds["connection-refused"] == 0 || b.Unsent == 0 ||
		b.Records == 0 || time.Since(start) > 5*time.Minute ||
		!strings.Contains(stderr, "stopped: no request succeeded for 5s; the last: ") {
		t.Errorf("%+v, %s", b, stderr)
	}
}

// waitForRecords returns when the node at addr holds more records than above.
func waitForRecords(t *testing.T, addr string, above uint64) {
	db, err := client.Dial(t.Context(), addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer db.Close()
	for range time.Tick(5 * time.Millisecond) {
		n, err := queryflags.Count(t.Context(), db, &record.Query{})
		if n > above || err != nil {
			return
		}
	}
}

// scansOf returns how many scans a node has made.
func scansOf(t *testing.T, addr string) int {
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Error(err)
		return 1 << 30
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	_, rest, _ := strings.Cut(string(text), "\npentad_store_scans_total ")
	n := 0
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Errorf("scans: %v", err)
		return 1 << 30
	}
	return n
}

// TestBenchInterrupted ends loads as Ctrl-C does: the summary is there, and holds what is stored.
func TestBenchInterrupted(t *testing.T) {
	addr, db := testNode(t)
	f := func(args ...string) benched {
		t.Helper()
		scans := scansOf(t, addr)
		held, err := queryflags.Count(t.Context(), db, &record.Query{})
		if err != nil {
			t.Fatal(err)
		}
		if args[0] == "query" {
			held = 0
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var waiting sync.WaitGroup
		waiting.Go(func() {
			waitForRecords(t, addr, held)
			if args[0] == "query" { // there are records: that it began shows in what it asks
				for range time.Tick(5 * time.Millisecond) {
					if t.Context().Err() != nil || scansOf(t, addr) > scans+50 {
						break
					}
				}
			}
			cancel()
		})
		b, stderr := runBenchCommand(ctx, t, cli.ExitInterrupted, append(args, "--addr", addr)...)
		waiting.Wait()
		if b.Failed != 0 || b.Errors != 0 || !strings.Contains(stderr, ": interrupted\n") {
			t.Errorf("%s: %+v, %s", args, b, stderr)
		}
		return b
	}
	b := f("write", "--for", "1h", "--rate", "1000")
	stored, err := queryflags.Count(t.Context(), db, &record.Query{})
	if err != nil || b.Records > int64(stored) || int64(stored)-b.Records > 4*10 {
		t.Errorf("%d records told, %d stored; %v", b.Records, stored, err)
	}
	f("query", "--for", "1h", "--mix", "rows")
	path := filepath.Join(t.TempDir(), "slow.ndjson")
	const lines = `{"cid":1,"mid":1,"moid":1,"cap":0,"value":1}` + "\n" +
		`{"cid":1,"mid":1,"moid":1,"cap":3600000000000,"value":1}` + "\n"
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	f("replay", path)
}

func TestJudge(t *testing.T) {
	f := func(err error, name string, fatal bool) {
		t.Helper()
		for _, wrapped := range []error{err, fmt.Errorf("doing a thing: %w", err)} {
			if got := judge(wrapped); got.Name != name || got.Fatal != fatal {
				t.Errorf("%v: %+v", wrapped, got)
			}
		}
	}
	f(&wire.Error{Kind: wire.KindOverloaded}, "overloaded", false)
	f(&wire.Error{Kind: wire.KindInternal}, "internal", false)
	f(&wire.Error{Kind: wire.KindPluginFailed}, "plugin-failed", false)
	f(&wire.Error{Kind: wire.KindInvalid}, "invalid", true)
	f(&wire.Error{Kind: wire.KindDamaged}, "damaged", true)
	f(&record.InvalidError{Part: "cid"}, "invalid", true)
	f(queryflags.CheckEnd(wire.End{Reason: "a shard is missing"}), "incomplete", false)
	f(&url.Error{Op: "Post", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}},
		"connection-refused", false)
	f(&url.Error{Op: "Post", Err: io.EOF}, "connection-lost", false)
	f(&net.OpError{Op: "read", Err: syscall.ECONNRESET}, "connection-lost", false)
	f(client.ErrNoEnd, "connection-lost", false)
	f(&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, "timeout", false)
	f(&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, "network", false)
	f(errors.New("frame of type 9"), "bad-answer", false)
	after := judge(&wire.Error{Kind: wire.KindOverloaded, RetryAfterMs: 250}).After
	if after != 250*time.Millisecond {
		t.Errorf("after %s", after)
	}
}

func TestProgressLine(t *testing.T) {
	f := func(p load.Progress, want string) {
		t.Helper()
		if got := progressLine(p); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	f(load.Progress{Elapsed: 12_001 * time.Millisecond, Requests: 1234, Records: 12_340_000,
		RequestRate: 99.6, Rate: 995_555.5, P50: 3210 * time.Microsecond,
		P99: 120 * time.Millisecond, Lag: 70 * time.Microsecond},
		"   12 s       1,234 requests      100/s    12,340,000 records     995,556/s"+
			"  p50  3.21 ms  p99   120 ms  0 errors  lag 0")
	f(load.Progress{Elapsed: 13 * time.Second, Requests: 1234, Records: 5, Idle: true, Errors: 1200,
		Lag: 1500 * time.Millisecond},
		"   13 s       1,234 requests        0/s             5 records           0/s"+
			"  p50        -  p99        -  1,200 errors  lag 1.50 s")
}

func TestParseMix(t *testing.T) {
	f := func(text string, want load.Mix) {
		t.Helper()
		if got, err := parseMix(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	f("rows", load.Mix{1, 0, 0})
	f("aggregate=3, rows=2", load.Mix{2, 0, 3})
	f("rows,count,aggregate", load.Mix{1, 1, 1})
	for _, text := range []string{"", "row", "rows=", "rows=-1", "rows=1.5", "rows,,count",
		"rows=1,rows=2", "count=1000001"} {
		if got, err := parseMix(text); err == nil {
			t.Errorf("%q is taken: %v", text, got)
		}
	}
}

// TestBenchTables shows people a summary with everything that one can have.
func TestBenchTables(t *testing.T) {
	var stdout bytes.Buffer
	a := &app{&cli.App{Stdout: &stdout, OutputName: "table"}}
	good := load.Latencies{Count: 9, Mean: 2 * time.Millisecond, P50: time.Millisecond,
		P90: 3 * time.Millisecond, P99: 5 * time.Millisecond, P999: 5 * time.Millisecond,
		Max: 5 * time.Millisecond}
	rows := load.Summary{Kind: "rows", Requests: 10, Failed: 1, Records: 5000, PayloadBytes: 40_000,
		Latency: good, Service: good}
	count := load.Summary{Kind: "count", Requests: 2, Failed: 2}
	all := rows
	all.Kind, all.Requests, all.Failed, all.Counted = "all", 12, 3, 70
	all.Errors = map[string]int64{"timeout": 1, "overloaded": 2}
	err := a.showBench(load.Report{Duration: 2 * time.Second, MaxLag: 1500 * time.Millisecond,
		Kinds: []load.Summary{rows, count}, All: all},
		&benchSummary{paced: true, rate: 5, sizes: []bool{true, false}, unsentCount: 1000})
	if err != nil {
		t.Fatal(err)
	}
	const want = `
KIND   REQUESTS  FAILED  RETRIES  RECORDS  RECORDS/S  PAYLOAD/S  REQUESTS/S  DURATION
rows         10       1        0    5,000      2,500    20.0 KB         4.5    2.00 s
count         2       2        0        0        0.0                    0.0    2.00 s
all          12       3        0    5,000      2,500    20.0 KB         4.5    2.00 s

LATENCY              MEAN      P50      P90      P99    P99.9      MAX
rows              2.00 ms  1.00 ms  3.00 ms  5.00 ms  5.00 ms  5.00 ms
rows, once sent   2.00 ms  1.00 ms  3.00 ms  5.00 ms  5.00 ms  5.00 ms
count
count, once sent
all               2.00 ms  1.00 ms  3.00 ms  5.00 ms  5.00 ms  5.00 ms
all, once sent    2.00 ms  1.00 ms  3.00 ms  5.00 ms  5.00 ms  5.00 ms

at most 1.50 s behind schedule; 1,000 requests were due and not sent
errors: overloaded 2, timeout 1
`
	if got := "\n" + stdout.String(); got != want {
		t.Errorf("got%s\nwant%s", got, want)
	}
}
