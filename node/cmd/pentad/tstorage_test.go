package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
)

// TestServeTStorage runs a node that TStorage clients reach, stores an empty PUT, finds it among
// the metrics, and stops the node.
func TestServeTStorage(t *testing.T) {
	out, stdout := io.Pipe()
	a := &app{&cli.App{Stdout: stdout, Stderr: io.Discard, Stdin: strings.NewReader(""),
		Now: time.Now, Getenv: func(string) string { return "" }}}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- a.run(ctx, []string{"serve", "-q", "--dir", t.TempDir(), "--listen",
			"127.0.0.1:0", "--listen-tstorage", "127.0.0.1:0"})
	}()
	var gateway, page string
	find := func(line, pattern string, found *string) {
		if m := regexp.MustCompile(pattern).FindStringSubmatch(line); m != nil {
			*found = m[1]
		}
	}
	for lines := bufio.NewScanner(out); page == "" && lines.Scan(); {
		find(lines.Text(), `on (\S+) for TStorage`, &gateway)
		find(lines.Text(), `on (http://\S+)`, &page)
	}
	if gateway == "" || page == "" {
		t.Fatalf("exit code %d; gateway %q, page %q", <-done, gateway, page)
	}
	c, err := net.Dial("tcp", gateway)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	request := binary.LittleEndian.AppendUint64([]byte{5, 0, 0, 0}, 0)
	if _, err := c.Write(append(request, 0xff, 0xff, 0xff, 0xff)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 28)
	if _, err := io.ReadFull(c, answer); err != nil || answer[0] != 0 || answer[4] != 16 {
		t.Errorf("answer % x, %v", answer, err)
	}
	metrics, err := http.Get(page + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(metrics.Body)
	_ = metrics.Body.Close()
	for _, want := range []string{"\npentad_tstorage_puts_total 1\n",
		"\npentad_tstorage_open_connections 1\n", "\npentad_tstorage_reserved_total 0\n"} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("/metrics has no %q, %v", want, err)
		}
	}
	stop()
	if code := <-done; code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
}

// TestTStorageFlags refuses flags that do not fit together, before anything is opened.
func TestTStorageFlags(t *testing.T) {
	f := func(code int, want string, args ...string) {
		t.Helper()
		var text strings.Builder
		a := &app{&cli.App{Stdout: io.Discard, Stderr: &text, Stdin: strings.NewReader(""),
			Now: time.Now, Getenv: func(string) string { return "" }}}
		args = append([]string{"serve", "--dir", t.TempDir()}, args...)
		if got := a.run(t.Context(), args); got != code || !strings.Contains(text.String(), want) {
			t.Errorf("%v: exit code %d: %s", args[3:], got, text.String())
		}
	}
	f(cli.ExitUsage, "need --listen-tstorage", "--tstorage-puta")
	f(cli.ExitUsage, "need --listen-tstorage", "--tstorage-puta-below")
	f(cli.ExitUsage, "need --listen-tstorage", "--tstorage-cert", "a", "--tstorage-key", "b")
	f(cli.ExitUsage, "both or neither", "--listen-tstorage", "127.0.0.1:0", "--tstorage-cert", "a")
	f(cli.ExitFailed, "add --insecure", "--listen-tstorage", ":2025")
	f(cli.ExitFailed, "read --tstorage-cert", "--listen-tstorage", "127.0.0.1:0", "--tstorage-cert",
		"none.pem", "--tstorage-key", "none.pem")
}
