package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
)

func (a *app) snapshotCommand() *cobra.Command {
	return group("snapshot", "Keep the state of a node as it is now",
		"  pentad snapshot create\n  pentad snapshot ls", a.snapshotCreateCommand(),
		a.snapshotListCommand(), a.snapshotRemoveCommand())
}

func (a *app) snapshotCreateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "create [NAME]",
		Short: "Make a snapshot, in less than a second",
		Long: `Make a snapshot under snapshots/NAME in the node's directory: hard links to its files, which
take no room until the node merges or deletes what they hold. It has every record that was
acknowledged before, and is the directory of a node: pentad serve --dir starts one on it, copied to
another machine or where it lies. Without a name it gets one of the time.`,
		Args: arguments(0, 1, "the name"),
		Example: `  pentad snapshot create
  pentad snapshot create before-the-upgrade -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			name := a.now().UTC().Format("20060102-150405.000")
			if len(args) > 0 {
				name = args[0]
			}
			return a.snapshotCreate(c.Context(), name)
		},
	}
}

func (a *app) snapshotCreate(ctx context.Context, name string) error {
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	info, err := db.CreateSnapshot(ctx, name)
	if err != nil {
		return err
	}
	return a.one(snapshotColumns(), snapshotRow(info)...)
}

func snapshotColumns() []output.Column {
	return []output.Column{left("name"), left("created"), left("acq"), right("segments"),
		right("bytes"), right("took"), left("dir")}
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
		Short: "List the snapshots of the node",
		Long: `List the snapshots of the node. Of one that cannot be read only the name, the directory and
the damage are known; pentad snapshot rm removes it.`,
		Args: noCommand,
		Example: `  pentad snapshot ls
  pentad snapshot ls -o json`,
		RunE: func(c *cobra.Command, _ []string) error { return a.snapshotList(c.Context()) },
	}
}

func (a *app) snapshotList(ctx context.Context) error {
	return list(ctx, a, (*client.Client).Snapshots, append(snapshotColumns(), left("damage")),
		func(info client.SnapshotInfo) []output.Value {
			if info.Damage != "" {
				return damagedSnapshotRow(info)
			}
			return append(snapshotRow(info), output.Null())
		})
}

func (a *app) snapshotRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME",
		Short:   "Remove a snapshot, and give back what room only it takes",
		Args:    arguments(1, 1, "the name"),
		Example: `  pentad snapshot rm before-the-upgrade`,
		RunE: func(c *cobra.Command, args []string) error {
			db, err := a.connect(c.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			if err := db.RemoveSnapshot(c.Context(), args[0]); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			a.note("removed %s", args[0])
			return nil
		},
	}
}
