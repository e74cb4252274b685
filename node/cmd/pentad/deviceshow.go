package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/devicefile"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/registry"
)

// whenFlags say of which time the registry is asked.
type whenFlags struct{ asOf, at string }

func (w *whenFlags) add(c *cobra.Command) {
	c.Flags().Var((*cli.FilledFlag)(&w.asOf), "asof",
		"what was known before this time, e.g. now-1h; a date means the start of the\nday, in UTC")
	c.Flags().Var((*cli.FilledFlag)(&w.at), "at",
		"the names and descriptions that held at this time, e.g. 2026-11-21 (default: the\nlast)")
}

func (w *whenFlags) when(a *app) (when client.When, err error) {
	for _, t := range []struct {
		flag, text string
		to         *int64
	}{{"asof", w.asOf, &when.AsOfNs}, {"at", w.at, &when.AtNs}} {
		if t.text == "" {
			continue
		}
		span, err := timeparse.ParseDated(t.text, a.Now().UTC())
		if err != nil {
			return when, cli.Usagef("--%s: %w", t.flag, err)
		}
		*t.to = span.FromNs
	}
	return when, nil
}

func (a *app) deviceListCommand() *cobra.Command {
	var l deviceList
	c := &cobra.Command{
		Use:   "ls",
		Short: "List the devices of a tenant",
		Long: `List the devices of a tenant that have a name or a description, by name.

--asof shows what was known at an earlier time, --at what the devices were then as it is known now,
with the names that they had.
-o geojson writes a GeoJSON FeatureCollection, as device export does.`,
		Annotations: map[string]string{cli.GeoJSON: "yes"},
		Args:        cli.NoCommand,
		Example: `  pentad device ls --cid 1
  pentad device ls --cid 1 --select 'type=thermometer, group^=oulu/, !retired'
  pentad device ls --cid 1 --select 'near(65.06,25.47,500m)' -o csv
  pentad device ls --cid 1 --at 2024-05-01 --asof now-1h`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.deviceList(c.Context(), &l)
		},
	}
	l.add(c)
	return c
}

// deviceList says which devices of a tenant are listed.
type deviceList struct {
	cid      int32
	selector string
	when     whenFlags
}

func (l *deviceList) add(c *cobra.Command) {
	tenantFlag(c, &l.cid)
	c.Flags().Var((*cli.FilledFlag)(&l.selector), "select",
		"devices by their descriptions, e.g. 'floor=2..4, owner in (acme, beta)'")
	l.when.add(c)
}

// ask returns the devices.
func (l *deviceList) ask(ctx context.Context, a *app) ([]client.DescribedDevice, error) {
	if err := checkTenant(l.cid); err != nil {
		return nil, err
	}
	if l.selector != "" {
		if _, err := registry.ParseSelector(l.selector); err != nil {
			return nil, cli.Usagef("--select: %w", err)
		}
	}
	when, err := l.when.when(a)
	if err != nil {
		return nil, err
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	queryflags.NoteDoubts(ctx, a.App, l.cid, l.selector, when.AsOfNs)
	return db.ListDevices(ctx, l.cid, l.selector, when)
}

func (a *app) deviceList(ctx context.Context, l *deviceList) error {
	devices, err := l.ask(ctx, a)
	if err != nil {
		return err
	}
	if format, err := a.Format(); err == nil && format == output.GeoJSON {
		return devicefile.WriteGeoJSON(a.Stdout, devices)
	}
	w, err := a.Writer(false, describedColumns()...)
	if err != nil {
		return err
	}
	for i := range devices {
		if err := w.Row(describedRow(l.cid, devices[i].Name, &devices[i])...); err != nil {
			return err
		}
	}
	return w.Close()
}

func (a *app) deviceShowCommand() *cobra.Command {
	var cid int32
	var when whenFlags
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show what is known of a device, and since when",
		Long: `Show the descriptions of a device, with the time from which each holds and the name that the device
had then. With --at it is the one that held at that time, of the device that had the name then; a
name that no device had then is the present one.`,
		Args: cli.Arguments(1, 1, "the name of a device"),
		Example: `  pentad device show --cid 1 oulu/t7
  pentad device show --cid 1 oulu/t7 --at 2024-05-01
  pentad device show --cid 1 oulu/t7 -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.deviceShow(c.Context(), cid, args[0], when)
		},
	}
	tenantFlag(c, &cid)
	when.add(c)
	return c
}

func (a *app) deviceShow(ctx context.Context, cid int32, name string, flags whenFlags) error {
	when, err := flags.when(a)
	if err != nil {
		return err
	}
	db, mid, err := a.findDevice(ctx, cid, name, when)
	if err != nil {
		return err
	}
	defer db.Close()
	all, err := db.DescriptionsWhen(ctx, cid, mid, when)
	if err != nil {
		return err
	}
	columns := append(describedColumns(), cli.Left("metadata"), cli.Left("from"))
	w, err := a.Writer(false, columns...)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		a.Note("%s has no description; set one with pentad device set", name)
	}
	for i := range all {
		row := append(describedRow(cid, cmp.Or(all[i].Name, name), &all[i]),
			output.Text(all[i].Metadata),
			output.Time(all[i].FromNs))
		if err := w.Row(row...); err != nil {
			return err
		}
	}
	return w.Close()
}

// findDevice connects, and returns the id of a name that a device must have.
func (a *app) findDevice(
	ctx context.Context, cid int32, name string, when client.When,
) (*client.Client, int64, error) {
	if err := checkTenant(cid); err != nil {
		return nil, 0, err
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return nil, 0, err
	}
	mid, isID := registry.ParseID(name)
	if !isID {
		mid, err = db.FindDevice(ctx, cid, name, when)
	}
	if err == nil && mid == 0 {
		err = fmt.Errorf("tenant %d has no device with the name %q; pentad device ls --cid %d "+
			"lists its names", cid, name, cid)
	}
	if err != nil {
		return nil, 0, cli.FirstError(err, db.Close())
	}
	return db, mid, nil
}

func (a *app) deviceHistoryCommand() *cobra.Command {
	var cid int32
	c := &cobra.Command{
		Use:   "history NAME",
		Short: "Show all versions of the descriptions of a device",
		Long: `Show all versions of the descriptions of a device in the order in which they were stored: from is
the time from which a version holds, acq when it was stored. A later version with the same from
corrects the one before it, or deletes it.`,
		Args: cli.Arguments(1, 1, "the name of a device"),
		Example: `  pentad device history --cid 1 oulu/t7
  pentad device history --cid 1 oulu/t7 -o csv
  pentad device history --cid 1 oulu/t7 -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.deviceHistory(c.Context(), cid, args[0])
		},
	}
	tenantFlag(c, &cid)
	return c
}

func (a *app) deviceHistory(ctx context.Context, cid int32, name string) error {
	db, mid, err := a.findDevice(ctx, cid, name, client.When{})
	if err != nil {
		return err
	}
	defer db.Close()
	all, err := db.DeviceHistory(ctx, cid, mid)
	if err != nil {
		return err
	}
	columns := append(describedColumns(), cli.Left("metadata"), cli.Right("replaces"),
		cli.Right("replaced_by"), cli.Left("from"), cli.Left("acq"), cli.Left("deleted"))
	w, err := a.Writer(false, columns...)
	if err != nil {
		return err
	}
	for i := range all {
		v := &all[i]
		row := append(describedRow(cid, v.Name, &v.DescribedDevice), output.Text(v.Metadata),
			idOrNull(v.Replaces), idOrNull(v.ReplacedBy), output.Time(v.FromNs),
			output.Time(v.AcqNs), output.Bool(v.Removed))
		if err := w.Row(row...); err != nil {
			return err
		}
	}
	return w.Close()
}

func idOrNull(mid int64) output.Value {
	if mid == 0 {
		return output.Null()
	}
	return output.Int(mid)
}

func describedColumns() []output.Column {
	return append(deviceColumns(), cli.Left("type"), cli.Left("group"), cli.Right("lat"),
		cli.Right("lon"), cli.Right("alt"), cli.Left("attributes"), cli.Left("retired"))
}

// describedRow is a device as describedColumns have it.
func describedRow(cid int32, name string, d *client.DescribedDevice) []output.Value {
	lat, lon, alt := output.Null(), output.Null(), output.Null()
	if p := d.Place; p != nil {
		lat, lon = output.Float(p.Lat), output.Float(p.Lon)
		if p.HasAlt {
			alt = output.Float(p.Alt)
		}
	}
	var attributes []string
	for _, key := range slices.Sorted(maps.Keys(d.Attributes)) {
		attributes = append(attributes, key+"="+d.Attributes[key].String())
	}
	return []output.Value{output.Int(cid), output.Int(d.MID), output.Text(name),
		output.Text(d.Type), output.Text(d.Group), lat, lon, alt,
		output.Text(strings.Join(attributes, ", ")), output.Bool(d.Retired)}
}
