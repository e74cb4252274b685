package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// waitStep is the distance of two attempts of health --wait.
const waitStep = 100 * time.Millisecond

func (a *app) healthCommand() *cobra.Command {
	var wait cli.DurationFlag
	c := &cobra.Command{
		Use:   "health",
		Short: "Show readiness and problems of a node",
		Long: `Show whether the node is ready for requests, and all of its problems: e.g. a full disk, a failed
log, a group without a leader. Exit code 0: ready; 5: unreachable or not ready. Problems of a ready
node do not change the exit code. --wait retries until the node is ready, for scripts that have just
started it. sdk/docs/health.md lists the problems.`,
		Args: cli.NoCommand,
		Example: `  pentad health
  pentad health -o json
  pentad health --wait 20s --addr 127.0.0.1:5151`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.health(c.Context(), time.Duration(wait))
		},
	}
	c.Flags().Var(&wait, "wait", "keep trying for this long until the node is ready, e.g. 20s")
	return c
}

func (a *app) health(ctx context.Context, wait time.Duration) error {
	waiting := ctx
	if wait > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, wait, fmt.Errorf(
			"%s: no answer within --wait %s: %w", a.Addr, wait, context.DeadlineExceeded))
		defer cancel()
	}
	took, err := a.askHealth(waiting)
	for wait > 0 && err != nil && !errors.Is(err, client.ErrAddress) && waiting.Err() == nil {
		select {
		case <-waiting.Done():
			continue
		case <-time.After(waitStep):
		}
		next, nextErr := a.askHealth(waiting)
		if nextErr == nil || waiting.Err() == nil { // else the reason before says more
			took, err = next, nextErr
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		a.noteProblems(ctx)
		return cli.Coded(cli.ExitUnavailable, err)
	}
	status := "ok"
	if a.noteProblems(ctx) > 0 {
		status = "problems"
	}
	return a.One([]output.Column{cli.Left("status"), cli.Left("addr"), cli.Right("took")},
		output.Text(status), output.Text(a.Addr), output.Span(took.Round(time.Microsecond)))
}

// noteProblems writes the problems of the node to stderr, and returns how many there are. A node
// that does not answer has none that are known.
func (a *app) noteProblems(ctx context.Context) int {
	db, err := a.Connect(ctx)
	if err != nil {
		return 0
	}
	defer db.Close()
	h, err := db.NodeHealth(ctx)
	if err != nil {
		return 0
	}
	for _, p := range h.Problems {
		subject := ""
		if p.Subject != "" {
			subject = ", " + p.Subject
		}
		a.Note("%s%s, since %s: %s; %s", p.Code, subject, record.FormatNs(p.SinceNs), p.Message,
			p.Advice)
	}
	return len(h.Problems)
}

func (a *app) askHealth(ctx context.Context) (time.Duration, error) {
	start := a.Now()
	db, err := a.Connect(ctx)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.Health(ctx)
	return a.Now().Sub(start), err
}
