package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/registry"
)

// deviceChange is what flags say of a description; a flag that was not given changes nothing.
type deviceChange struct {
	cid                                int32
	kind, group, place, metadata, from string
	attributes                         []string
	retired                            bool
	flags                              *cobra.Command
}

func (a *app) deviceSetCommand() *cobra.Command {
	var d deviceChange
	c := &cobra.Command{
		Use:   "set NAME...",
		Short: "Set what is known of devices",
		Long: `Set what is known of devices: type, group, place and attributes, by which queries select
devices with --select. What no flag names stays as it is; an empty value removes what was known.

A description holds from a time on, now unless --from gives another one, and earlier ones stay.
Names that have no id yet get one.`,
		Args: cli.Arguments(1, 1<<20, "the name of a device"),
		Example: `  pentad device set --cid 1 oulu/t7 --type thermometer --group oulu/building-7/floor-3
  pentad device set --cid 1 oulu/t7 --place 65.01,25.47,12 --attr floor=3 --attr owner=acme
  pentad device set --cid 1 oulu/t7 --retired --attr owner=`,
		RunE: func(c *cobra.Command, names []string) error {
			d.flags = c
			return a.deviceSet(c.Context(), &d, names)
		},
	}
	tenantFlag(c, &d.cid)
	flags := c.Flags()
	flags.StringVar(&d.kind, "type", "", "type, e.g. thermometer")
	flags.StringVar(&d.group, "group", "", "path of the group, e.g. oulu/building-7/floor-3")
	flags.StringVar(&d.place, "place", "",
		"latitude,longitude[,altitude in m], e.g. 65.01,25.47,12")
	flags.StringArrayVar(&d.attributes, "attr", nil,
		"attribute, e.g. floor=3, owner=acme, wired=true or serial='\"007\"' as a text;\nmay be "+
			"repeated")
	flags.StringVar(&d.metadata, "metadata", "", "text that selectors do not see")
	flags.BoolVar(&d.retired, "retired", false, "whether the device is out of use")
	flags.StringVar(&d.from, "from", "now", "time from which this holds, e.g. 2026-11-21")
	return c
}

func (a *app) deviceSet(ctx context.Context, d *deviceChange, names []string) error {
	if err := checkTenant(d.cid); err != nil {
		return err
	}
	from, err := timeparse.Parse(d.from, a.Now())
	if err != nil {
		return cli.Usagef("--from: %w", err)
	}
	if from.FromNs > a.Now().UnixNano() {
		return cli.Usagef("--from %s is in the future, and a description holds at once: set it "+
			"when the time has come", d.from)
	}
	if last := names[len(names)-1]; d.flags.Flags().Changed("retired") &&
		(last == "true" || last == "false") {
		return cli.Usagef("%q is taken for a device; write --retired=%s", last, last)
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	for _, name := range names { // before ids are given to them
		empty := client.DescribedDevice{Description: registry.Description{Name: name}}
		if err := d.apply(&empty.Description); err != nil {
			return err
		}
		if err := empty.Check(); err != nil {
			return cli.Usage(err)
		}
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	ids, created, err := db.NameDevices(ctx, d.cid, names)
	if err != nil {
		return err
	}
	devices := make([]client.DescribedDevice, len(names))
	for i, mid := range ids {
		if devices[i], err = d.describe(ctx, db, mid, names[i], from.FromNs); err != nil {
			return err
		}
	}
	if err := db.DescribeDevices(ctx, d.cid, devices); err != nil {
		return err
	}
	a.Note("described %s; %s new", output.Counted(len(devices), "devices"),
		output.Counted(created, "names"))
	return nil
}

// describe changes the description that a device has at a time.
func (d *deviceChange) describe(
	ctx context.Context, db *client.Client, mid int64, name string, fromNs int64,
) (client.DescribedDevice, error) {
	all, err := db.DeviceDescriptions(ctx, d.cid, mid)
	if err != nil {
		return client.DescribedDevice{}, err
	}
	out := client.DescribedDevice{MID: mid}
	for _, earlier := range all {
		if earlier.FromNs <= fromNs {
			out = earlier
		}
	}
	out.FromNs, out.Name = fromNs, name
	if err := d.apply(&out.Description); err != nil {
		return out, err
	}
	if err := out.Check(); err != nil {
		return out, cli.Usagef("%s: %w", name, err)
	}
	return out, nil
}

// apply makes the changes that flags ask for.
func (d *deviceChange) apply(to *registry.Description) (err error) {
	changed := d.flags.Flags().Changed
	if changed("type") {
		to.Type = d.kind
	}
	if changed("group") {
		to.Group = strings.TrimSuffix(d.group, "/")
	}
	if changed("metadata") {
		to.Metadata = d.metadata
	}
	if changed("retired") {
		to.Retired = d.retired
	}
	if changed("place") {
		if to.Place, err = parsePlace(d.place); err != nil {
			return err
		}
	}
	for _, text := range d.attributes {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return cli.Usagef("--attr %q: write KEY=VALUE, e.g. floor=3", text)
		}
		if value == "" {
			delete(to.Attributes, key)
			continue
		}
		if to.Attributes == nil {
			to.Attributes = map[string]registry.Value{}
		}
		to.Attributes[key] = registry.ParseValue(value)
	}
	return nil
}

func parsePlace(text string) (*registry.Place, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, ",")
	p := &registry.Place{HasAlt: len(parts) == 3}
	for i, to := range []*float64{&p.Lat, &p.Lon, &p.Alt}[:min(len(parts), 3)] {
		n, err := strconv.ParseFloat(strings.TrimSpace(parts[i]), 64)
		if err != nil {
			return nil, cli.Usagef("--place %q: %q is not a number of degrees or metres; write "+
				"e.g. 65.01,25.47,12", text, parts[i])
		}
		*to = n
	}
	if len(parts) != 2 && len(parts) != 3 {
		return nil, cli.Usagef("--place %q: write latitude,longitude or "+
			"latitude,longitude,altitude", text)
	}
	return p, nil
}

func (a *app) deviceShowCommand() *cobra.Command {
	var cid int32
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show what is known of a device, and since when",
		Args:  cli.Arguments(1, 1, "the name of a device"),
		Example: `  pentad device show --cid 1 oulu/t7
  pentad device show --cid 1 oulu/t7 -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.deviceShow(c.Context(), cid, args[0])
		},
	}
	tenantFlag(c, &cid)
	return c
}

func (a *app) deviceShow(ctx context.Context, cid int32, name string) error {
	if err := checkTenant(cid); err != nil {
		return err
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	ids, err := db.FindDevices(ctx, cid, []string{name})
	if err != nil {
		return err
	}
	if ids[0] == 0 {
		return fmt.Errorf("tenant %d has no device with the name %q; pentad device ls --cid %d "+
			"lists its names", cid, name, cid)
	}
	all, err := db.DeviceDescriptions(ctx, cid, ids[0])
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
		row := append(describedRow(cid, name, &all[i]), output.Text(all[i].Metadata),
			output.Time(all[i].FromNs))
		if err := w.Row(row...); err != nil {
			return err
		}
	}
	return w.Close()
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

// selectDevices returns the devices that a selector chooses, all that have a name or a description
// without one, by name.
func selectDevices(
	ctx context.Context, db *client.Client, cid int32, selector string,
) ([]client.DescribedDevice, error) {
	all, err := db.SelectDevices(ctx, cid, selector)
	if err != nil {
		return nil, err
	}
	named, err := db.Devices(ctx, cid)
	if err != nil {
		return nil, err
	}
	at := make(map[int64]int, len(all))
	for i := range all {
		at[all[i].MID] = i
	}
	for _, d := range named {
		if i, ok := at[d.MID]; ok {
			all[i].Name = d.Name // a device has the name that is claimed for it
		} else if selector == "" {
			all = append(all, client.DescribedDevice{MID: d.MID,
				Description: registry.Description{Name: d.Name}})
		}
	}
	slices.SortFunc(all, func(a, b client.DescribedDevice) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.MID, b.MID))
	})
	return all, nil
}
