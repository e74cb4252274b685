package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

func TestExitCode(t *testing.T) {
	f := func(err error, want int) {
		t.Helper()
		for _, wrapped := range []error{err, fmt.Errorf("doing a thing: %w", err)} {
			if got := exitCode(t.Context(), wrapped); got != want {
				t.Errorf("%v: exit code %d, want %d", wrapped, got, want)
			}
		}
	}
	f(errors.New("anything"), exitFailed)
	f(usagef("wrong"), exitUsage)
	f(&record.InvalidError{Part: "cid"}, exitUsage)
	f(errEmpty, exitEmpty)
	f(codeError{exitPartial, errors.New("some")}, exitPartial)
	f(context.DeadlineExceeded, exitUnavailable)
	f(&url.Error{Op: "Get", Err: errors.New("refused")}, exitUnavailable)
	f(&net.OpError{Op: "read", Err: errors.New("reset")}, exitUnavailable)
	f(client.ErrAddress, exitUsage)
	f(client.ErrNoEnd, exitUnavailable)
	f(fmt.Errorf("open: %w", cluster.ErrOtherRules), exitForbidden)
	f(&net.OpError{Op: "listen", Err: errors.New("in use")}, exitFailed)
	f(&segment.CorruptError{File: "1.seg"}, exitDamaged)
	f(durable.ErrNoSpace, exitDisk)
	f(&os.PathError{Op: "write", Path: "1.log", Err: syscall.ENOSPC}, exitDisk)
	for kind, want := range map[wire.Kind]int{
		wire.KindForbidden: exitForbidden, wire.KindDamaged: exitDamaged,
		wire.KindTimeout: exitUnavailable, wire.KindOverloaded: exitUnavailable,
		wire.KindUnavailable: exitUnavailable, wire.KindUnknownPlugin: exitFailed,
		wire.KindInternal: exitFailed, wire.KindPluginFailed: exitFailed,
		wire.KindInvalid: exitFailed, wire.KindTooLarge: exitFailed,
	} {
		f(&wire.Error{Kind: kind}, want)
	}
}

// TestEnding: what is logged agrees with what the error says to do.
func TestEnding(t *testing.T) {
	for err, want := range map[error]int{member.ErrRemoved: exitForbidden,
		member.ErrReplaced: exitForbidden, member.ErrSecondCluster: exitForbidden,
		cluster.ErrOtherRules: exitForbidden, member.ErrClock: exitClock,
		errors.New("sync of the log"): exitDisk} {
		message, code := ending(fmt.Errorf("node 7: %w", err))
		again := strings.HasSuffix(message, "start it again")
		if code != want || again == (want == exitForbidden) {
			t.Errorf("%v: %q, exit code %d, want %d", err, message, code, want)
		}
	}
}

// TestInterrupted runs a command whose signal has come.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, now: time.Now,
		getenv: func(string) string { return "" }}
	if code := a.run(ctx, []string{"count"}); code != exitInterrupted ||
		stderr.String() != "pentad: count: interrupted\n" || stdout.Len() > 0 {
		t.Errorf("exit code %d, stderr %q, stdout %q", code, &stderr, &stdout)
	}
}

// TestHealthOfTheSilent asks a port that takes connections and says nothing.
func TestHealthOfTheSilent(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	addr := silent.Addr().String()
	f := func(want string, args ...string) {
		t.Helper()
		var stderr bytes.Buffer
		a := &app{stderr: &stderr, now: time.Now, getenv: func(string) string { return "" }}
		start := time.Now()
		code := a.run(t.Context(), append(args, "--addr", addr))
		if code != exitUnavailable || !strings.Contains(stderr.String(), want) ||
			time.Since(start) > 5*time.Minute {
			t.Errorf("%s: exit code %d after %s: %s", args, code, time.Since(start), &stderr)
		}
	}
	f(addr+" does not answer within --wait 50ms", "health", "--wait", "50ms")
	f("not done after --timeout 50ms", "health", "--timeout", "50ms")
	f("not done after --timeout 50ms", "health", "--timeout", "50ms", "--wait", "1h")
}

// TestErrorIsOneLine gives an error of several lines.
func TestErrorIsOneLine(t *testing.T) {
	one := errors.New("one")
	text := (&app{}).explain(t.Context(), errors.Join(one, one, errors.New("two")))
	if text != "one; two" {
		t.Errorf("%q", text)
	}
}

func TestParseGroup(t *testing.T) {
	f := func(text string, want record.GroupBy) {
		t.Helper()
		if got, err := parseGroup(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	f("", record.GroupBy{})
	f("cid", record.GroupBy{CID: true})
	f("mid, moid,cap=15m", record.GroupBy{MID: true, MOID: true, CapBucketNs: 15 * 60 * 1e9})
	f("cap=1d", record.GroupBy{CapBucketNs: 86400 * 1e9})
	f("cap=1000", record.GroupBy{CapBucketNs: 1000})
	for _, text := range []string{"day", "cid=1", "cap", "cap=", "cap=0", "cap=-1h", "cid,,mid"} {
		if got, err := parseGroup(text); err == nil {
			t.Errorf("%q is taken: %+v", text, got)
		}
	}
}
