package httpserver

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/sdk/wire"
)

// A length costs nothing: many clients that announce the largest body and send a little of it take
// next to no memory, and others are served meanwhile.
func TestAnnouncedBodiesTakeNoMemory(t *testing.T) {
	bodies := budget.New(1<<30, 0)
	s := serve(t, bodies)
	before := heapBytes()
	for range 100 {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_, err = fmt.Fprintf(c, "POST /take HTTP/1.1\r\nHost: localhost\r\n"+
			"Content-Length: %d\r\n\r\n%s", maxBodyBytes, strings.Repeat("x", smallBody+1))
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all have begun", func() bool {
		return bodies.Used() == 100*bodyStep
	})
	if grown := heapBytes() - before; grown > 64<<20 {
		t.Errorf("%d bytes of memory for 100 announced bodies", grown)
	}
	status, said := post(t, s, "/take", []byte("x"))
	if status != http.StatusOK {
		t.Errorf("another one: %d %s", status, said)
	}
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// bodyClient sends bodies over one connection.
type bodyClient struct {
	*testing.T
	conn net.Conn
	in   *bufio.Reader
}

// post sends a body, and returns the answer.
func (c *bodyClient) post(body []byte, chunked bool) (status int, closes bool, said string) {
	c.Helper()
	r, err := http.NewRequest("POST", "http://localhost/take",
		io.MultiReader(bytes.NewReader(body)))
	if err != nil {
		c.Fatal(err)
	}
	if !chunked {
		r.ContentLength = int64(len(body))
	}
	go func() { _ = r.Write(c.conn) }() // what was refused is not read
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.Fatalf("%d bytes, chunked %t: %v", len(body), chunked, err)
	}
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		c.Fatal(err)
	}
	return answer.StatusCode, answer.Close, string(all)
}

// Bodies of all lengths come as they were sent, whole or in chunks, one behind the other on one
// connection, and one that is too long is refused.
func TestBodies(t *testing.T) {
	bodies := budget.New(1<<30, 0)
	s := serve(t, bodies)
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	c := &bodyClient{t, conn, bufio.NewReader(conn)}
	noise := rand.NewChaCha8([32]byte{1})
	for _, length := range []int{0, smallBody - 1, smallBody, smallBody + 1, bodyStep,
		smallBody + bodyStep, smallBody + bodyStep + 1, 1_000_000, maxKeptBody + 1, 5_000_000} {
		for _, chunked := range []bool{false, true} {
			body := make([]byte, length)
			_, _ = noise.Read(body) // never fails
			status, _, said := c.post(body, chunked)
			if status != 200 || said != fmt.Sprintln(crc32.ChecksumIEEE(body)) {
				t.Errorf("%d bytes, chunked %t: %d %s", length, chunked, status, said)
			}
		}
	}
	eventually(t, "all memory is given back", func() bool { return bodies.Used() == 0 })
	if status, closes, said := c.post(make([]byte, maxBodyBytes+1), true); status != 413 ||
		!closes {
		t.Errorf("too long: %d %s, connection is closed: %t", status, said, closes)
	}
}

// Small frames that become large wait for memory, and are refused when none comes: they are not
// all decompressed at once.
func TestFramesThatGrow(t *testing.T) {
	bodies := budget.New(1<<20, 0)
	s := serve(t, bodies)
	frame := make([]byte, smallBody+1)
	holder := bodies.Share()
	if err := holder.Take(t.Context(), 1<<21, time.Second); err != nil { // it is the elder
		t.Fatal(err)
	}
	status, answer := post(t, s, "/grow", frame)
	if status != 429 || !strings.Contains(answer, wire.KindOverloaded.String()) {
		t.Errorf("without memory: %d %q", status, answer)
	}
	holder.End()
	if status, answer = post(t, s, "/grow", frame); status != 200 {
		t.Errorf("with memory: %d %q", status, answer)
	}
	eventually(t, "all memory is given back", func() bool { return bodies.Used() == 0 })
}

// TestBodyOverTheLimit: a length over the limit is refused as soon as the header has come, whether
// or not the client sends the beginning of the body.
func TestBodyOverTheLimit(t *testing.T) {
	s := serve(t, budget.New(1<<30, 0))
	for what, rest := range map[string]string{
		"nothing":          "\r\n",
		"the beginning":    "\r\n" + strings.Repeat("x", 10*smallBody),
		"asking for leave": "Expect: 100-continue\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := fmt.Fprintf(conn, "POST /take HTTP/1.1\r\nHost: localhost\r\n"+
			"Content-Length: %d\r\n%s", maxBodyBytes+1, rest); err != nil {
			t.Fatal(err)
		}
		refusal, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(refusal), "HTTP/1.1 413 ") ||
			!strings.Contains(string(refusal), s.bodyTooLong().Message) {
			t.Errorf("body over the limit, of which was sent %s: %q, %v", what, refusal, err)
		}
	}
}

// post sends a body over a connection of its own.
func post(t *testing.T, s *Server, path string, body []byte) (status int, said string) {
	t.Helper()
	resp, err := http.Post("http://"+s.Addr().String()+path, "text/plain",
		bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	return resp.StatusCode, string(all)
}

// eventually waits for something that is true soon on a machine that is not slow.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	end, tick := time.After(5*time.Minute), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("after five minutes: not %s", what)
		}
	}
}

// What never fits into the memory of a node is too large, and no client waits for it: a body by its
// length, and a frame by what it becomes.
func TestBodiesOfASmallNode(t *testing.T) {
	const largest = 2 << 20
	for _, c := range []struct {
		path   string
		length int
		want   int
	}{
		{"/take", largest, http.StatusOK}, {"/take", largest + 1, http.StatusRequestEntityTooLarge},
		{"/grow", smallBody + 1, http.StatusRequestEntityTooLarge},
	} {
		bodies := NewBodies(1<<20, largest)
		if c.path == "/grow" {
			bodies = NewBodies(1<<20, grownBytes/2)
		}
		status, said := post(t, serve(t, bodies), c.path, make([]byte, c.length))
		if status != c.want || status != http.StatusOK && !strings.Contains(said, "--memory") {
			t.Errorf("%d bytes to %s: %d %s", c.length, c.path, status, said)
		}
		eventually(t, "all memory is given back", func() bool { return bodies.Used() == 0 })
	}
}
