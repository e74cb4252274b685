package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
)

func (a *app) cursorCommand() *cobra.Command {
	c := cli.Group("cursor", "Manage positions of change readers",
		"  pentad cursor commit billing now-1h\n  pentad tail --cursor billing --once\n"+
			"  pentad cursor ls", a.cursorListCommand(), a.cursorShowCommand(),
		a.cursorCommitCommand(), a.cursorRemoveCommand())
	c.Long = `Manage positions of change readers, which the node stores by name. A reader has read everything
below the acq of its cursor and continues from there. pentad tail --cursor commits what it has
written; after a crash some records come again: delivery is at least once.`
	return c
}

func cursorColumns() []output.Column {
	return []output.Column{cli.Left("name"), cli.Left("acq"), cli.Right("behind"),
		cli.Left("committed"), cli.Left("question")}
}

func cursorRow(c client.Cursor) []output.Value {
	question := output.Null()
	if c.Question != "" {
		question = output.Text(c.Question)
	}
	return []output.Value{output.Text(c.Name), output.Time(c.AcqNs),
		output.Span(time.Duration(c.BehindNs)), output.Time(c.CommittedNs), question}
}

func (a *app) cursorListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List cursors and their lag",
		Args:  cli.NoCommand,
		Example: `  pentad cursor ls
  pentad cursor ls -o json`,
		RunE: func(c *cobra.Command, _ []string) error { return a.cursorList(c.Context()) },
	}
}

func (a *app) cursorList(ctx context.Context) error {
	return cli.List(ctx, a.App, (*client.Client).Cursors, cursorColumns(), cursorRow)
}

// withCursor connects, does something with one cursor, and shows it.
func (a *app) withCursor(
	ctx context.Context, do func(db *client.Client) (client.Cursor, error),
) error {
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := do(db)
	if err != nil {
		return err
	}
	return a.One(cursorColumns(), cursorRow(c)...)
}

func (a *app) cursorShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a cursor",
		Args:  cli.Arguments(1, 1, "the name"),
		Example: `  pentad cursor show billing
  pentad cursor show billing -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withCursor(c.Context(), func(db *client.Client) (client.Cursor, error) {
				return db.Cursor(c.Context(), args[0])
			})
		},
	}
}

func (a *app) cursorCommitCommand() *cobra.Command {
	force := false
	c := &cobra.Command{
		Use:   "commit NAME ACQ",
		Short: "Create a cursor, or move it forward",
		Long: `Create a cursor, or move it forward: its reader has read everything below ACQ, which is ns since
1970, a time, or now for the horizon. --force also moves it back, so that the reader gets again what
came since, and frees it of the question that tail has given it: the next run gives it its own.`,
		Args: cli.Arguments(2, 2, "the name and the acq"),
		Example: `  pentad cursor commit mirror now
  pentad cursor commit mirror 1790000000000000000 --force
  pentad cursor commit nightly now-1d`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withCursor(c.Context(), func(db *client.Client) (client.Cursor, error) {
				return a.commitCursor(c.Context(), db, args[0], args[1], force)
			})
		},
	}
	c.Flags().BoolVar(&force, "force", false, "move the cursor back, or to another question")
	return c
}

func (a *app) commitCursor(
	ctx context.Context, db *client.Client, name, acq string, force bool,
) (client.Cursor, error) {
	ns, err := a.parseSince(acq)
	if err == nil && ns == client.FromNow {
		ns, err = db.Horizon(ctx, nil)
	}
	if err != nil {
		return client.Cursor{}, err
	}
	return db.CommitCursor(ctx, name, ns, force)
}

// parseSince reads an acq to go on from: ns, a time, or now, which is the horizon.
func (a *app) parseSince(text string) (int64, error) {
	if text == "now" {
		return client.FromNow, nil
	}
	if ns, err := strconv.ParseInt(text, 10, 64); err == nil && ns != client.FromNow {
		return ns, nil
	}
	span, err := timeparse.Parse(text, a.Now())
	if err != nil {
		return 0, cli.Usagef("%q: not an acq; use ns, a time or now: %w", text, err)
	}
	return span.FromNs, nil
}

func (a *app) cursorRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a cursor",
		Args:  cli.Arguments(1, 1, "the name"),
		Example: `  pentad cursor rm mirror
  pentad cursor rm nightly -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			db, err := a.Connect(c.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			if err := db.RemoveCursor(c.Context(), args[0]); err != nil {
				return err
			}
			return a.One([]output.Column{cli.Left("removed")}, output.Text(args[0]))
		},
	}
}
