package client

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// When says of which time a registry is asked. The zero value is now.
type When struct {
	// AsOfNs asks for what was known before an acq; 0: all that is known.
	AsOfNs int64
	// AtNs asks for the descriptions that held at a time, and the names that are in them; 0: the
	// last ones.
	AtNs int64
}

// ListDevices returns the devices of a tenant that a selector chooses, in the language of
// [registry.ParseSelector], with their names, by name; without a selector all that have a name or a
// description: one with a name only has math.MinInt64 as FromNs. Records of descriptions that are
// not in a form that is known here are left out.
//
// Cost: a scan of all names of the tenant, and unless when is zero of all its descriptions.
func (c *Client) ListDevices(
	ctx context.Context, cid int32, selector string, when When,
) ([]DescribedDevice, error) {
	all, err := c.describedWhen(ctx, cid, selector, when)
	if err != nil {
		return nil, err
	}
	named, err := c.named(ctx, cid, when.AsOfNs)
	if err != nil {
		return nil, err
	}
	at := make(map[int64]int, len(all))
	for i := range all {
		at[all[i].MID] = i
	}
	for _, d := range named {
		if i, ok := at[d.MID]; ok {
			if when.AtNs == 0 || all[i].Name == "" {
				all[i].Name = d.Name // a device has the name that is claimed for it
			}
		} else if selector == "" {
			all = append(all, DescribedDevice{MID: d.MID, FromNs: math.MinInt64,
				Description: registry.Description{Name: d.Name}})
		}
	}
	slices.SortFunc(all, func(a, b DescribedDevice) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.MID, b.MID))
	})
	return all, nil
}

// describedWhen returns the devices of a tenant that have a description, as of some time.
func (c *Client) describedWhen(
	ctx context.Context, cid int32, selector string, when When,
) ([]DescribedDevice, error) {
	q := record.Query{Select: selector, Last: 1, AsOfAcqNs: when.AsOfNs, Box: record.Box{
		record.CID: {record.At(int64(cid))}, record.MOID: {record.At(record.DescriptionMOID)}}}
	if when.AtNs == 0 {
		return c.descriptions(ctx, &q)
	}
	// A node selects by the last descriptions, which are other ones.
	chosen, err := parseSelector(selector)
	if err != nil {
		return nil, err
	}
	q.Select = ""
	q.Box[record.Cap] = record.RangeSet{{From: record.Cap.Min(), To: when.AtNs + 1}}
	all, err := c.descriptions(ctx, &q)
	return slices.DeleteFunc(all, func(d DescribedDevice) bool {
		return chosen != nil && !chosen.Match(&d.Description)
	}), err
}

// parseSelector returns nil for none.
func parseSelector(text string) (*registry.Selector, error) {
	if text == "" {
		return nil, nil
	}
	return registry.ParseSelector(text)
}

// FindDevice returns the id of a name as known at some time, 0 if no device has it then. With a
// time at which descriptions held it is the device that was described with the name then, or else
// the one that has it now.
//
// Cost: two queries; for a name that the device did not have at that time a scan of all
// descriptions of the tenant.
func (c *Client) FindDevice(
	ctx context.Context, cid int32, name string, when When,
) (mid int64, err error) {
	held, err := c.heldNames(ctx, cid, []string{name}, when.AsOfNs)
	mid = held.ids[name]
	if when.AtNs == 0 || err != nil {
		return mid, err
	}
	if mid != 0 {
		then, err := c.DescriptionsWhen(ctx, cid, mid, when)
		if err != nil || len(then) > 0 && then[0].Name == name {
			return mid, err
		}
	}
	all, err := c.describedWhen(ctx, cid, "", when)
	fromNs := int64(math.MinInt64)
	for i := range all {
		if all[i].Name == name && all[i].FromNs >= fromNs {
			mid, fromNs = all[i].MID, all[i].FromNs
		}
	}
	return mid, err
}

// DescriptionVersion is one version of a description: what the device was taken to be from a time
// on, and when that was learned.
type DescriptionVersion struct {
	DescribedDevice
	AcqNs   int64
	Removed bool // that it is so was taken back
}

// DeviceHistory returns all versions of all descriptions of a device, by when they were learned:
// corrections and removals included.
func (c *Client) DeviceHistory(
	ctx context.Context, cid int32, mid int64,
) (all []DescriptionVersion, err error) {
	q := record.Query{Box: seriesBox(record.Key{CID: cid, MID: mid,
		MOID: record.DescriptionMOID})}
	err = c.eachOf(ctx, &q, func(r record.Record) {
		v := DescriptionVersion{DescribedDevice{MID: r.MID, FromNs: r.CapNs}, r.AcqNs, r.Tomb}
		if !r.Tomb {
			d, err := registry.Parse(r.Payload)
			if err != nil {
				return
			}
			v.Description = *d
		}
		all = append(all, v)
	})
	slices.SortFunc(all, func(a, b DescriptionVersion) int {
		return cmp.Compare(a.AcqNs, b.AcqNs)
	})
	return all, err
}

// DescriptionsWhen returns the descriptions of a device as known at some time, by the time from
// which they hold; with a time at which they hold the one that did.
func (c *Client) DescriptionsWhen(
	ctx context.Context, cid int32, mid int64, when When,
) ([]DescribedDevice, error) {
	q := record.Query{AsOfAcqNs: when.AsOfNs, Box: seriesBox(record.Key{CID: cid, MID: mid,
		MOID: record.DescriptionMOID})}
	all, err := c.descriptions(ctx, &q)
	if when.AtNs == 0 || err != nil {
		return all, err
	}
	d := descriptionAt(all, mid, when.AtNs)
	if d.FromNs == math.MinInt64 {
		return nil, nil
	}
	return []DescribedDevice{d}, nil
}
