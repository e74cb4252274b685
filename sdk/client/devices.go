package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// Names of devices are records of reserved moids, so that they are replicated, synchronized and
// backed up with the readings. Two kinds of claims give ids to names without a lock:
//
//	a name   cid, mid = 12 bits of the name's hash, cap = 62 bits of it, moid = record.NameMOID
//	         payload: the id that the name is to have, in 8 bytes, and the name
//	ids      cid, mid = idMID, cap = the first of a run of ids, moid = record.IDBlockMOID
//	         payload: 16 random bytes of the claimant, and how many ids it takes, in 8 bytes
//
// Of all versions of a claim the one with the least acq holds: clients that claim the same name or
// the same ids read the claim after they wrote theirs, and all find the same winner. A tombstone
// takes back the claims of a name before it.
const (
	nameBuckets  = 1 << 12
	idMID        = nameBuckets // behind those of names
	firstGivenID = 1 << 40     // above what people choose by hand, and exact as a float64
	idClaimBytes = 16 + 8
	maxNames     = 1000 // of one question: fewer than the ranges that a box may have
	maxIDTries   = 100  // each time another client went on
)

// Device is a device that has a name.
type Device struct {
	MID  int64
	Name string
}

// FindDevices returns the ids of names of devices of a tenant, in the order of names; that of a
// name that no device has is 0, which no name gets.
//
// Cost: one query for 1,000 names.
func (c *Client) FindDevices(ctx context.Context, cid int32, names []string) ([]int64, error) {
	ids := make([]int64, 0, len(names))
	for some := range slices.Chunk(names, maxNames) {
		found, err := c.nameClaims(ctx, cid, some)
		if err != nil {
			return nil, err
		}
		for _, name := range some {
			ids = append(ids, found[name])
		}
	}
	return ids, nil
}

// NameDevices returns the ids of names of devices of a tenant, in the order of names, and gives ids
// to the names that have none: created of them. A name has the same id for all clients, also for
// those that name it at the same time, and keeps it. New ids follow each other and are at least
// 2^40.
//
// Errors: those of record.CheckDeviceName, of puts and of queries. Names before the error may have
// got their ids: the same call returns them.
//
// Cost: a query for 1,000 names, and if some are new three more and two puts.
func (c *Client) NameDevices(
	ctx context.Context, cid int32, names []string,
) (ids []int64, created int, err error) {
	for _, name := range names {
		if err := record.CheckDeviceName(name); err != nil {
			return nil, 0, err
		}
	}
	for some := range slices.Chunk(names, maxNames) {
		found, n, err := c.nameSome(ctx, cid, some)
		if err != nil {
			return nil, created, err
		}
		created += n
		for _, name := range some {
			ids = append(ids, found[name])
		}
	}
	return ids, created, nil
}

// Devices returns the devices of a tenant that have names, by name.
//
// Cost: a scan of all names of the tenant.
func (c *Client) Devices(ctx context.Context, cid int32) ([]Device, error) {
	return c.claimed(ctx, &record.Query{Box: record.Box{record.CID: {record.At(int64(cid))},
		record.MOID: {record.At(record.NameMOID)}}})
}

// nameSome is NameDevices for at most maxNames.
func (c *Client) nameSome(
	ctx context.Context, cid int32, names []string,
) (ids map[string]int64, created int, err error) {
	if ids, err = c.nameClaims(ctx, cid, names); err != nil {
		return nil, 0, err
	}
	var fresh []string
	for _, name := range names {
		if _, ok := ids[name]; !ok {
			ids[name] = 0
			fresh = append(fresh, name)
		}
	}
	if len(fresh) == 0 {
		return ids, 0, nil
	}
	first, err := c.takeIDs(ctx, cid, len(fresh))
	if err != nil {
		return nil, 0, err
	}
	var b record.Batch
	for i, name := range fresh {
		id := binary.LittleEndian.AppendUint64(nil, uint64(first)+uint64(i))
		b.Append(nameKey(cid, name), append(id, name...))
	}
	if _, err := c.Put(ctx, &b, [16]byte{}, 0); err != nil {
		return nil, 0, fmt.Errorf("store names of devices: %w", err)
	}
	won, err := c.nameClaims(ctx, cid, fresh)
	if err != nil {
		return nil, 0, err
	}
	for i, name := range fresh {
		id, ok := won[name]
		if !ok {
			return nil, 0, fmt.Errorf("the name %q was removed at the same time; try again", name)
		}
		if ids[name] = id; id == first+int64(i) {
			created++
		}
	}
	return ids, created, nil
}

// takeIDs claims n ids that follow each other.
func (c *Client) takeIDs(ctx context.Context, cid int32, n int) (first int64, err error) {
	own := make([]byte, 16, idClaimBytes)
	if _, err := rand.Read(own); err != nil {
		panic("BUG: no randomness: " + err.Error())
	}
	own = binary.LittleEndian.AppendUint64(own, uint64(n))
	key := record.Key{CID: cid, MID: idMID, MOID: record.IDBlockMOID, CapNs: firstGivenID}
	newest := record.Query{View: record.ViewLatest, Last: 1, Box: seriesBox(key)}
	if err := c.eachOf(ctx, &newest, func(r record.Record) {
		key.CapNs = max(key.CapNs, r.CapNs)
	}); err != nil {
		return 0, err
	}
	for range maxIDTries {
		claim, err := c.firstIDClaim(ctx, key)
		switch {
		case err != nil:
			return 0, err
		case claim == nil:
			var b record.Batch
			b.Append(key, own)
			if _, err := c.Put(ctx, &b, [16]byte{}, 0); err != nil {
				return 0, fmt.Errorf("take ids for devices: %w", err)
			}
		case bytes.Equal(claim, own):
			return key.CapNs, nil
		default:
			key.CapNs += idsOf(claim)
		}
	}
	return 0, fmt.Errorf("tenant %d: other clients took ids for devices %d times in turn; try "+
		"again", cid, maxIDTries)
}

// firstIDClaim returns the claim of a run of ids that holds, nil if there is none.
func (c *Client) firstIDClaim(ctx context.Context, key record.Key) (claim []byte, err error) {
	q := record.Query{Box: seriesBox(key)}
	q.Box[record.Cap] = record.RangeSet{record.At(key.CapNs)}
	acqNs := int64(math.MaxInt64)
	err = c.eachOf(ctx, &q, func(r record.Record) {
		if r.AcqNs < acqNs && idsOf(r.Payload) > 0 {
			claim, acqNs = bytes.Clone(r.Payload), r.AcqNs
		}
	})
	return claim, err
}

// idsOf returns how many ids a claim takes, 0 if it is none.
func idsOf(claim []byte) int64 {
	if len(claim) != idClaimBytes {
		return 0
	}
	n := binary.LittleEndian.Uint64(claim[16:])
	if n > maxNames {
		return 0
	}
	return int64(n)
}

// nameClaims returns the ids of those names that have one.
func (c *Client) nameClaims(
	ctx context.Context, cid int32, names []string,
) (map[string]int64, error) {
	q := record.Query{Box: record.Box{record.CID: {record.At(int64(cid))},
		record.MOID: {record.At(record.NameMOID)}}}
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		if key := nameKey(cid, name); !wanted[name] {
			wanted[name] = true
			q.Box[record.MID] = append(q.Box[record.MID], record.At(key.MID))
			q.Box[record.Cap] = append(q.Box[record.Cap], record.At(key.CapNs))
		}
	}
	devices, err := c.claimed(ctx, &q)
	ids := make(map[string]int64, len(names))
	for _, d := range devices {
		if wanted[d.Name] {
			ids[d.Name] = d.MID
		}
	}
	return ids, err
}

// claimed returns the devices whose claims of a name are in a box and hold, by name.
func (c *Client) claimed(ctx context.Context, q *record.Query) ([]Device, error) {
	type claim struct {
		key record.Key
		Device
	}
	var claims []claim
	if err := c.eachOf(ctx, q, func(r record.Record) {
		if r.Tomb {
			claims = append(claims, claim{key: r.Key})
			return
		}
		if len(r.Payload) < 8 {
			return
		}
		d := Device{int64(binary.LittleEndian.Uint64(r.Payload)), string(r.Payload[8:])}
		key := nameKey(r.CID, d.Name)
		if key.AcqNs = r.AcqNs; key == r.Key && d.MID >= firstGivenID && d.MID < math.MaxInt64 {
			claims = append(claims, claim{r.Key, d})
		}
	}); err != nil {
		return nil, err
	}
	slices.SortFunc(claims, func(a, b claim) int { return a.key.Compare(b.key) })
	var out []Device
	from := 0 // of the names of this key
	for i, one := range claims {
		if i > 0 && (one.key.MID != claims[i-1].key.MID || one.key.CapNs != claims[i-1].key.CapNs) {
			from = len(out)
		}
		same := func(d Device) bool { return d.Name == one.Name }
		switch {
		case one.Name == "": // a tombstone
			out = out[:from]
		case !slices.ContainsFunc(out[from:], same):
			out = append(out, one.Device)
		}
	}
	slices.SortFunc(out, func(a, b Device) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// eachOf hands over the records of an answer that must be whole and of now.
func (c *Client) eachOf(
	ctx context.Context, q *record.Query, take func(record.Record),
) error {
	end, err := c.Linearizable().Scan(ctx, q, func(b *record.Batch) error {
		for i := range b.Len() {
			take(record.Record{Key: b.Key(i), Payload: b.Payload(i), Tomb: b.Tomb(i)})
		}
		return nil
	})
	if err == nil && !end.Complete {
		err = fmt.Errorf("the answer is incomplete: %s", end.Reason)
	}
	if err != nil {
		return fmt.Errorf("read devices: %w", err)
	}
	return nil
}

// nameKey is where a name is claimed.
func nameKey(cid int32, name string) record.Key {
	sum := sha256.Sum256([]byte(name))
	return record.Key{CID: cid, MID: int64(binary.LittleEndian.Uint16(sum[8:]) % nameBuckets),
		MOID: record.NameMOID, CapNs: int64(binary.LittleEndian.Uint64(sum[:]) >> 2)}
}

// seriesBox holds all records of the series of a key.
func seriesBox(key record.Key) record.Box {
	return record.Box{record.CID: {record.At(int64(key.CID))}, record.MID: {record.At(key.MID)},
		record.MOID: {record.At(int64(key.MOID))}}
}
