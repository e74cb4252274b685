package main

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
)

// TestInterrupted runs a command whose signal has come.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	a := &app{&cli.App{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		Now: time.Now, Getenv: func(string) string { return "" }}}
	if code := a.run(ctx, []string{"count"}); code != cli.ExitInterrupted ||
		stderr.String() != "pentad: count: interrupted\n" || stdout.Len() > 0 {
		t.Errorf("exit code %d, stderr %q, stdout %q", code, &stderr, &stdout)
	}
}

// TestHealthOfTheSilent asks a port that takes connections and says nothing.
func TestHealthOfTheSilent(t *testing.T) {
	t.Parallel() // it waits most of the time
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	addr := silent.Addr().String()
	f := func(want string, args ...string) {
		t.Helper()
		var stderr bytes.Buffer
		a := &app{&cli.App{Stderr: &stderr, Now: time.Now,
			Getenv: func(string) string { return "" }}}
		start := time.Now()
		code := a.run(t.Context(), append(args, "--addr", addr))
		if code != cli.ExitUnavailable || !strings.Contains(stderr.String(), want) ||
			time.Since(start) > 5*time.Minute {
			t.Errorf("%s: exit code %d after %s: %s", args, code, time.Since(start), &stderr)
		}
	}
	f(addr+": no answer within --wait 50ms", "health", "--wait", "50ms")
	f("not done after --timeout 50ms", "health", "--timeout", "50ms")
	f("not done after --timeout 50ms", "health", "--timeout", "50ms", "--wait", "1h")
}
