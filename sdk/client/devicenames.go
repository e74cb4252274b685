package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/sdk/record"
)

// The claim of a name and the device that it names are stored in different groups of a cluster, of
// which no batch changes both at once. So the device says what became of its name, and there it is
// decided, by one conditional batch together with its descriptions:
//
//   - A claim holds if its device says nothing of its name, or says that name.
//   - A removal first says that the device has none, which stays so for ever, and then takes the
//     claim back.
//   - A rename first has the device say the old name, if it said nothing, then claims the new one,
//     then says it, and then takes the old claim back.
//   - A claim that does not hold is one of a rename or a removal that has not ended, or never will.
//     Who needs the name takes it back, having put again what the device says: a rename that has
//     claimed the name, but not said it, is refused by that, and claims it again.
//
// Each step is refused if what it follows from has changed since it was read.

// claim is the claim of a name as it was read.
type claim struct {
	Device
	newestNs int64 // greatest acq that its versions may have had
}

// saidName is what a device says of its name.
type saidName struct {
	name     string // empty: it was removed
	newestNs int64  // greatest acq that it may have had
}

// formerClaim is a claim that does not hold, as its device says.
type formerClaim struct {
	claim
	says saidName
}

// heldNames are names of devices, by what their claims and their devices say.
type heldNames struct {
	ids    map[string]int64 // that have a device
	claims map[string]claim // of these
	former []formerClaim    // of others
}

// heldNames returns which of some names have a device, as known before an acq; 0: now.
func (c *Client) heldNames(
	ctx context.Context, cid int32, names []string, asOfNs int64,
) (held heldNames, err error) {
	// The claims come first: see takeBack.
	all, err := c.claimsOf(ctx, cid, names, asOfNs)
	if err != nil {
		return held, err
	}
	mids := make([]int64, 0, len(all))
	for _, one := range all {
		mids = append(mids, one.MID)
	}
	says, err := c.saidNames(ctx, cid, mids, asOfNs)
	if err != nil {
		return held, err
	}
	held.ids = make(map[string]int64, len(all))
	held.claims = make(map[string]claim, len(all))
	for _, one := range all {
		if said, ok := says[one.MID]; ok && said.name != one.Name {
			held.former = append(held.former, formerClaim{one, said})
			continue
		}
		held.ids[one.Name], held.claims[one.Name] = one.MID, one
	}
	return held, nil
}

// claimsOf returns the claims of names, whether they hold or not.
func (c *Client) claimsOf(
	ctx context.Context, cid int32, names []string, asOfNs int64,
) (all []claim, err error) {
	wanted := make(map[string]bool, len(names))
	keys := make([]record.Key, 0, len(names))
	for _, name := range names {
		if !wanted[name] {
			wanted[name] = true
			keys = append(keys, record.NameClaimKey(cid, name))
		}
	}
	slices.SortFunc(keys, record.Key.Compare) // those near each other are in the same blocks
	var mu sync.Mutex                         // guards all
	chunks := slices.Collect(slices.Chunk(keys, maxNames))
	return all, eachOfMany(chunks, true, func(some []record.Key) error {
		q := namesBefore(cid, asOfNs)
		for _, key := range some {
			q.Box[record.MID] = append(q.Box[record.MID], record.At(key.MID))
			q.Box[record.Cap] = append(q.Box[record.Cap], record.At(key.CapNs))
		}
		var found []claim
		end, err := c.readDevices(ctx, q, func(r record.Record) {
			mid, name, err := record.ParseNameClaim(r.Key, r.Payload)
			if err == nil && wanted[name] {
				found = append(found, claim{Device: Device{mid, name}})
			}
		})
		for i := range found {
			found[i].newestNs = end.HorizonNs - 1
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, found...)
		return err
	})
}

// saidNames returns what devices say of their names, of those that say something.
func (c *Client) saidNames(
	ctx context.Context, cid int32, mids []int64, asOfNs int64,
) (says map[int64]saidName, err error) {
	slices.Sort(mids)
	says = map[int64]saidName{}
	var mu sync.Mutex // guards says
	chunks := slices.Collect(slices.Chunk(mids, maxNames))
	return says, eachOfMany(chunks, true, func(some []int64) error {
		q := namesBefore(cid, asOfNs)
		q.Box[record.MOID] = record.RangeSet{record.At(record.DeviceNameMOID)}
		for _, mid := range some {
			q.Box[record.MID] = append(q.Box[record.MID], record.At(mid))
		}
		found := map[int64]string{}
		end, err := c.readDevices(ctx, q, func(r record.Record) {
			if name, err := record.ParseDeviceName(r.Key, r.Payload); err == nil {
				found[r.MID] = name
			}
		})
		mu.Lock()
		defer mu.Unlock()
		for mid, name := range found {
			says[mid] = saidName{name, end.HorizonNs - 1}
		}
		return err
	})
}

// named returns the devices of a tenant that have names as known before an acq, by name; 0: now.
func (c *Client) named(ctx context.Context, cid int32, asOfNs int64) (all []Device, err error) {
	q := namesBefore(cid, asOfNs)
	q.Box[record.MOID] = append(q.Box[record.MOID], record.At(record.DeviceNameMOID))
	says := map[int64]string{}
	err = c.eachOf(ctx, q, func(r record.Record) {
		if r.MOID == record.DeviceNameMOID {
			if name, err := record.ParseDeviceName(r.Key, r.Payload); err == nil {
				says[r.MID] = name
			}
		} else if mid, name, err := record.ParseNameClaim(r.Key, r.Payload); err == nil {
			all = append(all, Device{mid, name})
		}
	})
	all = slices.DeleteFunc(all, func(d Device) bool {
		name, ok := says[d.MID]
		return ok && name != d.Name
	})
	slices.SortFunc(all, func(a, b Device) int { return cmp.Compare(a.Name, b.Name) })
	return all, err
}

// namesBefore asks for the claims of all names of a tenant as known before an acq; 0: now.
func namesBefore(cid int32, acqNs int64) *record.Query {
	q := &record.Query{View: record.ViewLatest, Box: record.Box{
		record.CID: {record.At(int64(cid))}, record.MOID: {record.At(record.NameMOID)}}}
	if acqNs != 0 {
		q.View, q.AsOfAcqNs = record.ViewAsOf, acqNs
	}
	return q
}

// sayName stores what a device says of its name, unless that has changed since it was read.
func (c *Client) sayName(
	ctx context.Context, cid int32, mid int64, name string, newestNs int64,
) error {
	var b record.Batch
	b.Append(record.DeviceNameKey(cid, mid), []byte(name))
	if err := c.putDevices(ctx, &b, newestNs); err != nil {
		return fmt.Errorf("store the name that a device has: %w", err)
	}
	return nil
}

// takeBack takes back claims that do not hold, so that the names are free. Those that others have
// put again or taken back since are left to them.
//
// A claim that holds is not taken back: its device said its name after it was put. If that was
// before saidNames read what the device says, the claim held there; if it was later, sayName is
// refused, or was before the rename read what the device says, and then it put the claim after that
// read, so that the claim is newer than it was in heldNames.
func (c *Client) takeBack(ctx context.Context, cid int32, former []formerClaim) error {
	for i := range former {
		f := &former[i]
		err := c.sayName(ctx, cid, f.MID, f.says.name, f.says.newestNs)
		if err == nil {
			err = c.releaseClaim(ctx, cid, &f.claim)
		}
		if err != nil && !isConflict(err) {
			return err
		}
	}
	return nil
}

// releaseClaim takes back a claim as it was read. One that was put again or taken back since is
// left to those who did.
func (c *Client) releaseClaim(ctx context.Context, cid int32, of *claim) error {
	var b record.Batch
	b.AppendTomb(record.NameClaimKey(cid, of.Name))
	if err := c.putDevices(ctx, &b, of.newestNs); err != nil && !isConflict(err) {
		return fmt.Errorf("remove the name of a device: %w", err)
	}
	return nil
}
