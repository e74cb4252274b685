package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
)

func (a *app) devicePurgeCommand() *cobra.Command {
	var f removeFlags
	c := &cobra.Command{
		Use:   "purge NAME",
		Short: "Remove a device with its readings permanently",
		Long: `Remove all of a device permanently: its readings, its descriptions, and the names that it has or
had. They disappear from every view at once, including views of the past, and the nodes remove their
bytes as those of pentad purge: pentad events reports when that is done. The name is free, and no
device gets the id. An id may be given in place of a name, e.g. of a device that was removed.

What remains: records that are stored later, copies in snapshots and older backups, the id in the
descriptions of a device that replaced it or that it replaced, the id in the events, and a record
that the device of this id was removed. After an error the same command goes on, best with the id,
as the name may be that of another device by then.`,
		Args: cli.Arguments(1, 1, "the name or the id of a device"),
		Example: `  pentad device purge --cid 1 oulu/t6 --dry-run
  pentad device purge --cid 1 oulu/t6 --yes`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.devicePurge(c.Context(), &f, args[0])
		},
	}
	tenantFlag(c, &f.cid)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "count what would be removed and change nothing")
	c.Flags().BoolVar(&f.yes, "yes", false, "confirm the removal")
	return c
}

func (a *app) devicePurge(ctx context.Context, f *removeFlags, name string) error {
	if err := checkTenant(f.cid); err != nil {
		return err
	}
	if !f.yes && !f.dryRun {
		return cli.Usagef("a purge is permanent: preview it with --dry-run, confirm it with --yes")
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	purge := (*client.Client).PurgeDevice
	if f.dryRun {
		purge = (*client.Client).PreviewPurge
	}
	p, err := purge(db, ctx, f.cid, name)
	if err != nil {
		again := "the same command goes on"
		if p.MID != 0 {
			again = fmt.Sprintf("the same command goes on, best with the id %d in place of the "+
				"name", p.MID)
		}
		return cli.Stopped(ctx, err, again)
	}
	columns := []output.Column{cli.Right("cid"), cli.Right("mid"), cli.Left("names"),
		cli.Right("records"), cli.Right("descriptions")}
	err = a.One(columns, output.Int(f.cid), output.Int(p.MID),
		output.Text(strings.Join(p.Names, ", ")), output.Count(p.Records),
		output.Count(p.Descriptions))
	if err == nil && !f.dryRun {
		a.Note("bytes are being removed; pentad events reports the progress")
	}
	return err
}
