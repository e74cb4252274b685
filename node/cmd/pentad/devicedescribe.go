package main

import (
	"context"
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
Names that have no id yet get one. A number is an id, of a device that need not have a name.`,
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
		"attribute, e.g. floor=3, owner=acme, wired=true, code=007 or room='\"7\"' as a\ntext; "+
			"may be repeated")
	flags.StringVar(&d.metadata, "metadata", "", "text that selectors do not see")
	flags.BoolVar(&d.retired, "retired", false, "whether the device is out of use")
	flags.StringVar(&d.from, "from", "now", "time from which this holds, e.g. 2026-11-21")
	return c
}

func (a *app) deviceSet(ctx context.Context, d *deviceChange, names []string) error {
	if err := checkTenant(d.cid); err != nil {
		return err
	}
	fromNs, err := a.heldFrom("--from", d.from)
	if err != nil {
		return err
	}
	if last := names[len(names)-1]; d.flags.Flags().Changed("retired") &&
		(last == "true" || last == "false") {
		return cli.Usagef("%q is taken for a device; write --retired=%s", last, last)
	}
	change, err := d.change()
	if err != nil {
		return err
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	changes := make([]client.DeviceChange, len(names))
	for i, name := range names { // before ids are given to them
		own := name
		if _, isID := registry.ParseID(name); isID {
			own = ""
		} else if err := registry.CheckName(name); err != nil {
			return cli.Usage(err)
		}
		if err := change.Check(own); err != nil {
			return cli.Usagef("%s: %w", name, err)
		}
		changes[i] = client.DeviceChange{Name: name, FromNs: fromNs, Change: change,
			Last: !d.flags.Flags().Changed("from")}
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	did, err := db.ChangeDevices(ctx, d.cid, changes)
	if err != nil {
		return err
	}
	d.noteTexts(a, &change)
	a.Note("described %s; %s new", output.Counted(did.Described, "devices"),
		output.Counted(did.Created, "names"))
	if did.Followed > 0 {
		a.Note("%s only until a later one that was there; pentad device history shows them",
			holds(did.Followed))
	}
	return nil
}

// noteTexts names attributes that are texts although they are written as numbers.
func (d *deviceChange) noteTexts(a *app, change *registry.Change) {
	const kept = 15 // digits that each number keeps
	for _, text := range d.attributes {
		key, value, _ := strings.Cut(text, "=")
		if len(value) > kept && strings.Trim(value, "0123456789") == "" &&
			change.Attributes[key].Kind() == registry.KindText {
			a.Note("the attribute %s is a text, as a number does not keep %s", key, value)
		}
	}
}

func holds(descriptions int) string {
	if descriptions == 1 {
		return "1 description holds"
	}
	return output.Counted(descriptions, "descriptions") + " hold"
}

// heldFrom reads the time from which a description holds.
func (a *app) heldFrom(flag, text string) (int64, error) {
	from, err := timeparse.ParseDated(text, a.Now().UTC())
	if err != nil {
		return 0, cli.Usagef("%s: %w", flag, err)
	}
	if from.FromNs > a.Now().UnixNano() {
		return 0, cli.Usagef("%s %s is in the future, and a description holds at once: set it "+
			"when the time has come", flag, text)
	}
	return from.FromNs, nil
}

// change is what the flags ask for.
func (d *deviceChange) change() (c registry.Change, err error) {
	changed := d.flags.Flags().Changed
	if changed("type") {
		c.Type = &d.kind
	}
	if changed("group") {
		c.Group = &d.group
	}
	if changed("metadata") {
		c.Metadata = &d.metadata
	}
	if changed("retired") {
		c.Retired = &d.retired
	}
	if changed("place") {
		if c.Place, err = parsePlace(d.place); err != nil {
			return c, err
		}
		c.NoPlace = c.Place == nil
	}
	for _, text := range d.attributes {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return c, cli.Usagef("--attr %q: write KEY=VALUE, e.g. floor=3", text)
		}
		if c.Attributes == nil {
			c.Attributes = map[string]registry.Value{}
		}
		c.Attributes[key] = registry.Value{}
		if value != "" {
			c.Attributes[key] = registry.ParseValue(value)
		}
	}
	return c, nil
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
