package backup

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
)

// SnapshotCommand returns pentad snapshot.
func SnapshotCommand(shared *cli.App) *cobra.Command {
	a := &app{shared}
	return cli.Group("snapshot", "Manage snapshots of a node",
		"  pentad snapshot create\n  pentad snapshot ls", a.snapshotCreateCommand(),
		a.snapshotListCommand(), a.snapshotRemoveCommand())
}

func (a *app) snapshotCreateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "create [NAME]",
		Short: "Create a snapshot",
		Long: `Create a snapshot in snapshots/NAME of the node's directory: hard links to its files, which take no
space until the node merges or deletes them. A snapshot contains every record acknowledged before.
It is a directory of a node: pentad serve --dir starts a node on it, in place or copied to another
host. The default name is the current time.`,
		Args: cli.Arguments(0, 1, "the name"),
		Example: `  pentad snapshot create
  pentad snapshot create before-the-upgrade -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			name := a.Now().UTC().Format("20060102-150405.000")
			if len(args) > 0 {
				name = args[0]
			}
			return a.snapshotCreate(c.Context(), name)
		},
	}
}

func (a *app) snapshotCreate(ctx context.Context, name string) error {
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	info, err := db.CreateSnapshot(ctx, name)
	if err != nil {
		return err
	}
	return a.One(snapshotColumns(), snapshotRow(info)...)
}

func snapshotColumns() []output.Column {
	return []output.Column{cli.Left("name"), cli.Left("created"), cli.Left("acq"),
		cli.Right("segments"), cli.Right("bytes"), cli.Right("took"), cli.Left("dir")}
}

func snapshotRow(info client.SnapshotInfo) []output.Value {
	return []output.Value{output.Text(info.Name), output.Time(info.CreatedNs),
		output.Time(info.AcqNs), output.Count(info.Segments), output.Bytes(info.Bytes),
		output.Span(time.Duration(info.TookNs)), output.Text(info.Dir)}
}

// damagedSnapshotRow is a row of the list of which only the ends are known.
func damagedSnapshotRow(info client.SnapshotInfo) []output.Value {
	row := make([]output.Value, len(snapshotColumns())) // of nulls
	row[0], row[len(row)-1] = output.Text(info.Name), output.Text(info.Dir)
	return append(row, output.Text(info.Damage))
}

func (a *app) snapshotListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List snapshots",
		Long: `List the snapshots of the node. A snapshot that cannot be read is listed with name, directory and
damage; pentad snapshot rm removes it.`,
		Args: cli.NoCommand,
		Example: `  pentad snapshot ls
  pentad snapshot ls -o json`,
		RunE: func(c *cobra.Command, _ []string) error { return a.snapshotList(c.Context()) },
	}
}

func (a *app) snapshotList(ctx context.Context) error {
	return cli.List(ctx, a.App, (*client.Client).Snapshots, append(snapshotColumns(),
		cli.Left("damage")), func(info client.SnapshotInfo) []output.Value {
		if info.Damage != "" {
			return damagedSnapshotRow(info)
		}
		return append(snapshotRow(info), output.Null())
	})
}

func (a *app) snapshotRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME",
		Short:   "Remove a snapshot",
		Args:    cli.Arguments(1, 1, "the name"),
		Example: `  pentad snapshot rm before-the-upgrade`,
		RunE: func(c *cobra.Command, args []string) error {
			db, err := a.Connect(c.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			if err := db.RemoveSnapshot(c.Context(), args[0]); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			a.Note("removed %s", args[0])
			return nil
		},
	}
}
