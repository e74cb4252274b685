package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
)

func (a *app) cursorCommand() *cobra.Command {
	c := group("cursor", "Keep in the node how far readers of changes are",
		"  pentad cursor commit billing now-1h\n  pentad tail --cursor billing --once\n"+
			"  pentad cursor ls", a.cursorListCommand(), a.cursorShowCommand(),
		a.cursorCommitCommand(), a.cursorRemoveCommand())
	c.Long = `Keep in the node, under names, how far readers of changes are: a reader has everything below the acq
of its cursor, and goes on from there, for as long as it likes. pentad tail --cursor commits what it
has written, so what it was killed at comes again: each record at least once.`
	return c
}

func cursorColumns() []output.Column {
	return []output.Column{left("name"), left("acq"), right("behind"), left("committed")}
}

func cursorRow(c client.Cursor) []output.Value {
	return []output.Value{output.Text(c.Name), output.Time(c.AcqNs),
		output.Span(time.Duration(c.BehindNs)), output.Time(c.CommittedNs)}
}

func (a *app) cursorListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List cursors, and how far they are behind the horizon",
		Args:  noCommand,
		Example: `  pentad cursor ls
  pentad cursor ls -o json`,
		RunE: func(c *cobra.Command, _ []string) error { return a.cursorList(c.Context()) },
	}
}

func (a *app) cursorList(ctx context.Context) error {
	return list(ctx, a, (*client.Client).Cursors, cursorColumns(), cursorRow)
}

// withCursor connects, does something with one cursor, and shows it.
func (a *app) withCursor(
	ctx context.Context, do func(db *client.Client) (client.Cursor, error),
) error {
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := do(db)
	if err != nil {
		return err
	}
	return a.one(cursorColumns(), cursorRow(c)...)
}

func (a *app) cursorShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a cursor",
		Args:  arguments(1, 1, "the name"),
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
		Short: "Make a cursor, or move it forward",
		Long: `Make a cursor, or move it forward: its reader has everything below ACQ, which is ns since 1970 as
changes say it, a time, or now for the horizon. With --force it also moves back, and the reader gets
again what came since.`,
		Args: arguments(2, 2, "the name and the acq"),
		Example: `  pentad cursor commit mirror now
  pentad cursor commit mirror 1790000000000000000 --force
  pentad cursor commit nightly now-1d`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withCursor(c.Context(), func(db *client.Client) (client.Cursor, error) {
				return a.commitCursor(c.Context(), db, args[0], args[1], force)
			})
		},
	}
	c.Flags().BoolVar(&force, "force", false, "move it back, too")
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
	span, err := timeparse.Parse(text, a.now())
	if err != nil {
		return 0, usagef("%q: write ns, a time or now: %w", text, err)
	}
	return span.FromNs, nil
}

func (a *app) cursorRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Forget a cursor",
		Args:  arguments(1, 1, "the name"),
		Example: `  pentad cursor rm mirror
  pentad cursor rm nightly -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			db, err := a.connect(c.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			if err := db.RemoveCursor(c.Context(), args[0]); err != nil {
				return err
			}
			return a.one([]output.Column{left("removed")}, output.Text(args[0]))
		},
	}
}
