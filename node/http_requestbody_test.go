package node

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const oneRecord = `{"cid":1,"mid":2,"moid":3,"cap":4,"payload":"AA=="}`

// A length costs nothing: many clients that announce the largest body and send a little of it take
// next to no memory, and others are served meanwhile.
func TestAnnouncedBodiesTakeNoMemory(t *testing.T) {
	n := openTest(t, Options{})
	before := heapBytes()
	for range 100 {
		c, err := net.Dial("tcp", n.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_, err = fmt.Fprintf(c, "POST /v1/put HTTP/1.1\r\nHost: localhost\r\n"+
			"Content-Length: %d\r\n\r\n%s", maxBodyBytes, strings.Repeat("x", smallBody+1))
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all have begun", func() bool {
		return n.server.bodies.Used() == 100*bodyStep
	})
	if grown := heapBytes() - before; grown > 64<<20 {
		t.Errorf("%d bytes of memory for 100 announced bodies", grown)
	}
	(&asker{t, n}).expect("POST", "/v1/records", oneRecord, 200, `"written":1`)
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

// post sends a record with blanks behind it, and returns the answer.
func (c *bodyClient) post(length int, chunked bool) (status int, closes bool, said string) {
	c.Helper()
	body := oneRecord + strings.Repeat(" ", max(0, length-len(oneRecord)))
	r, err := http.NewRequest("POST", "http://localhost/v1/records",
		io.MultiReader(strings.NewReader(body)))
	if err != nil {
		c.Fatal(err)
	}
	if !chunked {
		r.ContentLength = int64(len(body))
	}
	go func() { _ = r.Write(c.conn) }() // what was refused is not read
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.Fatalf("%d bytes, chunked %t: %v", length, chunked, err)
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
	n := openTest(t, Options{})
	conn, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	c := &bodyClient{t, conn, bufio.NewReader(conn)}
	for _, length := range []int{0, smallBody - 1, smallBody, smallBody + 1, bodyStep,
		smallBody + bodyStep, smallBody + bodyStep + 1, 1_000_000, maxKeptBody + 1, 5_000_000} {
		for _, chunked := range []bool{false, true} {
			if status, _, said := c.post(length, chunked); status != 200 {
				t.Errorf("%d bytes, chunked %t: %d %s", length, chunked, status, said)
			}
		}
	}
	eventually(t, "all memory is given back", func() bool { return n.server.bodies.Used() == 0 })
	if status, closes, said := c.post(maxBodyBytes+1, true); status != 413 || !closes {
		t.Errorf("too long: %d %s, connection is closed: %t", status, said, closes)
	}
}

// Small frames that become large wait for memory, and are refused when none comes: they are not
// all decompressed at once.
func TestFramesThatGrow(t *testing.T) {
	n := openTest(t, Options{})
	n.server.bodies = budget.New(1 << 20)
	b := &record.Batch{}
	for i := range int64(30) {
		b.Append(record.Key{CID: 1, MID: i}, bytes.Repeat([]byte{byte(i)}, 1<<20))
	}
	frame, err := wire.AppendPut(nil, &wire.Put{Batch: b})
	if err != nil || len(frame) < smallBody || len(frame) > 1<<20 {
		t.Fatalf("%d bytes, %v", len(frame), err)
	}
	holder := n.server.bodies.Share()
	if err := holder.Take(t.Context(), 1<<21, time.Second); err != nil { // it is the elder
		t.Fatal(err)
	}
	status, answer := post(t, n, "POST", "/v1/put", wire.ContentType, frame)
	if status != 429 || kindOfAnswer(t, answer) != wire.KindOverloaded {
		t.Errorf("without memory: %d %q", status, answer)
	}
	holder.End()
	if status, answer = post(t, n, "POST", "/v1/put", wire.ContentType, frame); status != 200 {
		t.Errorf("with memory: %d %q", status, answer)
	}
	eventually(t, "all memory is given back", func() bool { return n.server.bodies.Used() == 0 })
}

func TestBodyOverTheLimit(t *testing.T) {
	n := openTest(t, Options{})
	// Only the beginning is sent: the node answers before it reads a body of this size.
	conn, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "POST /v1/put HTTP/1.1\r\nHost: localhost\r\n"+
		"Content-Type: %s\r\n"+
		"Content-Length: %d\r\n\r\n%s", wire.ContentType, maxBodyBytes+1,
		strings.Repeat("x", smallBody)); err != nil {
		t.Fatal(err)
	}
	refusal, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(refusal), "HTTP/1.1 413 ") {
		t.Errorf("body over the limit: %q, %v", refusal, err)
	}
}
