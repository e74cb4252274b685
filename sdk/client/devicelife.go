package client

import (
	"context"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// DeviceError is a device that is not there, or is there and must not be; in the tenant
// record.TenantsCID it is a tenant.
type DeviceError struct {
	CID     int32
	Name    string
	Reason  string
	Missing bool // it is not there
}

// Error implements error.
func (e *DeviceError) Error() string {
	if e.CID == record.TenantsCID {
		return fmt.Sprintf("tenant %q: %s", e.Name, e.Reason)
	}
	return fmt.Sprintf("tenant %d: device %q: %s", e.CID, e.Name, e.Reason)
}

const noSuchName = "no device has the name"

// notThere is the error of a device, or a description of it, that is missing.
func notThere(cid int32, name, reason string) error {
	return &DeviceError{CID: cid, Name: name, Reason: reason, Missing: true}
}

// inTheWay is the error of a device that keeps another one from what it is to become.
func inTheWay(cid int32, name, reason string) error {
	return &DeviceError{CID: cid, Name: name, Reason: reason}
}

// knownDevice returns the id of a name that a device must have.
func (c *Client) knownDevice(ctx context.Context, cid int32, name string) (int64, error) {
	mid, err := c.FindDevice(ctx, cid, name, When{})
	if err == nil && mid == 0 {
		err = notThere(cid, name, noSuchName)
	}
	return mid, err
}

// RenameDevice gives a device another name from a time on, also in later descriptions. It keeps its
// id, its readings and its descriptions; the old name is free. After an error the same call goes
// on.
//
// Errors: *[DeviceError] if no device has the old name, or another one has the new name.
func (c *Client) RenameDevice(
	ctx context.Context, cid int32, old, name string, fromNs int64,
) (mid int64, err error) {
	if err := registry.CheckName(name); err != nil {
		return 0, err
	}
	err = untilNamed(func() (err error) {
		mid, err = c.tryRename(ctx, cid, old, name, fromNs)
		return err
	})
	return mid, err
}

// untilNamed tries what changes names of devices until no other client is faster.
func untilNamed(try func() error) (err error) {
	for range maxClaimTries {
		if err = try(); !isConflict(err) && !isNameGone(err) {
			break
		}
	}
	return err
}

// tryRename is RenameDevice unless others change the device or the names at the same time.
func (c *Client) tryRename(
	ctx context.Context, cid int32, old, name string, fromNs int64,
) (mid int64, err error) {
	held, err := c.heldNames(ctx, cid, []string{old, name}, 0)
	if err != nil {
		return 0, err
	}
	if err := c.takeBack(ctx, cid, held.former); err != nil {
		return 0, err
	}
	if mid = held.ids[old]; mid == 0 {
		for i := range held.former {
			// A rename that was not answered ended so far.
			if f := &held.former[i]; f.Name == old && f.says.name == name {
				return f.MID, nil
			}
		}
		return 0, notThere(cid, old, noSuchName)
	}
	taken := held.ids[name]
	if taken != 0 && taken != mid {
		return 0, inTheWay(cid, name, "another device has the name")
	}
	if old == name {
		return mid, nil
	}
	known, newestNs, err := c.descriptionsOf(ctx, cid, map[string]int64{old: mid})
	if _, says := known.says[mid]; err == nil && !says {
		// From here on a claim of the new name does not hold until the device says so.
		if err = c.sayName(ctx, cid, mid, old, newestNs); err == nil {
			known, newestNs, err = c.descriptionsOf(ctx, cid, map[string]int64{old: mid})
		}
	}
	if err != nil {
		return 0, err
	}
	// Also one that is there already is put again: see takeBack.
	if err := c.claimNames(ctx, cid, []string{name}, map[string]int64{name: mid}); err != nil {
		return 0, fmt.Errorf("store the name of a device: %w", err)
	}
	var b record.Batch
	b.Append(record.DeviceNameKey(cid, mid), []byte(name))
	changed := known.from(mid, fromNs)
	if known.at(mid, fromNs).FromNs == math.MinInt64 {
		changed = changed[1:]
	}
	for i := range changed {
		changed[i].Name = name
		if err := appendDescription(&b, cid, &changed[i]); err != nil {
			return 0, err
		}
	}
	if err := c.putDevices(ctx, &b, newestNs); err != nil {
		return 0, fmt.Errorf("rename a device: %w", err)
	}
	was := held.claims[old]
	return mid, c.releaseClaim(ctx, cid, &was)
}

// appendDescription appends the record of a description.
func appendDescription(b *record.Batch, cid int32, d *DescribedDevice) error {
	payload, err := registry.Append(nil, &d.Description)
	if err != nil {
		return fmt.Errorf("device %d: %w", d.MID, err)
	}
	b.Append(descriptionKey(cid, d), payload)
	return nil
}

// RemoveDevice removes a name, and deletes the descriptions of its device: selectors no longer find
// it. Its readings stay under its id, which gets no name again, and as of earlier times it has its
// name and descriptions. After an error the same call goes on.
//
// Errors: *[DeviceError] if no device has the name.
func (c *Client) RemoveDevice(
	ctx context.Context, cid int32, name string,
) (mid int64, descriptions int, err error) {
	err = untilNamed(func() (err error) {
		mid, descriptions, err = c.tryRemove(ctx, cid, name)
		return err
	})
	return mid, descriptions, err
}

// tryRemove is RemoveDevice unless others change the device at the same time.
func (c *Client) tryRemove(
	ctx context.Context, cid int32, name string,
) (mid int64, descriptions int, err error) {
	held, err := c.heldNames(ctx, cid, []string{name}, 0)
	if err != nil {
		return 0, 0, err
	}
	if mid = held.ids[name]; mid == 0 {
		if err := c.takeBack(ctx, cid, held.former); err != nil {
			return 0, 0, err
		}
		if len(held.former) > 0 && held.former[0].says.name == "" {
			return held.former[0].MID, 0, nil // a removal that was not answered ended so far
		}
		return 0, 0, notThere(cid, name, noSuchName)
	}
	if descriptions, err = c.endDevice(ctx, cid, mid, name); err != nil {
		return mid, 0, err
	}
	was := held.claims[name]
	return mid, descriptions, c.releaseClaim(ctx, cid, &was)
}

// endDevice has a device say that it has no name any longer, and deletes its descriptions, unless
// others change it at the same time. The device is given by its name, or by its id in digits.
func (c *Client) endDevice(
	ctx context.Context, cid int32, mid int64, name string,
) (descriptions int, err error) {
	known, newestNs, err := c.descriptionsOf(ctx, cid, map[string]int64{name: mid})
	if err != nil {
		return 0, err
	}
	var b record.Batch
	all := known.all[mid]
	if says, ok := known.says[mid]; ok && says == "" && len(all) == 0 {
		return 0, nil
	}
	for i := range all {
		b.AppendTomb(descriptionKey(cid, &all[i]))
	}
	b.Append(record.DeviceNameKey(cid, mid), nil)
	if err := c.putDevices(ctx, &b, newestNs); err != nil {
		return 0, fmt.Errorf("remove a device: %w", err)
	}
	return len(all), nil
}

// RemoveDescription deletes the description of a device that is from a time: the one before it
// holds in its place. If that becomes the last one and has an earlier name of the device, it is
// stored again with the present name, which selectors then find.
//
// Errors: *[DeviceError] if the device has none from that time.
func (c *Client) RemoveDescription(
	ctx context.Context, cid int32, name string, fromNs int64,
) (mid int64, err error) {
	err = untilNamed(func() (err error) {
		mid, err = c.tryRemoveDescription(ctx, cid, name, fromNs)
		return err
	})
	return mid, err
}

// tryRemoveDescription is RemoveDescription unless others change the device at the same time.
func (c *Client) tryRemoveDescription(
	ctx context.Context, cid int32, name string, fromNs int64,
) (mid int64, err error) {
	if mid, err = c.knownDevice(ctx, cid, name); err != nil {
		return 0, err
	}
	known, newestNs, err := c.descriptionsOf(ctx, cid, map[string]int64{name: mid})
	if err != nil {
		return 0, err
	}
	all := known.all[mid]
	d := descriptionAt(all, mid, fromNs)
	if d.FromNs != fromNs || len(all) == 0 {
		return 0, notThere(cid, name,
			"it has no description from "+formatNs(fromNs))
	}
	var b record.Batch
	b.AppendTomb(descriptionKey(cid, &d))
	rest := all[:len(all)-1]
	if last := len(rest) - 1; last >= 0 && all[len(all)-1].FromNs == fromNs &&
		rest[last].Name != name {
		rest[last].Name = name
		if err := appendDescription(&b, cid, &rest[last]); err != nil {
			return 0, err
		}
	}
	if err := c.putDevices(ctx, &b, newestNs); err != nil {
		return 0, fmt.Errorf("delete a description of a device: %w", err)
	}
	return mid, nil
}

// descriptionKey returns the key of a description.
func descriptionKey(cid int32, d *DescribedDevice) record.Key {
	return record.Key{CID: cid, MID: d.MID, MOID: record.DescriptionMOID, CapNs: d.FromNs}
}

func formatNs(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

// ReplaceDevice says that from a time on one device is in the place of another, as after the
// exchange of a meter: the old one is retired, and the new one, which gets an id if it has none,
// has what was known of the old one and is not known of itself. Each keeps its own readings and
// name, and is named in the description of the other. Both have the same connection, an attribute
// that queries group by: that of one of them, or the name of the old one.
//
// A device that was replaced before may be put back, and is in use again.
//
// Errors: *[DeviceError] if no device has the old name, if one of them was exchanged for another,
// or has another connection, or if the old one is described from later times only. Then the new
// one gets no id.
func (c *Client) ReplaceDevice(
	ctx context.Context, cid int32, old, name string, atNs int64,
) (oldMID, mid int64, err error) {
	if old == name {
		return 0, 0, inTheWay(cid, name, "it cannot replace itself")
	}
	if oldMID, err = c.knownDevice(ctx, cid, old); err != nil {
		return 0, 0, err
	}
	if err := registry.CheckName(name); err != nil {
		return 0, 0, err
	}
	ids, _, err := c.idsOfNames(ctx, cid, []string{name}, true)
	if err != nil {
		return 0, 0, err
	}
	both := map[string]int64{old: oldMID, name: ids[name]}
	known, _, err := c.descriptionsOf(ctx, cid, both)
	if err != nil {
		return 0, 0, err
	}
	if _, err := known.replace(cid, old, name, oldMID, ids[name], atNs); err != nil {
		return 0, 0, err // before the new device gets an id
	}
	if ids, _, err = c.idsOfNames(ctx, cid, []string{name}, false); err != nil {
		return 0, 0, err
	}
	mid = ids[name]
	both[name] = mid
	err = c.redescribe(ctx, cid, both, false, func(
		known deviceVersions,
	) ([]DescribedDevice, error) {
		return known.replace(cid, old, name, oldMID, mid, atNs)
	})
	return oldMID, mid, err
}

// replace returns the descriptions by which one device replaces another.
func (v deviceVersions) replace(
	cid int32, old, name string, oldMID, mid, atNs int64,
) (changed []DescribedDevice, err error) {
	was := v.at(oldMID, atNs)
	if all := v.all[oldMID]; was.FromNs == math.MinInt64 && len(all) > 0 {
		return nil, inTheWay(cid, old, "its first description is from "+
			formatNs(all[0].FromNs)+", after the exchange; give a time from then on, or describe "+
			"it from an earlier time")
	}
	connection, err := v.connection(cid, old, name, oldMID, mid, atNs)
	if err != nil {
		return nil, err
	}
	for _, d := range v.from(oldMID, atNs) {
		if d.ReplacedBy != 0 && d.ReplacedBy != mid {
			return nil, inTheWay(cid, old, v.replacedBy(oldMID, d.ReplacedBy))
		}
		d.Name, d.Retired, d.ReplacedBy = old, true, mid
		connect(&d.Description, connection)
		changed = append(changed, d)
	}
	before := v.at(mid, atNs).ReplacedBy
	for i, d := range v.from(mid, atNs) {
		if i == 0 || before != 0 && d.ReplacedBy == before {
			d.Retired, d.ReplacedBy = false, 0
		}
		if d.Replaces != 0 && d.Replaces != oldMID {
			return nil, inTheWay(cid, name, fmt.Sprintf("it replaced device %d", d.Replaces))
		}
		inherit(&d.Description, &was.Description)
		d.Name, d.Replaces = name, oldMID
		connect(&d.Description, connection)
		changed = append(changed, d)
	}
	return changed, nil
}

// replacedBy tells that a device was replaced by another one before.
func (v deviceVersions) replacedBy(mid, by int64) string {
	for _, d := range v.all[mid] {
		if d.ReplacedBy == by {
			return fmt.Sprintf("device %d replaced it; if that is wrong, delete its descriptions "+
				"from %s on first", by, formatNs(d.FromNs))
		}
	}
	return fmt.Sprintf("device %d replaced it", by)
}

// connection returns what is to be the connection of a device and of the one that replaces it: that
// of either, or the name of the first.
func (v deviceVersions) connection(
	cid int32, old, name string, oldMID, mid, atNs int64,
) (registry.Value, error) {
	own, has := v.at(oldMID, atNs).Attributes[registry.KeyConnection]
	for _, d := range v.from(mid, atNs) {
		later, ok := d.Attributes[registry.KeyConnection]
		switch {
		case !ok || has && later == own:
		case has || d.FromNs == atNs && d.ReplacedBy != 0:
			return own, inTheWay(cid, name, fmt.Sprintf("its %s is %v, and a device has one with "+
				"all its readings; set that of %s to the same if they are one, or give the "+
				"device another name at its new place", registry.KeyConnection, later, old))
		default:
			own, has = later, true
		}
	}
	if !has {
		own = registry.Text(old)
	}
	return own, nil
}

// connect gives a description a connection.
func connect(d *registry.Description, connection registry.Value) {
	attributes := maps.Clone(d.Attributes)
	if attributes == nil {
		attributes = map[string]registry.Value{}
	}
	attributes[registry.KeyConnection] = connection
	d.Attributes = attributes
}

// from returns the description that a device is to have from a time on, and those after it.
func (v deviceVersions) from(mid, ns int64) []DescribedDevice {
	first := v.at(mid, ns)
	first.FromNs = ns
	out := []DescribedDevice{first}
	for _, d := range v.all[mid] {
		if d.FromNs > ns {
			out = append(out, d)
		}
	}
	return out
}

// inherit fills in what is not known of a device by what was known of the one before it.
func inherit(d, was *registry.Description) {
	if d.Type == "" {
		d.Type = was.Type
	}
	if d.Group == "" {
		d.Group = was.Group
	}
	if d.Place == nil {
		d.Place = was.Place
	}
	if len(was.Attributes) > 0 {
		attributes := maps.Clone(was.Attributes)
		maps.Copy(attributes, d.Attributes)
		d.Attributes = attributes
	}
}
