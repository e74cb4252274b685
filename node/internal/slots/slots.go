// Package slots says which hash slot a device belongs to, and which range of slots a shard of a
// store or a group of a cluster owns.
//
// It knows neither stores nor nodes; it has no types and starts no goroutines.
package slots

import (
	"encoding/binary"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/zeebo/xxh3"
)

const (
	// Count is the number of slots; fixed for ever.
	Count = 1 << 14
	// blockBits: so many low bits of a device do not change its slot, so that neighbours, which are
	// often asked for together, lie together.
	blockBits = 6
	// maxBlocks is how many (cid, 64 devices) pairs a box may name for its slots to be worked out;
	// beyond that it meets most parts anyway.
	maxBlocks = 64
)

// Of returns the slot of a device: 64 neighbouring devices share one.
func Of(cid int32, mid int64) uint32 {
	var key [12]byte
	binary.LittleEndian.PutUint32(key[:], uint32(cid))
	binary.LittleEndian.PutUint64(key[4:], uint64(mid>>blockBits))
	return uint32(xxh3.Hash(key[:])) & (Count - 1)
}

// Part returns which of parts, all of which own neighbouring slots, owns a slot.
func Part(slot uint32, parts int) int { return int(slot) * parts / Count }

// Span returns the slots [from, to) that a part owns.
func Span(part, parts int) (from, to uint32) {
	first := func(part int) uint32 { return uint32((part*Count + parts - 1) / parts) }
	return first(part), first(part + 1)
}

// Parts tells for each part whether it can hold devices of the box; nil when all can.
func Parts(box *record.Box, parts int) []bool {
	cids, ok := values(box[record.CID])
	if !ok {
		return nil
	}
	var blocks []int64
	for _, r := range box[record.MID] {
		if uint64(r.To-r.From)>>blockBits >= maxBlocks {
			return nil
		}
		for b := r.From >> blockBits; b <= (r.To-1)>>blockBits; b++ {
			blocks = append(blocks, b)
		}
	}
	if len(blocks) == 0 || len(blocks)*len(cids) > maxBlocks {
		return nil
	}
	wanted := make([]bool, parts)
	for _, cid := range cids {
		for _, b := range blocks {
			wanted[Part(Of(int32(cid), b<<blockBits), parts)] = true
		}
	}
	return wanted
}

// values lists the values of a set, when it is constrained to a few.
func values(set record.RangeSet) ([]int64, bool) {
	var out []int64
	for _, r := range set {
		if uint64(r.To-r.From) > maxBlocks || len(out) > maxBlocks {
			return nil, false
		}
		for v := r.From; v < r.To; v++ {
			out = append(out, v)
		}
	}
	return out, len(out) > 0
}
