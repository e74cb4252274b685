package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// DeviceChange is what becomes of the description of a device from a time on.
type DeviceChange struct {
	Name   string // or an id in digits, of a device that need not have a name
	FromNs int64
	// Last says that the change holds from the last description of its device on if that is from
	// a later time than FromNs: what others say at the same time is not hidden, and hides nothing.
	Last bool
	registry.Change
}

// DeviceChanges counts what [Client.ChangeDevices] did.
type DeviceChanges struct {
	Created   int // names that had no id
	Described int // descriptions that were stored
	Unchanged int // changes of descriptions that said the same already
	Followed  int // descriptions that were stored and hold only until a later one that was there
}

// ChangeDevices changes descriptions of devices of a tenant: each is that which its device has at
// the time of the change, and holds from then on, until that of the next one. Changes of one device
// follow each other. Names that have no id get one. What says the same already is not stored
// again, so that a second call with the same changes does nothing.
//
// Errors: that of a description that cannot be, before anything is stored; those of NameDevices,
// queries and puts. Devices before the error may have been changed.
//
// Cost: that of NameDevices, and for 1,000 changes a put and two queries, unless all are of new
// names.
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
		if err := changes[i].checkNamed(); err != nil {
			return did, err
		}
	}
	chunks := slices.Collect(slices.Chunk(changes, describeSurely))
	names, byID := distinctNames(changes)
	var mu sync.Mutex // guards did
	// The changes of one device follow each other.
	err = eachOfMany(chunks, len(names)+len(byID) == len(changes), func(some []DeviceChange) error {
		one, err := c.changeChunk(ctx, cid, some, dry)
		mu.Lock()
		defer mu.Unlock()
		did.Created += one.Created
		did.Described += one.Described
		did.Unchanged += one.Unchanged
		did.Followed += one.Followed
		return err
	})
	return did, err
}

// chunksAtOnce chunks of devices are worked on at the same time: each waits for answers of the
// node, one after the other.
const chunksAtOnce = 4

// eachOfMany calls do with chunks of devices, several at the same time if they may be, until one
// fails.
func eachOfMany[T any](chunks []T, together bool, do func(T) error) (err error) {
	at := 1
	if together {
		at = min(chunksAtOnce, len(chunks))
	}
	var mu sync.Mutex // guards err and next
	next := 0
	var wg sync.WaitGroup
	for range at {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := i >= len(chunks) || err != nil
				mu.Unlock()
				if stop {
					return
				}
				oneErr := do(chunks[i])
				mu.Lock()
				err = cmp.Or(err, oneErr)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return err
}

// changeChunk is ChangeDevices for at most describeSurely changes.
func (c *Client) changeChunk(
	ctx context.Context, cid int32, changes []DeviceChange, dry bool,
) (did DeviceChanges, err error) {
	names, byID := distinctNames(changes)
	var described, followed int
	for try := 1; ; try++ {
		var ids map[string]int64
		var created int
		if ids, created, err = c.idsOfNames(ctx, cid, names, dry); err != nil {
			return did, err
		}
		maps.Copy(ids, byID)
		did.Created += created
		described, followed, err = c.changeSome(ctx, cid, changes, ids, created == len(ids), dry)
		if !isNameGone(err) || try == maxClaimTries {
			break
		}
	}
	if err == nil {
		did.Described, did.Unchanged = described, len(changes)-described
		did.Followed = followed
	}
	return did, err
}

// changeSome changes descriptions of devices by their ids. All are new, or not.
func (c *Client) changeSome(
	ctx context.Context, cid int32, changes []DeviceChange, ids map[string]int64, isNew, dry bool,
) (described, followed int, err error) {
	err = c.redescribe(ctx, cid, ids, isNew, func(
		known deviceVersions,
	) (changed []DescribedDevice, err error) {
		followed = 0
		for i := range changes {
			next, differs, err := known.change(ids[changes[i].Name], &changes[i])
			if err != nil {
				return nil, err
			}
			if !differs {
				continue
			}
			changed = append(changed, next)
			if known.last(next.MID) > next.FromNs {
				followed++
			}
		}
		if described = len(changed); dry {
			return nil, nil
		}
		return changed, nil
	})
	return described, followed, err
}

// nameGone is the reason of an error about a name that was removed, or given to another device,
// since its id was read.
const nameGone = "its name was removed at the same time"

func isNameGone(err error) bool {
	var device *DeviceError
	return errors.As(err, &device) && device.Reason == nameGone
}

// checkStillNamed says whether names still have these ids. What is stored then, unless descriptions
// are newer than those that were read before, is not that of a removed device: RemoveDevice puts
// tombstones of descriptions together with that of the name.
func (c *Client) checkStillNamed(ctx context.Context, cid int32, ids map[string]int64) error {
	var names []string
	for name := range ids {
		if _, isID := registry.ParseID(name); !isID {
			names = append(names, name)
		}
	}
	claims, err := c.nameClaims(ctx, cid, names, 0)
	if err != nil {
		return err
	}
	for _, name := range names {
		if claims[name] != ids[name] {
			return inTheWay(cid, name, nameGone)
		}
	}
	return nil
}

// redescribe stores the descriptions that change makes of all that devices have, again if others
// were faster. Devices that are new have none yet.
//
// Errors: also *[DeviceError] if a name was removed at the same time.
func (c *Client) redescribe(
	ctx context.Context, cid int32, ids map[string]int64, isNew bool,
	change func(known deviceVersions) ([]DescribedDevice, error),
) error {
	for try := 1; ; try++ {
		known, newestNs := deviceVersions{}, int64(0)
		if !isNew || try > 1 {
			var err error
			if known, newestNs, err = c.descriptionsOf(ctx, cid, ids); err != nil {
				return err
			}
		}
		changed, err := change(known)
		if err == nil && len(changed) > 0 && (!isNew || try > 1) {
			err = c.checkStillNamed(ctx, cid, ids)
		}
		if err == nil {
			err = c.DescribeUnlessNewer(ctx, cid, changed, newestNs)
		}
		if !isConflict(err) || try == maxClaimTries {
			return err
		}
	}
}

// checkNamed checks a change, and the name or the id of its device.
func (d *DeviceChange) checkNamed() error {
	name := d.Name
	if _, isID := registry.ParseID(name); isID {
		name = ""
	} else if err := registry.CheckName(name); err != nil {
		return err
	}
	if err := d.Check(name); err != nil {
		return fmt.Errorf("%s: %w", d.Name, err)
	}
	return nil
}

// distinctNames returns the names of devices that are changed, and ids in place of names.
func distinctNames(changes []DeviceChange) (names []string, byID map[string]int64) {
	seen := make(map[string]bool, len(changes))
	byID = map[string]int64{}
	for i := range changes {
		name := changes[i].Name
		if mid, isID := registry.ParseID(name); isID {
			byID[name] = mid
		} else if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names, byID
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
		if ids[name] = found[i]; found[i] == 0 { // each is a device of its own
			created++
			ids[name] = -int64(created)
		}
	}
	return ids, created, nil
}

// deviceVersions are descriptions of devices, by mid and ascending from when they hold.
type deviceVersions map[int64][]DescribedDevice

// descriptionsOf returns all descriptions of some devices, and an acq above which others may come.
func (c *Client) descriptionsOf(
	ctx context.Context, cid int32, ids map[string]int64,
) (known deviceVersions, newestNs int64, err error) {
	q := record.Query{Box: record.Box{record.CID: {record.At(int64(cid))},
		record.MOID: {record.At(record.DescriptionMOID)}}}
	for _, mid := range ids {
		if mid > 0 {
			q.Box[record.MID] = append(q.Box[record.MID], record.At(mid))
		}
	}
	known = deviceVersions{}
	if len(q.Box[record.MID]) == 0 {
		return known, 0, nil
	}
	all, horizonNs, err := c.descriptionsUntil(ctx, &q)
	for _, d := range all {
		known[d.MID] = append(known[d.MID], d)
	}
	return known, horizonNs - 1, err
}

// at returns the description that a device has at a time, an empty one if there is none.
func (v deviceVersions) at(mid, ns int64) DescribedDevice {
	return descriptionAt(v[mid], mid, ns)
}

// last returns the time from which the last description of a device is.
func (v deviceVersions) last(mid int64) int64 {
	if all := v[mid]; len(all) > 0 {
		return all[len(all)-1].FromNs
	}
	return math.MinInt64
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
	fromNs := by.FromNs
	if by.Last {
		fromNs = max(fromNs, v.last(mid))
	}
	before := v.at(mid, fromNs)
	next = before
	next.FromNs = fromNs
	if _, isID := registry.ParseID(by.Name); !isID {
		next.Name = by.Name
	}
	by.Apply(&next.Description)
	if err := next.Check(); err != nil {
		return next, false, &wire.Error{Kind: wire.KindInvalid, Part: "description",
			Message: by.Name + ": " + err.Error()}
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

// ChangeDeviceUnlessNewer is ChangeDevices of one device, whose descriptions were read before: if
// one of them is newer than an acq, nothing is stored. A device that has none has 0.
//
// Errors: as ChangeDevices; a *wire.Error of kind conflict.
func (c *Client) ChangeDeviceUnlessNewer(
	ctx context.Context, cid int32, change DeviceChange, newestNs int64,
) (described bool, err error) {
	if err := change.Check(change.Name); err != nil {
		return false, err
	}
	ids, _, err := c.NameDevices(ctx, cid, []string{change.Name})
	if err != nil {
		return false, err
	}
	known, _, err := c.descriptionsOf(ctx, cid, map[string]int64{change.Name: ids[0]})
	if err != nil {
		return false, err
	}
	next, _, err := known.change(ids[0], &change) // also what says the same tells what is newer
	if err != nil {
		return false, err
	}
	err = c.DescribeUnlessNewer(ctx, cid, []DescribedDevice{next}, newestNs)
	return err == nil, err
}
