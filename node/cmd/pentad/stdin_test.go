package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
)

// silence is a stdin on which nothing comes: a read tells that it waits, and waits.
type silence struct {
	waits func()
	ended chan struct{}
}

func (s *silence) Read([]byte) (int, error) {
	s.waits()
	<-s.ended
	return 0, io.EOF
}

// quietNode answers everything with nothing, and knows no quantities.
func quietNode() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/quantities" {
			_, _ = io.WriteString(w, `{"quantities":[]}`) // the client may be gone
		}
	}))
}

// TestStdinThatIsSilent ends commands that wait for stdin, by a signal and by --timeout.
func TestStdinThatIsSilent(t *testing.T) {
	t.Parallel() // it waits most of the time
	ready := quietNode()
	defer ready.Close()
	f := func(code int, message string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stdin := &silence{func() {}, make(chan struct{})}
		if code == cli.ExitInterrupted {
			stdin.waits = cancel
		}
		var stdout, stderr bytes.Buffer
		a := &app{&cli.App{Stdin: stdin, Stdout: &stdout, Stderr: &stderr, Now: time.Now,
			Getenv: func(string) string { return "" }}}
		got := a.run(ctx, append(args, "--addr", ready.URL))
		if got != code || !strings.Contains(stderr.String(), message) || stdout.Len() > 0 {
			t.Errorf("%s: exit code %d, %s%s", args, got, &stdout, &stderr)
		}
		close(stdin.ended)
		a.Reads.Wait()
	}
	rows := []string{"import", "csv", "--cid", "1", "--mid", "column=1", "--moid", "1", "--cap",
		"column=2", "--value", "column=3", "-"}
	f(cli.ExitInterrupted, "pentad: put: interrupted", "put")
	f(cli.ExitInterrupted, "pentad: put: interrupted", "put", "--format", "csv")
	f(cli.ExitInterrupted, "pentad: import csv: interrupted", rows...)
	const late = "read stdin: not done after --timeout 3s" // a slow machine comes as far in it
	f(cli.ExitUnavailable, late, "put", "--timeout", "3s")
	f(cli.ExitUnavailable, late, append(rows, "--timeout", "3s")...)
}

// TestPipeThatIsSilent ends commands that wait for someone to open a named pipe.
func TestPipeThatIsSilent(t *testing.T) {
	ready := quietNode()
	defer ready.Close()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(args ...string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		a := &app{&cli.App{Stdout: &stdout, Stderr: &stderr, Now: time.Now,
			Getenv: func(string) string { return "" }}}
		got := a.run(t.Context(), append(args, path, "--timeout", "50ms", "--addr", ready.URL))
		if want := "not done after --timeout 50ms"; got != cli.ExitUnavailable ||
			!strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit code %d, %s%s", args, got, &stdout, &stderr)
		}
		pipe, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer pipe.Close()
		if _, err := pipe.WriteString("\n"); err != nil { // lets the reader find out
			t.Fatal(err)
		}
		a.Reads.Wait()
	}
	f("bench", "replay")
	f("bench", "replay", "--in-order")
	f("import", "csv", "--cid", "1", "--mid", "column=1", "--moid", "1", "--cap", "column=2",
		"--value", "column=3")
}
