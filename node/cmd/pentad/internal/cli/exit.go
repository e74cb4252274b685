package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/nodesync"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Exit codes. They are documented in the help of pentad and never change their meaning.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	exitEmpty       = 3
	ExitForbidden   = 4
	ExitUnavailable = 5
	ExitPartial     = 6
	ExitDamaged     = 7
	ExitDisk        = 75
	ExitClock       = 76
	ExitInterrupted = 130
)

// UsageError is a command line that cannot be run as it stands.
type UsageError struct{ error }

func (e UsageError) Unwrap() error { return e.error }

// Usagef is a usage error with a text.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// CodeError carries an exit code that the error alone does not tell.
type CodeError struct {
	code int
	error
}

func (e CodeError) Unwrap() error { return e.error }

// StoppedError is a command that a signal or --timeout stopped: how far it came, and what to do.
type StoppedError struct {
	Done string // e.g. "12 of 20 lines stored; run the same command to continue"
	err  error
}

// Error implements error.
func (e *StoppedError) Error() string { return e.err.Error() + ": " + e.Done }

// Unwrap returns what stopped the command.
func (e *StoppedError) Unwrap() error { return e.err }

// Stopped says how far a command came if its context has ended; otherwise it returns err as it is.
func Stopped(ctx context.Context, err error, done string) error {
	cause := context.Cause(ctx)
	switch {
	case err == nil || cause == nil || errors.As(err, new(*StoppedError)):
		return err
	case !errors.Is(err, cause): // what else went wrong follows from the end
		err = cause
	}
	return &StoppedError{done, err}
}

// ErrEmpty ends a command that --fail-empty was given to.
var ErrEmpty = CodeError{exitEmpty, errors.New("nothing matched")}

// exitCode chooses the code of an error.
func exitCode(ctx context.Context, err error) int {
	var usage UsageError
	var code CodeError
	var remote *wire.Error
	switch {
	case errors.As(err, &usage), errors.As(err, new(*record.InvalidError)),
		errors.Is(err, client.ErrAddress):
		return ExitUsage
	case errors.As(err, &code):
		return code.code
	case ctx.Err() != nil:
		return ExitInterrupted
	case errors.As(err, &remote):
		return remoteCode(remote)
	case errors.Is(err, member.ErrRemoved), errors.Is(err, member.ErrReplaced),
		errors.Is(err, member.ErrSecondCluster), errors.Is(err, cluster.ErrOtherRules),
		formats.Is(err):
		return ExitForbidden
	case durable.IsNoSpace(err):
		return ExitDisk
	case errors.As(err, new(*durable.CorruptError)), errors.As(err, new(*exchange.DamageError)):
		return ExitDamaged
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, client.ErrNoEnd),
		IsTransport(err):
		return ExitUnavailable
	}
	return ExitFailed
}

// Ending returns what is logged of an error that ends a node, and its exit code. Where the node
// must not be started again as it was, the error says how.
func Ending(err error) (message string, code int) {
	const asBefore = "the node ends; do not start it again as before"
	switch {
	case errors.Is(err, member.ErrRemoved), errors.Is(err, member.ErrReplaced),
		errors.Is(err, member.ErrSecondCluster), errors.Is(err, cluster.ErrOtherRules):
		return asBefore, ExitForbidden
	case errors.Is(err, member.ErrClock):
		return "the node ends; set the clock right, then start it again", ExitClock
	case durable.IsNoSpace(err):
		return "the node ends; " + durable.SpaceAdvice(err) + ", then start it again", ExitDisk
	}
	return "the node ends; start it again", ExitDisk
}

func remoteCode(e *wire.Error) int {
	switch {
	case e.Kind == wire.KindForbidden:
		return ExitForbidden
	case e.Kind == wire.KindDamaged:
		return ExitDamaged
	case e.Kind == wire.KindTimeout || e.Kind.Temporary():
		return ExitUnavailable
	}
	return ExitFailed
}

// IsTransport reports whether an error arose between here and the node.
func IsTransport(err error) bool {
	var operation *net.OpError
	if errors.As(err, &operation) {
		return operation.Op != "listen"
	}
	return errors.As(err, new(*url.Error))
}

// explain puts an error on one line and says what can be done.
func (a *App) explain(ctx context.Context, err error) string {
	lines := slices.Compact(strings.Split(inWords(err), "\n")) // one cause may end two things
	text := strings.Join(strings.Fields(strings.Join(lines, "; ")), " ")
	switch exitCode(ctx, err) {
	case ExitInterrupted:
		if stopped := (*StoppedError)(nil); errors.As(err, &stopped) {
			return "interrupted: " + stopped.Done
		}
		return "interrupted"
	case exitEmpty:
		return "" // --fail-empty asks for the code alone
	case ExitUnavailable:
		if IsTransport(err) && !errors.Is(err, context.DeadlineExceeded) {
			if request := (*url.Error)(nil); errors.As(err, &request) {
				text = strings.Replace(text, request.Error(),
					"reach the node: "+request.Err.Error(), 1)
			}
			return text +
				" (is the node running? start one with pentad serve, or set --addr or PENTAD_ADDR)"
		}
	}
	return text
}

// CopyError gives a copy that differs the exit code of damage.
func CopyError(err error) error {
	if errors.Is(err, nodesync.ErrDiffers) {
		return CodeError{ExitDamaged, err}
	}
	return err
}

// Usage makes an error one of the command line, which ends with ExitUsage.
func Usage(err error) error { return UsageError{err} }

// Coded gives an error an exit code.
func Coded(code int, err error) error { return CodeError{code, err} }
