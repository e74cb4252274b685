package httpserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/sdk/wire"
)

// askAndEnd sends a request as it is, says that no more comes, and returns the answer.
func askAndEnd(t *testing.T, s *Server, request string) (status int, said string) {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(all)
}

func chunk(b string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(b), b) }

// TestBodyCut: a body whose connection ends before it does is refused, wherever it is cut and
// whatever the route, and its handler is not called.
func TestBodyCut(t *testing.T) {
	bodies := budget.New(1<<30, 0)
	s := serve(t, bodies)
	const chunked = "Transfer-Encoding: chunked\r\n\r\n"
	one, large := chunk("a record\n"), chunk(strings.Repeat("x", bodyStep))
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n", n) }
	for what, test := range map[string]struct {
		rest   string // of the request
		status int
	}{
		"whole":                    {chunked + one + one + "0\r\n\r\n", 200},
		"whole, with a trailer":    {chunked + one + "0\r\nA: b\r\n\r\n", 200},
		"whole, large":             {chunked + large + large + "0\r\n\r\n", 200},
		"before the first chunk":   {chunked, 400},
		"between two chunks":       {chunked + one + one, 400},
		"between large chunks":     {chunked + large + large, 400},
		"in a chunk":               {chunked + one + "9\r\na rec", 400},
		"in the length of a chunk": {chunked + one + "9", 400},
		"before the end of a line": {chunked + one + "9\r\na record\n", 400},
		"in the last chunk":        {chunked + one + "0", 400},
		"in the trailer":           {chunked + one + "0\r\nA: b\r\n", 400},
		"whole length":             {length(2*smallBody) + strings.Repeat("x", 2*smallBody), 200},
		"in a small length":        {length(9) + "a rec", 400},
		"in a length":              {length(2*smallBody) + strings.Repeat("x", 2*smallBody-1), 400},
		"in a large length":        {length(1<<20) + strings.Repeat("x", bodyStep+smallBody), 400},
	} {
		for _, kind := range []string{"application/json", wire.ContentType} {
			status, said := askAndEnd(t, s, "POST /take HTTP/1.1\r\nHost: localhost\r\n"+
				"Connection: close\r\nContent-Type: "+kind+"\r\n"+test.rest)
			if status != test.status {
				t.Errorf("%s, %s: %d %s", what, kind, status, said)
			}
		}
	}
	eventually(t, "all memory is given back", func() bool { return bodies.Used() == 0 })
}

// TestTwoLengths: a request that says in two ways where its body ends is refused.
func TestTwoLengths(t *testing.T) {
	s := serve(t, budget.New(1<<30, 0))
	const body = "5\r\nhello\r\n0\r\n\r\n"
	length, coding := fmt.Sprintf("content-length: %d\r\n", len(body)), "Transfer-encoding: %s\r\n"
	for headers, want := range map[string]int{
		length + fmt.Sprintf(coding, "chunked"):     400,
		fmt.Sprintf(coding, "chunked") + length:     400,
		length + fmt.Sprintf(coding, "identity"):    400,
		length:                                      200,
		fmt.Sprintf(coding, "chunked"):              200,
		fmt.Sprintf(coding, "chunked") + "A: b\r\n": 200,
	} {
		status, said := askAndEnd(t, s, "POST /take HTTP/1.1\r\nHost: localhost\r\n"+headers+
			"\r\n"+body)
		if status != want {
			t.Errorf("%q: %d %s", headers, status, said)
		}
	}
}
