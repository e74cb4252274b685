package client

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// DeviceChange is what becomes of the description of a device from a time on.
type DeviceChange struct {
	Name   string
	FromNs int64
	registry.Change
}

// DeviceChanges counts what [Client.ChangeDevices] did.
type DeviceChanges struct {
	Created   int // names that had no id
	Described int // descriptions that were stored
	Unchanged int // changes of descriptions that said the same already
}

// ChangeDevices changes descriptions of devices of a tenant, one after the other: each is that
// which its device has at the time of the change, and holds from then on, until that of the next
// one. Names that have no id get one. What says the same already is not stored again, so that a
// second call with the same changes does nothing.
//
// Errors: that of a description that cannot be, before anything is stored; those of NameDevices,
// queries and puts. Devices before the error may have been changed.
//
// Cost: that of NameDevices, and for 1,000 changes a put and a query, unless all names are new.
func (c *Client) ChangeDevices(
	ctx context.Context, cid int32, changes []DeviceChange,
) (DeviceChanges, error) {
	return c.changeDevices(ctx, cid, changes, false)
}

// PreviewChanges counts what ChangeDevices would do, and does nothing.
func (c *Client) PreviewChanges(
	ctx context.Context, cid int32, changes []DeviceChange,
) (DeviceChanges, error) {
	return c.changeDevices(ctx, cid, changes, true)
}

func (c *Client) changeDevices(
	ctx context.Context, cid int32, changes []DeviceChange, dry bool,
) (did DeviceChanges, err error) {
	for i := range changes {
		if err := record.CheckDeviceName(changes[i].Name); err != nil {
			return did, err
		}
		if err := changes[i].Check(changes[i].Name); err != nil {
			return did, fmt.Errorf("%s: %w", changes[i].Name, err)
		}
	}
	for some := range slices.Chunk(changes, describeAtOnce) {
		names := distinctNames(some)
		ids, created, err := c.idsOfNames(ctx, cid, names, dry)
		if err != nil {
			return did, err
		}
		known := deviceVersions{}
		if created < len(names) {
			if known, err = c.descriptionsOf(ctx, cid, ids); err != nil {
				return did, err
			}
		}
		var changed []DescribedDevice
		for i := range some {
			mid := ids[some[i].Name]
			if dry && mid == 0 { // each new name is a device of its own
				mid = -1 - int64(slices.Index(names, some[i].Name))
			}
			next, isNew, err := known.change(mid, &some[i])
			if err != nil {
				return did, err
			}
			if isNew {
				changed = append(changed, next)
			}
		}
		if !dry {
			if err := c.DescribeDevices(ctx, cid, changed); err != nil {
				return did, err
			}
		}
		did.Created += created
		did.Described += len(changed)
		did.Unchanged += len(some) - len(changed)
	}
	return did, nil
}

func distinctNames(changes []DeviceChange) (names []string) {
	seen := make(map[string]bool, len(changes))
	for i := range changes {
		if name := changes[i].Name; !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// idsOfNames returns the ids of names, and gives ids to new ones unless it is dry.
func (c *Client) idsOfNames(
	ctx context.Context, cid int32, names []string, dry bool,
) (ids map[string]int64, created int, err error) {
	var found []int64
	if dry {
		found, err = c.FindDevices(ctx, cid, names)
	} else {
		found, created, err = c.NameDevices(ctx, cid, names)
	}
	if err != nil {
		return nil, 0, err
	}
	ids = make(map[string]int64, len(names))
	for i, name := range names {
		if ids[name] = found[i]; found[i] == 0 {
			created++
		}
	}
	return ids, created, nil
}

// deviceVersions are descriptions of devices, by mid and ascending from when they hold.
type deviceVersions map[int64][]DescribedDevice

// descriptionsOf returns all descriptions of some devices.
func (c *Client) descriptionsOf(
	ctx context.Context, cid int32, ids map[string]int64,
) (deviceVersions, error) {
	q := record.Query{Box: record.Box{record.CID: {record.At(int64(cid))},
		record.MOID: {record.At(record.DescriptionMOID)}}}
	for _, mid := range ids {
		if mid != 0 {
			q.Box[record.MID] = append(q.Box[record.MID], record.At(mid))
		}
	}
	known := deviceVersions{}
	if len(q.Box[record.MID]) == 0 {
		return known, nil
	}
	all, err := c.descriptions(ctx, &q)
	for _, d := range all {
		known[d.MID] = append(known[d.MID], d)
	}
	return known, err
}

// at returns the description that a device has at a time, an empty one if there is none.
func (v deviceVersions) at(mid, ns int64) DescribedDevice {
	return descriptionAt(v[mid], mid, ns)
}

func descriptionAt(all []DescribedDevice, mid, ns int64) DescribedDevice {
	out := DescribedDevice{MID: mid, FromNs: math.MinInt64}
	for i := range all {
		if all[i].FromNs <= ns {
			out = all[i]
		}
	}
	return out
}

// change makes a change, and reports whether it says something new.
func (v deviceVersions) change(
	mid int64, by *DeviceChange,
) (next DescribedDevice, isNew bool, err error) {
	before := v.at(mid, by.FromNs)
	next = before
	next.Name, next.FromNs = by.Name, by.FromNs
	by.Apply(&next.Description)
	if err := next.Check(); err != nil {
		return next, false, fmt.Errorf("%s: %w", by.Name, err)
	}
	if before.FromNs != math.MinInt64 && registry.Equal(&before.Description, &next.Description) {
		return next, false, nil
	}
	all := slices.DeleteFunc(v[mid], func(d DescribedDevice) bool {
		return d.FromNs == next.FromNs
	})
	i, _ := slices.BinarySearchFunc(all, next, func(a, b DescribedDevice) int {
		return cmp.Compare(a.FromNs, b.FromNs)
	})
	v[mid] = slices.Insert(all, i, next)
	return next, true, nil
}
