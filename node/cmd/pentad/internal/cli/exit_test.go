package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/member"
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
	f(errors.New("anything"), ExitFailed)
	f(Usagef("wrong"), ExitUsage)
	f(&record.InvalidError{Part: "cid"}, ExitUsage)
	f(ErrEmpty, exitEmpty)
	f(CodeError{ExitPartial, errors.New("some")}, ExitPartial)
	f(context.DeadlineExceeded, ExitUnavailable)
	f(&url.Error{Op: "Get", Err: errors.New("refused")}, ExitUnavailable)
	f(&net.OpError{Op: "read", Err: errors.New("reset")}, ExitUnavailable)
	f(client.ErrAddress, ExitUsage)
	f(client.ErrNoEnd, ExitUnavailable)
	f(fmt.Errorf("open: %w", cluster.ErrOtherRules), ExitForbidden)
	for _, err := range []error{member.ErrRemoved, member.ErrReplaced, member.ErrSecondCluster} {
		f(fmt.Errorf("open: %w", err), ExitForbidden) // also when it ends while it is opened
	}
	f(&net.OpError{Op: "listen", Err: errors.New("in use")}, ExitFailed)
	f(&durable.CorruptError{File: "1.seg"}, ExitDamaged)
	f(durable.ErrNoSpace, ExitDisk)
	f(&os.PathError{Op: "write", Path: "1.log", Err: syscall.ENOSPC}, ExitDisk)
	f(&os.PathError{Op: "write", Path: "1.log", Err: syscall.EFBIG}, ExitDisk)
	for kind, want := range map[wire.Kind]int{
		wire.KindForbidden: ExitForbidden, wire.KindDamaged: ExitDamaged,
		wire.KindTimeout: ExitUnavailable, wire.KindOverloaded: ExitUnavailable,
		wire.KindUnavailable: ExitUnavailable, wire.KindUnknownPlugin: ExitFailed,
		wire.KindInternal: ExitFailed, wire.KindPluginFailed: ExitFailed,
		wire.KindInvalid: ExitFailed, wire.KindTooLarge: ExitFailed,
	} {
		f(&wire.Error{Kind: kind}, want)
	}
}

// TestErrorIsOneLine gives an error of several lines.
func TestErrorIsOneLine(t *testing.T) {
	one := errors.New("one")
	text := (&App{}).explain(t.Context(), errors.Join(one, one, errors.New("two")))
	if text != "one; two" {
		t.Errorf("%q", text)
	}
}

// TestEnding: what is logged agrees with what the error says to do.
func TestEnding(t *testing.T) {
	for err, want := range map[error]int{member.ErrRemoved: ExitForbidden,
		member.ErrReplaced: ExitForbidden, member.ErrSecondCluster: ExitForbidden,
		cluster.ErrOtherRules: ExitForbidden, member.ErrClock: ExitClock,
		errors.New("sync of the log"): ExitDisk} {
		message, code := Ending(fmt.Errorf("node 7: %w", err))
		again := strings.HasSuffix(message, "start it again")
		if code != want || again == (want == ExitForbidden) {
			t.Errorf("%v: %q, exit code %d, want %d", err, message, code, want)
		}
	}
	for err, want := range map[error]string{
		syscall.ENOSPC: "the node ends; free some space or enlarge the disk, then start it again",
		syscall.EDQUOT: "the node ends; free some space or raise the quota, then start it again",
	} {
		message, code := Ending(fmt.Errorf("group 7: %w", err))
		if message != want || code != ExitDisk {
			t.Errorf("%v: %q, exit code %d; want %q", err, message, code, want)
		}
	}
}

// TestWords: a person reads words and not the codes of the protocol.
func TestWords(t *testing.T) {
	f := func(err error, want string) {
		t.Helper()
		if text := (&App{}).explain(t.Context(), err); text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
	failed := &wire.Error{Kind: wire.KindPluginFailed, Message: "plugin \"mean\": no\nnumber"}
	f(failed, `plugin "mean": no; number`)
	f(fmt.Errorf("group 7: %w; try again", failed), `group 7: plugin "mean": no; number; try again`)
	f(errors.Join(&wire.Error{Kind: wire.KindNotFound, Message: "quantity 1 is not declared"},
		fmt.Errorf("close: %w", &wire.Error{Kind: wire.KindInternal, Message: "sync failed"})),
		"quantity 1 is not declared; close: the node failed: sync failed")
	f(&wire.Error{Kind: wire.KindUnavailable, Message: "it is closing"},
		"the node is not available: it is closing")
	f(&wire.Error{Kind: wire.KindDamaged, Message: "1.seg"}, "damaged: 1.seg")
}
