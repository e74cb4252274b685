package client

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// DevicePurge is what a purge of a device removes.
type DevicePurge struct {
	MID          int64
	Records      uint64   // of readings, all versions and tombstones
	Descriptions uint64   // versions of them
	Names        []string // that the device has or had
}

// PurgeDevice removes a device for ever: its readings, its descriptions and the claims of the names
// that it has or had, from all views and all files; [Client.Events] says when the bytes are gone.
// The name is free, and no device gets the id. Devices that it replaced, or that replaced it, keep
// its number in their descriptions. An id in place of the name is one of a device that need not
// have a name. After an error the same call with the id goes on; with the name it does unless
// another device has got that.
//
// Errors: *[DeviceError] if there is nothing of the device.
//
// Cost: two scans of all names of the tenant; an event for the device and one for each name.
func (c *Client) PurgeDevice(
	ctx context.Context, cid int32, name string,
) (p DevicePurge, err error) {
	p, claims, err := c.planPurge(ctx, cid, name)
	if err != nil {
		return p, err
	}
	boxes := []record.Box{deviceBox(cid, p.MID)}
	if p.MID >= record.FirstGivenID { // others have no name
		earlier, err := c.endForPurge(ctx, cid, p.MID)
		if err != nil {
			return p, err
		}
		boxes = append(boxes, earlier...)
		if claims, err = c.namesEver(ctx, cid, p.MID); err != nil {
			return p, err
		}
	}
	// The name by which the device is found comes last: the same call goes on after an error.
	slices.SortStableFunc(claims, func(a, b nameVersions) int {
		return cmp.Compare(foundBy(a.name, name), foundBy(b.name, name))
	})
	for _, claim := range claims {
		box := seriesBox(claim.key)
		box[record.Cap] = record.RangeSet{record.At(claim.key.CapNs)}
		box[record.Acq] = claim.acqs
		boxes = append(boxes, box)
	}
	for _, box := range boxes {
		if err := c.purgeDevices(ctx, &wire.Box{Box: box}); err != nil {
			return p, fmt.Errorf("purge device %d: %w", p.MID, err)
		}
	}
	return p, nil
}

// endForPurge removes a device as RemoveDevice does, but for the claim of its name, so that no
// other client describes or renames it, and returns where earlier names are that the device said.
func (c *Client) endForPurge(
	ctx context.Context, cid int32, mid int64,
) (earlier []record.Box, err error) {
	err = untilNamed(func() error {
		_, err := c.endDevice(ctx, cid, mid, strconv.FormatInt(mid, 10))
		return err
	})
	if err != nil {
		return nil, err
	}
	box := seriesBox(record.DeviceNameKey(cid, mid))
	var acqs record.RangeSet
	err = c.eachOf(ctx, &record.Query{Box: box}, func(r record.Record) {
		if len(r.Payload) > 0 {
			acqs = append(acqs, record.At(r.AcqNs))
		}
	})
	if err != nil || len(acqs) == 0 {
		return nil, err
	}
	box[record.Acq] = acqs
	return []record.Box{box}, nil
}

func foundBy(claimed, name string) int {
	if claimed == name {
		return 1
	}
	return 0
}

// PreviewPurge returns what PurgeDevice would remove, and changes nothing.
func (c *Client) PreviewPurge(ctx context.Context, cid int32, name string) (DevicePurge, error) {
	p, _, err := c.planPurge(ctx, cid, name)
	return p, err
}

// deviceBox holds all records whose mid is a device, but for what it says of its name: that it was
// removed is never forgotten. Claims are records of other mids, which may be the number of a
// device.
func deviceBox(cid int32, mid int64) record.Box {
	return record.Box{record.CID: {record.At(int64(cid))}, record.MID: {record.At(mid)},
		record.MOID: {{From: math.MinInt32, To: record.NameMOID},
			record.At(record.DescriptionMOID),
			{From: record.DeviceNameMOID + 1, To: record.MOID.Max()}}}
}

// nameVersions are the versions of the claim of a name that are about one device.
type nameVersions struct {
	key  record.Key
	name string
	acqs record.RangeSet
}

func (c *Client) planPurge(
	ctx context.Context, cid int32, name string,
) (p DevicePurge, claims []nameVersions, err error) {
	var isID bool
	if p.MID, isID = registry.ParseID(name); !isID {
		held, err := c.heldNames(ctx, cid, []string{name}, 0)
		if err != nil {
			return p, nil, err
		}
		p.MID = held.ids[name]
		for i := range held.former {
			f := &held.former[i]
			if f.says.name != "" {
				continue
			}
			had, err := c.everHad(ctx, cid, f.MID, name)
			if err != nil {
				return p, nil, err
			}
			if had { // of a purge that goes on
				p.MID = f.MID
			}
		}
		if p.MID == 0 {
			return p, nil, notThere(cid, name, noSuchName)
		}
	}
	box := deviceBox(cid, p.MID)
	all, err := c.countNow(ctx, &record.Query{Box: box})
	if err != nil {
		return p, nil, err
	}
	box[record.MOID] = record.RangeSet{record.At(record.DescriptionMOID)}
	if p.Descriptions, err = c.countNow(ctx, &record.Query{Box: box}); err != nil {
		return p, nil, err
	}
	p.Records = all - min(p.Descriptions, all)
	if claims, err = c.namesEver(ctx, cid, p.MID); err != nil {
		return p, nil, err
	}
	for _, claim := range claims {
		p.Names = append(p.Names, claim.name)
	}
	slices.Sort(p.Names)
	if all == 0 && len(claims) == 0 {
		err = notThere(cid, name, "it has no name, no description and no readings")
	}
	return p, claims, err
}

// everHad reports whether a device that was removed had a name which it claims. Else a rename
// claimed it, and the removal came first.
func (c *Client) everHad(ctx context.Context, cid int32, mid int64, name string) (bool, error) {
	q := record.Query{View: record.ViewAll, Box: seriesBox(record.DeviceNameKey(cid, mid))}
	renamed, had := false, false // without a rename it said no name before it was removed
	err := c.eachOf(ctx, &q, func(r record.Record) {
		said, err := record.ParseDeviceName(r.Key, r.Payload)
		renamed = renamed || err == nil && said != ""
		had = had || err == nil && said == name
	})
	return had || !renamed, err
}

// namesEver returns the claims of all names that a device has or had: the versions that give them
// the id, and the tombstones that took these back. Others of the same name are of other devices.
func (c *Client) namesEver(
	ctx context.Context, cid int32, mid int64,
) (claims []nameVersions, err error) {
	q := namesBefore(cid, 0)
	q.View = record.ViewAll
	found := map[record.Key]string{}
	if err := c.eachOf(ctx, q, func(r record.Record) {
		if of, name, err := record.ParseNameClaim(r.Key, r.Payload); err == nil && of == mid {
			r.AcqNs = 0
			found[r.Key] = name
		}
	}); err != nil {
		return nil, err
	}
	for key, name := range found {
		claim := nameVersions{key: key, name: name}
		one := record.Query{View: record.ViewAll, Box: seriesBox(key)}
		one.Box[record.Cap] = record.RangeSet{record.At(key.CapNs)}
		var versions []record.Record
		if err := c.eachOf(ctx, &one, func(r record.Record) {
			r.Payload = slices.Clone(r.Payload)
			versions = append(versions, r)
		}); err != nil {
			return nil, err
		}
		slices.SortFunc(versions, func(a, b record.Record) int {
			return cmp.Compare(a.AcqNs, b.AcqNs)
		})
		own := false
		for _, v := range versions {
			if !v.Tomb {
				of, _, err := record.ParseNameClaim(v.Key, v.Payload)
				own = err == nil && of == mid
			}
			if own {
				claim.acqs = append(claim.acqs, record.At(v.AcqNs))
			}
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// purgeDevices purges a box of the registry of devices and its readings.
func (c *Client) purgeDevices(ctx context.Context, box *wire.Box) error {
	if c.local == nil {
		_, err := c.Purge(ctx, box)
		return err
	}
	if err := box.Check(); err != nil {
		return err
	}
	return c.local.Purge(ctx, box)
}
