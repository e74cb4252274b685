package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Exit codes. They are documented in rootHelp and never change their meaning.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitEmpty       = 3
	exitForbidden   = 4
	exitUnavailable = 5
	exitPartial     = 6
	exitDamaged     = 7
	exitDisk        = 75
	exitClock       = 76
	exitInterrupted = 130
)

// usageError is a command line that cannot be run as it stands.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// codeError carries an exit code that the error alone does not tell.
type codeError struct {
	code int
	error
}

func (e codeError) Unwrap() error { return e.error }

// errEmpty ends a command that --fail-empty was given to.
var errEmpty = codeError{exitEmpty, errors.New("nothing matched")}

// exitCode chooses the code of an error.
func exitCode(ctx context.Context, err error) int {
	var usage usageError
	var code codeError
	var remote *wire.Error
	switch {
	case errors.As(err, &usage), errors.As(err, new(*record.InvalidError)),
		errors.Is(err, client.ErrAddress):
		return exitUsage
	case errors.As(err, &code):
		return code.code
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &remote):
		return remoteCode(remote)
	case errors.Is(err, cluster.ErrOtherRules), formats.Is(err):
		return exitForbidden
	case errors.Is(err, durable.ErrNoSpace), errors.Is(err, syscall.ENOSPC):
		return exitDisk
	case errors.As(err, new(*segment.CorruptError)), errors.As(err, new(*exchange.DamageError)):
		return exitDamaged
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, client.ErrNoEnd),
		isTransport(err):
		return exitUnavailable
	}
	return exitFailed
}

// ending returns what is logged of an error that ends a node, and its exit code. Where the node
// must not be started again as it was, the error says how.
func ending(err error) (message string, code int) {
	const asBefore = "the node ends; do not start it again as before"
	switch {
	case errors.Is(err, member.ErrRemoved), errors.Is(err, member.ErrReplaced),
		errors.Is(err, member.ErrSecondCluster), errors.Is(err, cluster.ErrOtherRules):
		return asBefore, exitForbidden
	case errors.Is(err, member.ErrClock):
		return "the node ends; set the clock right, then start it again", exitClock
	}
	return "the node ends; start it again", exitDisk
}

func remoteCode(e *wire.Error) int {
	switch {
	case e.Kind == wire.KindForbidden:
		return exitForbidden
	case e.Kind == wire.KindDamaged:
		return exitDamaged
	case e.Kind == wire.KindTimeout || e.Kind.Temporary():
		return exitUnavailable
	}
	return exitFailed
}

// isTransport reports whether an error arose between here and the node.
func isTransport(err error) bool {
	var operation *net.OpError
	if errors.As(err, &operation) {
		return operation.Op != "listen"
	}
	return errors.As(err, new(*url.Error))
}

// explain puts an error on one line and says what can be done.
func (a *app) explain(ctx context.Context, err error) string {
	lines := slices.Compact(strings.Split(err.Error(), "\n")) // one cause may end two things
	text := strings.Join(strings.Fields(strings.Join(lines, "; ")), " ")
	switch exitCode(ctx, err) {
	case exitInterrupted:
		return "interrupted"
	case exitEmpty:
		return "" // --fail-empty asks for the code alone
	case exitUnavailable:
		if isTransport(err) && !errors.Is(err, context.DeadlineExceeded) {
			if request := (*url.Error)(nil); errors.As(err, &request) {
				text = strings.Replace(text, request.Error(),
					"reach the node: "+request.Err.Error(), 1)
			}
			return text + " (is a node running there? start one: pentad serve; another address: " +
				"--addr or PENTAD_ADDR)"
		}
	}
	return text
}
