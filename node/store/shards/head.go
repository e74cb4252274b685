package shards

import (
	"math"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/sdk/record"
)

// MaxHeadShards bounds the head shards of a head: each has memory that no row lies in yet.
const MaxHeadShards = 64

// Head is the head of a shard, divided by device into head shards, which goroutines fill at the
// same time. How many there are is of the process: on disk there is nothing of it, and no answer
// depends on it. The list never changes.
type Head struct {
	Shards []*index.Head
}

// HeadOf returns a head that is not divided.
func HeadOf(h *index.Head) Head { return Head{[]*index.Head{h}} }

// newHead returns an empty head of some head shards.
func newHead(older *index.Watermarks, count int) Head {
	h := Head{make([]*index.Head, count)}
	for i := range h.Shards {
		h.Shards[i] = index.NewHead(older)
	}
	return h
}

// HeadShardOf returns which of some head shards has the rows of a device: adjacent devices share
// one, as they share cells.
func HeadShardOf(cid int32, mid int64, count int) int {
	h := uint64(uint32(cid))*0x9e3779b97f4a7c15 ^ uint64(mid>>slots.DeviceRangeBits)
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return int(h >> 32 * uint64(count) >> 32)
}

// of returns the wanted head shards.
func (h Head) of(wanted []bool) Head {
	some := Head{make([]*index.Head, 0, 1)}
	for i, sh := range h.Shards {
		if wanted[i] {
			some.Shards = append(some.Shards, sh)
		}
	}
	return some
}

// headShardsOf returns for each of some head shards whether it can have devices of a box; nil if
// all can.
func headShardsOf(box *record.Box, count int) []bool {
	if count == 1 {
		return nil
	}
	wanted := make([]bool, count)
	if !slots.EachDeviceRange(box, func(cid int32, mid int64) {
		wanted[HeadShardOf(cid, mid, count)] = true
	}) {
		return nil
	}
	return wanted
}

// Pin begins a use of all head shards.
func (h Head) Pin() {
	for _, sh := range h.Shards {
		sh.Pin()
	}
}

// Unpin ends a use.
func (h Head) Unpin() {
	for _, sh := range h.Shards {
		sh.Unpin()
	}
}

// Rows returns the number of rows.
func (h Head) Rows() (rows int) {
	for _, sh := range h.Shards {
		rows += sh.Rows()
	}
	return rows
}

// Bytes returns about how much memory the rows take.
func (h Head) Bytes() (bytes int64) {
	for _, sh := range h.Shards {
		bytes += sh.Bytes()
	}
	return bytes
}

// GrowthSinceLastCall returns by how many bytes the memory of the rows has grown since the last
// call.
func (h Head) GrowthSinceLastCall() (bytes int64) {
	for _, sh := range h.Shards {
		bytes += sh.GrowthSinceLastCall()
	}
	return bytes
}

// ReportedGrowth returns what GrowthSinceLastCall has returned together.
func (h Head) ReportedGrowth() (bytes int64) {
	for _, sh := range h.Shards {
		bytes += sh.ReportedGrowth()
	}
	return bytes
}

// OldestAcq returns the acq of the first row, the greatest there is for none.
func (h Head) OldestAcq() int64 {
	oldest := int64(math.MaxInt64)
	for _, sh := range h.Shards {
		oldest = min(oldest, sh.OldestAcq())
	}
	return oldest
}

// CountBelow returns how many rows have an acq below an acq.
func (h Head) CountBelow(acqNs int64) (rows int) {
	for _, sh := range h.Shards {
		rows += sh.CountBelow(acqNs)
	}
	return rows
}

// Watermarks returns those of everything up to and with this head.
func (h Head) Watermarks() *index.Watermarks {
	all := h.Shards[0].Watermarks()
	for _, sh := range h.Shards[1:] {
		all.Raise(sh.Watermarks())
	}
	return all
}

// FreezeFlags ends the clearing of flags: all reads of the head see the same ones from now on.
func (h Head) FreezeFlags() {
	for _, sh := range h.Shards {
		sh.FreezeFlags()
	}
}

// ReadAll replaces the rows of a batch by all rows of the head in acq order, and returns their
// flags as a bitmap by rank. Nothing may be inserted afterwards; scans go on.
func (h Head) ReadAll(to *record.Batch) (flags []uint64) {
	flags, _ = index.ReadHeads(h.Shards, to)
	return flags
}

// ReadAllUnconfirmed is ReadAll of an immutable head. It also returns the ranks, in no order, of
// the rows that [index.Head.UnconfirmedFlags] finds.
func (h Head) ReadAllUnconfirmed(to *record.Batch) (flags []uint64, unconfirmed []uint32) {
	flags, ranks := index.ReadHeads(h.Shards, to)
	for i, sh := range h.Shards {
		list := sh.UnconfirmedFlags()
		if ranks != nil {
			for k, row := range list {
				list[k] = ranks[i][row]
			}
		}
		unconfirmed = append(unconfirmed, list...)
	}
	return flags, unconfirmed
}
