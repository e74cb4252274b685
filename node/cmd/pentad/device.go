package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/registry"
)

func (a *app) deviceCommand() *cobra.Command {
	c := cli.Group("device", "Manage names and descriptions of devices",
		"  pentad device name --cid 1 oulu/t7 oulu/t8\n"+
			"  pentad device set --cid 1 oulu/t7 --type thermometer --group oulu/building-7\n"+
			"  pentad get --cid 1 --select 'type=thermometer, group^=oulu/' --names mid",
		a.deviceNameCommand(), a.deviceSetCommand(), a.deviceImportCommand(),
		a.deviceExportCommand(), a.deviceShowCommand(), a.deviceListCommand(),
		a.deviceHistoryCommand(), a.deviceRenameCommand(), a.deviceReplaceCommand(),
		a.deviceRemoveCommand(), a.devicePurgeCommand())
	c.Long = `Manage names and descriptions of devices. A name belongs to a tenant and has one id, its mid, which the node gives
when the name is first used, by device name or by an import csv with a lookup. It keeps the id.

Names are stored as records that queries do not show: replicas, copies, synchronized nodes and
backups have them. Selectors take a name in place of a mid if they choose one tenant.

` + selectHelp
	return c
}

const selectHelp = `A description says what is known of a device. Queries of one tenant select devices by it:
  --select 'type=thermometer, group^=oulu/building-7/, floor=2..4, !retired'
Conditions are joined by commas or "and", which bind more closely than "or"; "!" or "not" negates,
parentheses group:
  type=meter   owner!=acme           a text, a number or a boolean
  indoor                             a boolean that is true
  floor=2..4   floor=2..=4           a number without, or with, the end of the range
  floor>=2     alt<100               alt is the altitude in metres
  name^=oulu/t   group^=oulu/        a text that begins so; a group begins so with all in it
  owner in (acme, "beta gmbh")
  within(65.00,25.40,65.10,25.55)    south,west,north,east in degrees
  near(65.06,25.47,500m)             latitude,longitude,distance in m or km
A device has the description that is from the latest time; with --asof, as known then.`

// tenantFlag is the flag of commands about one tenant.
func tenantFlag(c *cobra.Command, cid *int32) {
	*cid = -1
	c.Flags().Var(&cli.TenantFlag{CID: cid}, "cid", "tenant of the devices, e.g. 1 or acme")
}

func checkTenant(cid int32) error {
	if cid < 0 {
		return cli.Usagef("--cid is required: names of devices are those of a tenant, e.g. --cid 1")
	}
	return nil
}

func (a *app) deviceNameCommand() *cobra.Command {
	var cid int32
	c := &cobra.Command{
		Use:   "name NAME...",
		Short: "Create devices by name",
		Long: `Give ids to names of devices, and show them. Names that have an id keep it. New ids follow each
other.`,
		Args: cli.Arguments(1, 1<<20, "the name of a device"),
		Example: `  pentad device name --cid 1 oulu/t7
  pentad device name --cid 1 "meter 4711" "meter 4712" -o csv
  pentad device name --cid 2 oulu/t7 -o json`,
		RunE: func(c *cobra.Command, names []string) error {
			return a.deviceName(c.Context(), cid, names)
		},
	}
	tenantFlag(c, &cid)
	return c
}

func (a *app) deviceName(ctx context.Context, cid int32, names []string) error {
	if err := checkTenant(cid); err != nil {
		return err
	}
	for _, name := range names {
		if err := registry.CheckName(name); err != nil {
			return cli.Usage(err)
		}
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	ids, created, err := db.NameDevices(ctx, cid, names)
	if err != nil {
		return err
	}
	w, err := a.Writer(false, deviceColumns()...)
	if err != nil {
		return err
	}
	for i, name := range names {
		if err := w.Row(output.Int(cid), output.Int(ids[i]), output.Text(name)); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	a.Note("%s new", output.Counted(int64(created), "names"))
	return nil
}

func deviceColumns() []output.Column {
	return []output.Column{cli.Right("cid"), cli.Right("mid"), cli.Left("name")}
}
