package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// waitStep is the distance of two attempts of health --wait.
const waitStep = 100 * time.Millisecond

func (a *app) healthCommand() *cobra.Command {
	var wait durationFlag
	c := &cobra.Command{
		Use:   "health",
		Short: "Show whether the node is ready, and its problems",
		Long: `Show whether the node is ready for requests, and every problem that it has: a full disk, a log that
failed, a group without a leader. Exit code 0: it is ready; 5: it cannot be reached or is not ready.
Problems that leave it ready are shown and do not change the exit code. --wait tries again until the
node is ready, for scripts that have just started it. sdk/docs/health.md lists the problems.`,
		Args: noCommand,
		Example: `  pentad health
  pentad health -o json
  pentad health --wait 20s --addr 127.0.0.1:5151`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.health(c.Context(), time.Duration(wait))
		},
	}
	c.Flags().Var(&wait, "wait", "try again for this long")
	return c
}

func (a *app) health(ctx context.Context, wait time.Duration) error {
	waiting := ctx
	if wait > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, wait, fmt.Errorf(
			"%s does not answer within --wait %s: %w", a.addr, wait, context.DeadlineExceeded))
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
		return codeError{exitUnavailable, err}
	}
	status := "ok"
	if a.noteProblems(ctx) > 0 {
		status = "problems"
	}
	return a.one([]output.Column{left("status"), left("addr"), right("took")}, output.Text(status),
		output.Text(a.addr), output.Span(took.Round(time.Microsecond)))
}

// noteProblems writes the problems of the node to stderr, and returns how many there are. A node
// that does not answer has none that are known.
func (a *app) noteProblems(ctx context.Context) int {
	db, err := a.connect(ctx)
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
		a.note("%s%s, since %s: %s; %s", p.Code, subject, record.FormatNs(p.SinceNs), p.Message,
			p.Advice)
	}
	return len(h.Problems)
}

func (a *app) askHealth(ctx context.Context) (time.Duration, error) {
	start := a.now()
	db, err := a.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.Health(ctx)
	return a.now().Sub(start), err
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  noCommand,
		Example: `  pentad version
  pentad version -o json`,
		RunE: func(*cobra.Command, []string) error {
			info, _ := debug.ReadBuildInfo()
			commit, goVersion := "", ""
			if info != nil {
				goVersion = info.GoVersion
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						commit = s.Value
					}
				}
			}
			return a.one([]output.Column{left("version"), left("commit"), left("go")},
				output.Text(version()), output.Text(commit), output.Text(goVersion))
		},
	}
}

// version is the version of the module that this program was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}
