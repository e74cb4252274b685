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
)

// waitStep is the distance of two attempts of health --wait.
const waitStep = 100 * time.Millisecond

func (a *app) healthCommand() *cobra.Command {
	var wait durationFlag
	c := &cobra.Command{
		Use:   "health",
		Short: "Ask whether the node is well",
		Long: `Ask whether the node is well: exit code 0 if it is, 5 if it cannot be reached or is not
ready. --wait tries again until then, for scripts that have just started a node.`,
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
		return codeError{exitUnavailable, err}
	}
	return a.one([]output.Column{left("status"), left("addr"), right("took")}, output.Text("ok"),
		output.Text(a.addr), output.Span(took.Round(time.Microsecond)))
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
