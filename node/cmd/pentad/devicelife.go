package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/registry"
)

func (a *app) deviceRenameCommand() *cobra.Command {
	var cid int32
	var from string
	c := &cobra.Command{
		Use:   "rename OLD NEW",
		Short: "Move a device to another name",
		Long: `Move a device to another name. It keeps its id, its readings and its descriptions, and has a new
version of its description with the new name, and of later ones. The old name is free: device name
would give it a new id. As of an earlier time the device has its old name.`,
		Args: cli.Arguments(2, 2, "the old and the new name of a device"),
		Example: `  pentad device rename --cid 1 oulu/t1 oulu/t001
  pentad device rename --cid 1 oulu/t2 oulu/t002 --from 2024-05-01
  pentad device rename --cid 1 oulu/t3 oulu/t003 -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.deviceRename(c.Context(), cid, args[0], args[1], from)
		},
	}
	tenantFlag(c, &cid)
	c.Flags().StringVar(&from, "from", "now",
		"time from which the description has the new name, e.g. 2026-11-21")
	return c
}

func (a *app) deviceRename(ctx context.Context, cid int32, old, name, from string) error {
	db, fromNs, err := a.connectFrom(ctx, cid, name, "--from", from)
	if err != nil {
		return err
	}
	defer db.Close()
	mid, err := db.RenameDevice(ctx, cid, old, name, fromNs)
	if err != nil {
		return err
	}
	return a.One(deviceColumns(), output.Int(cid), output.Int(mid), output.Text(name))
}

// connectFrom checks what a command says of a name that a device is to have from a time on, which a
// flag has, and connects.
func (a *app) connectFrom(
	ctx context.Context, cid int32, name, flag, from string,
) (db *client.Client, fromNs int64, err error) {
	if fromNs, err = a.heldFrom(flag, from); err != nil {
		return nil, 0, err
	}
	if err := checkTenant(cid); err != nil {
		return nil, 0, err
	}
	if err := registry.CheckName(name); err != nil {
		return nil, 0, cli.Usage(err)
	}
	db, err = a.Connect(ctx)
	return db, fromNs, err
}

// removeFlags say what of a device is removed.
type removeFlags struct {
	cid         int32
	description string
	dryRun, yes bool
}

func (a *app) deviceRemoveCommand() *cobra.Command {
	var f removeFlags
	c := &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a name with its descriptions, or one of these",
		Long: `Remove a name and delete all descriptions of its device: no selector finds it any longer. Its
readings stay under its id, which the answer has; pentad erase --mid hides them, and device purge
removes all of it for ever. The name is free: device name would give it a new
id. As of an earlier time the device has its name and descriptions.

--description FROM deletes only the description that is from that time, a new version of which says
so: the one before it holds in its place. A device that is out of use stays in the registry with
device set --retired.`,
		Args: cli.Arguments(1, 1, "the name of a device"),
		Example: `  pentad device rm --cid 1 oulu/t4 --dry-run
  pentad device rm --cid 1 oulu/t4 --yes
  pentad device rm --cid 1 oulu/t5 --description 2024-05-01 --yes`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.deviceRemove(c.Context(), &f, args[0])
		},
	}
	tenantFlag(c, &f.cid)
	c.Flags().Var((*cli.FilledFlag)(&f.description), "description",
		"only the description that is from this time, e.g. 2026-11-21")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what would be removed and change nothing")
	c.Flags().BoolVar(&f.yes, "yes", false, "confirm the removal")
	return c
}

func (a *app) deviceRemove(ctx context.Context, f *removeFlags, name string) error {
	if !f.yes && !f.dryRun {
		return cli.Usagef("selectors and names no longer find a device that is removed: preview " +
			"it with --dry-run, confirm it with --yes")
	}
	var only int64
	if f.description != "" {
		span, err := timeparse.ParseDated(f.description, a.Now().UTC())
		if err != nil {
			return cli.Usagef("--description: %w", err)
		}
		only = span.FromNs
	}
	db, mid, err := a.findDevice(ctx, f.cid, name, client.When{})
	if err != nil {
		return err
	}
	defer db.Close()
	all, err := db.DeviceDescriptions(ctx, f.cid, mid)
	if err != nil {
		return err
	}
	descriptions := len(all)
	switch {
	case f.description != "":
		descriptions = 0
		for i := range all {
			if all[i].FromNs == only {
				descriptions++
			}
		}
		if descriptions == 0 {
			return fmt.Errorf("%s has no description from %s; pentad device show lists them", name,
				timeparse.Format(only))
		}
		if !f.dryRun {
			_, err = db.RemoveDescription(ctx, f.cid, name, only)
		}
	case !f.dryRun:
		_, descriptions, err = db.RemoveDevice(ctx, f.cid, name)
	}
	if err != nil {
		return err
	}
	columns := append(deviceColumns(), cli.Right("descriptions"))
	return a.One(columns, output.Int(f.cid), output.Int(mid), output.Text(name),
		output.Count(descriptions))
}

func (a *app) deviceReplaceCommand() *cobra.Command {
	var cid int32
	var at string
	c := &cobra.Command{
		Use:   "replace OLD NEW",
		Short: "Store that a device took the place of another",
		Long: `Store that one device took the place of another, as at the exchange of a meter. From --at on the old
device is retired, and the new one, which is created if needed, is in use and has the type, group,
place and attributes of the old one that it does not have itself; a device that was replaced may be
put back. --at may not be before the first description of the old one. Each keeps its name, its id
and its own readings. Their descriptions name each other (device history: replaces, replaced_by),
and have the same attribute connection: that of one of them, or the name of the old one. By it
windows --agg delta --group connection has one row for both: what each register counted, added up.`,
		Args: cli.Arguments(2, 2, "the old and the new device"),
		Example: `  pentad device replace --cid 1 meter/4711 meter/4712
  pentad device replace --cid 1 meter/4711 meter/4712 --at 2024-05-01T10:30:00Z
  pentad device replace --cid 1 meter/4711 meter/4712 --at 2024-05-01 -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.deviceReplace(c.Context(), cid, args[0], args[1], at)
		},
	}
	tenantFlag(c, &cid)
	c.Flags().StringVar(&at, "at", "now", "time of the exchange, e.g. 2026-11-21T10:30:00Z")
	return c
}

func (a *app) deviceReplace(ctx context.Context, cid int32, old, name, at string) error {
	db, atNs, err := a.connectFrom(ctx, cid, name, "--at", at)
	if err != nil {
		return err
	}
	defer db.Close()
	oldMID, mid, err := db.ReplaceDevice(ctx, cid, old, name, atNs)
	if err != nil {
		return err
	}
	columns := append(deviceColumns(), cli.Right("replaces"), cli.Left("at"))
	return a.One(columns, output.Int(cid), output.Int(mid), output.Text(name), output.Int(oldMID),
		output.Time(atNs))
}
