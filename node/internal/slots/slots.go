// Package slots maps devices to hash slots, and slots to their owners: shards of a store, or shard
// groups of a cluster.
//
// It knows neither stores nor nodes, and starts no goroutines. Its main types are [Range] and
// [Map].
package slots

import (
	"encoding/binary"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/zeebo/xxh3"
)

const (
	// Count is the number of slots; it never changes.
	Count = 1 << 14
	// DeviceRangeBits is the number of low bits of a device that do not change its slot. The
	// devices that differ in them only are a device range: adjacent devices are often queried
	// together, and so are stored together. A cell of a head has as many.
	DeviceRangeBits = 8
	// maxDeviceRanges is the number of (cid, device range) pairs of a box up to which its slots are
	// computed; a larger box overlaps most owners anyway.
	maxDeviceRanges = 64
)

// Of returns the slot of a device: 256 adjacent devices share one.
func Of(cid int32, mid int64) uint32 {
	var key [12]byte
	binary.LittleEndian.PutUint32(key[:], uint32(cid))
	binary.LittleEndian.PutUint64(key[4:], uint64(mid>>DeviceRangeBits))
	return uint32(xxh3.Hash(key[:])) & (Count - 1)
}

// OwnerOf returns which of n owners, which own adjacent ranges of slots, owns a slot.
func OwnerOf(slot uint32, owners int) int { return int(slot) * owners / Count }

// Span returns the slots [from, to) of an owner.
func Span(owner, owners int) (from, to uint32) {
	first := func(owner int) uint32 { return uint32((owner*Count + owners - 1) / owners) }
	return first(owner), first(owner + 1)
}

// Owners returns for each owner whether it can have devices of the box; nil if all can.
func Owners(box *record.Box, owners int) []bool {
	if owners == 1 {
		return nil
	}
	slots, ok := named(box)
	if !ok {
		return nil
	}
	wanted := make([]bool, owners)
	for _, slot := range slots {
		wanted[OwnerOf(slot, owners)] = true
	}
	return wanted
}

// named returns the slots of the devices that a box names, if these are few.
func named(box *record.Box) (slots []uint32, ok bool) {
	ok = EachDeviceRange(box, func(cid int32, mid int64) { slots = append(slots, Of(cid, mid)) })
	return slots, ok
}

// EachDeviceRange calls visit with a device of each device range of those that a box names, if
// these are few, and reports whether they are.
func EachDeviceRange(box *record.Box, visit func(cid int32, mid int64)) (few bool) {
	cids, ok := values(box[record.CID])
	if !ok {
		return false
	}
	var ranges []int64
	for _, r := range box[record.MID] {
		if uint64(r.To-r.From)>>DeviceRangeBits >= maxDeviceRanges {
			return false
		}
		for b := r.From >> DeviceRangeBits; b <= (r.To-1)>>DeviceRangeBits; b++ {
			ranges = append(ranges, b)
		}
	}
	if len(ranges) == 0 || len(ranges)*len(cids) > maxDeviceRanges {
		return false
	}
	for _, cid := range cids {
		for _, b := range ranges {
			visit(int32(cid), b<<DeviceRangeBits)
		}
	}
	return true
}

// values lists the values of a set, if these are few.
func values(set record.RangeSet) ([]int64, bool) {
	var out []int64
	for _, r := range set {
		if uint64(r.To-r.From) > maxDeviceRanges || len(out) > maxDeviceRanges {
			return nil, false
		}
		for v := r.From; v < r.To; v++ {
			out = append(out, v)
		}
	}
	return out, len(out) > 0
}

// Memo caches the slots of recent devices. The zero value is ready; it is used by one goroutine at
// a time.
type Memo struct {
	known [256]struct {
		deviceRange int64
		cid         int32
		next        uint32 // the slot plus 1; 0 for none
	}
}

// Of is [Of], in a fifth of the time for a device in the cache.
func (m *Memo) Of(cid int32, mid int64) uint32 {
	deviceRange := mid >> DeviceRangeBits
	k := &m.known[uint8(deviceRange)^uint8(uint32(cid)*59)]
	if k.deviceRange != deviceRange || k.cid != cid || k.next == 0 {
		k.deviceRange, k.cid, k.next = deviceRange, cid, Of(cid, mid)+1
	}
	return k.next - 1
}
