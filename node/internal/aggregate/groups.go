package aggregate

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// groupKey has the key parts that an aggregate groups by; the others are 0.
type groupKey struct {
	cid, moid   int32
	mid, cap    int64
	predecessor bool // of rows before the box: it is no group of the answer
}

func (k groupKey) compare(o groupKey) int {
	first := 0
	if k.predecessor != o.predecessor {
		first = 1
		if k.predecessor {
			first = -1
		}
	}
	return cmp.Or(cmp.Compare(k.cid, o.cid), cmp.Compare(k.mid, o.mid),
		cmp.Compare(k.moid, o.moid), first, cmp.Compare(k.cap, o.cap))
}

// bucket is the time range [start, start+span) of one group.
type bucket struct {
	start int64
	span  uint64
}

// bucketOf returns the bucket of a width that contains ns, also before 1970. The first bucket
// begins at the least time.
func bucketOf(ns, width int64) bucket {
	past := ns % width
	if past < 0 {
		past += width
	}
	if ns < math.MinInt64+past {
		return bucket{math.MinInt64, uint64(ns-math.MinInt64) + uint64(width-past)}
	}
	return bucket{ns - past, uint64(width)}
}

func (x bucket) contains(ns int64) bool { return ns >= x.start && uint64(ns-x.start) < x.span }

// GroupTable assigns numbers to the groups of one worker. For more than a few groups it has a hash
// table with open addressing, at most half full, with a random seed, so that clients cannot choose
// keys that collide.
type GroupTable struct {
	by           record.GroupBy
	predecessors bool // of all keys
	max          int
	keys         []groupKey
	counts       []uint64
	slots        []uint32 // number of a group + 1, 0 for a free entry; empty for a few groups
	seed         [3]uint64
	bucket       bucket // of the previous row

	windows *calendar.Table // nil without a calendar window

	devices   *DeviceValues // nil without a key of descriptions
	lastMID   int64         // whose value is lastValue, if hasLast
	lastValue int64
	hasLast   bool
}

const (
	fewGroups  = 2
	firstSlots = 1 << 8
)

// NewGroupTable returns an empty set of groups; cal is the calendar of the window, or nil, devices
// what they have for the key of descriptions, or nil.
func NewGroupTable(
	by record.GroupBy, cal *calendar.Calendar, devices *DeviceValues, maxGroups int,
) *GroupTable {
	g := &GroupTable{by: by, devices: devices, max: maxGroups}
	if cal != nil {
		g.windows = calendar.NewTable(cal)
	}
	return g
}

// Len returns how many groups there are.
func (g *GroupTable) Len() int { return len(g.keys) }

// NewPredecessorTable returns an empty set of groups of rows before the box, one for each series.
func NewPredecessorTable(by record.GroupBy, devices *DeviceValues, maxGroups int) *GroupTable {
	return &GroupTable{by: record.GroupBy{CID: by.CID, MID: by.MID, MOID: by.MOID, Key: by.Key},
		devices: devices, predecessors: true, max: maxGroups}
}

// all reports whether all rows are one group.
func (g *GroupTable) all() bool { return g.by == record.GroupBy{} }

// startOf returns the start of the bucket of ns. Usually that is the bucket of the previous row or
// the next one, which takes no division.
func (g *GroupTable) startOf(ns, width int64) int64 {
	if g.bucket.contains(ns) {
		return g.bucket.start
	}
	if uint64(ns-g.bucket.start)-g.bucket.span < uint64(width) && ns >= g.bucket.start {
		g.bucket = bucket{g.bucket.start + int64(g.bucket.span), uint64(width)}
	} else {
		g.bucket = bucketOf(ns, width)
	}
	return g.bucket.start
}

// windowOf returns the start of the window of ns, and makes it the bucket of this row.
func (g *GroupTable) windowOf(ns int64) int64 {
	if !g.bucket.contains(ns) {
		from, to := g.windows.Window(ns)
		g.bucket = bucket{from, uint64(to - from)}
	}
	return g.bucket.start
}

func (g *GroupTable) keyOf(b *record.Batch, i int) groupKey {
	k := groupKey{predecessor: g.predecessors}
	if g.by.CID {
		k.cid = b.CID[i]
	}
	switch {
	case g.by.MID:
		k.mid = b.MID[i]
	case g.devices != nil:
		k.mid = g.valueOf(b.MID[i])
	}
	if g.by.MOID {
		k.moid = b.MOID[i]
	}
	if g.windows != nil {
		k.cap = g.windowOf(b.CapNs[i])
	} else if width := g.by.CapBucketNs; width > 0 {
		k.cap = g.startOf(b.CapNs[i], width)
	}
	return k
}

// valueOf returns the number of the value of a device. Usually that is the device of the last call.
func (g *GroupTable) valueOf(mid int64) int64 {
	if !g.hasLast || g.lastMID != mid {
		g.lastMID, g.lastValue, g.hasLast = mid, g.devices.number(mid), true
	}
	return g.lastValue
}

// hash folds products of the parts with secrets.
func (g *GroupTable) hash(k groupKey) uint64 {
	hi, lo := bits.Mul64(uint64(k.mid)^g.seed[0], uint64(k.cap)^g.seed[1])
	small := uint64(uint32(k.cid))<<32 | uint64(uint32(k.moid))
	hi, lo = bits.Mul64(hi^lo^small, g.seed[2]|1)
	return hi ^ lo
}

// id returns the number of a group, a new one for a new key.
func (g *GroupTable) id(k groupKey) (uint32, error) {
	at := uint64(0)
	if len(g.slots) == 0 {
		if i := slices.Index(g.keys, k); i >= 0 {
			return uint32(i), nil
		}
	} else {
		mask := uint64(len(g.slots) - 1)
		for at = g.hash(k) & mask; g.slots[at] != 0; at = (at + 1) & mask {
			if id := g.slots[at] - 1; g.keys[id] == k {
				return id, nil
			}
		}
	}
	if len(g.keys) >= g.max {
		return 0, tooManyGroups(g.max)
	}
	g.keys = append(g.keys, k)
	g.counts = append(g.counts, 0)
	if len(g.slots) > 0 {
		g.slots[at] = uint32(len(g.keys))
	}
	if len(g.keys) > max(fewGroups, len(g.slots)/2) {
		g.spread()
	}
	return uint32(len(g.keys) - 1), nil
}

// spread creates the table, or enlarges it by a factor of four.
func (g *GroupTable) spread() {
	if len(g.slots) == 0 {
		for i := range g.seed {
			g.seed[i] = rand.Uint64()
		}
	}
	g.slots = make([]uint32, max(firstSlots, 4*len(g.slots)))
	mask := uint64(len(g.slots) - 1)
	for i, k := range g.keys {
		at := g.hash(k) & mask
		for g.slots[at] != 0 {
			at = (at + 1) & mask
		}
		g.slots[at] = uint32(i + 1)
	}
}

// forget removes all groups.
func (g *GroupTable) forget() {
	g.keys, g.counts = g.keys[:0], g.counts[:0]
	clear(g.slots)
}

// Number appends the group of each row to dst; with an error, those of the rows before the first
// whose group exceeds the limit. Adjacent rows are usually of one group.
func (g *GroupTable) Number(b *record.Batch, dst []uint32) (_ []uint32, err error) {
	for from := 0; from < b.Len(); {
		id, err := g.id(g.keyOf(b, from))
		if err != nil {
			return dst, err
		}
		to := g.runEnd(b, from)
		for range to - from {
			dst = append(dst, id)
		}
		g.counts[id] += uint64(to - from)
		from = to
	}
	return dst, nil
}

// firstLook is how many rows are compared first: one part of the key may change with every row, and
// another not at all in a batch.
const firstLook = 8

// runEnd returns the end of the run of rows of one group that begins at from.
func (g *GroupTable) runEnd(b *record.Batch, from int) int {
	for look := firstLook; ; look *= 2 {
		to := min(from+look, b.Len())
		if end := g.runWithin(b, from, to); end < to || to == b.Len() {
			return end
		}
	}
}

// runWithin is runEnd among the rows before to.
func (g *GroupTable) runWithin(b *record.Batch, from, to int) int {
	switch {
	case g.by.MID:
		to = equalUntil(b.MID, from, to)
	case g.devices != nil:
		to = g.sameValueUntil(b.MID, from, to)
	}
	if g.by.CID {
		to = equalUntil(b.CID, from, to)
	}
	if g.by.MOID {
		to = equalUntil(b.MOID, from, to)
	}
	if g.by.ByCap() {
		for i, ns := range b.CapNs[from:to] {
			if !g.bucket.contains(ns) { // the bucket of from
				return from + i
			}
		}
	}
	return to
}

// sameValueUntil returns the first index in [from, to) of a device with another value than that at
// from, else to.
func (g *GroupTable) sameValueUntil(mids []int64, from, to int) int {
	first := g.valueOf(mids[from])
	for i, mid := range mids[from:to] {
		if mid != g.lastMID && g.valueOf(mid) != first {
			return from + i
		}
	}
	return to
}

// equalUntil returns the first index in [from, to) whose value differs from that at from, else to.
func equalUntil[T int32 | int64](column []T, from, to int) int {
	first := column[from]
	for i, v := range column[from:to] {
		if v != first {
			return from + i
		}
	}
	return to
}

func tooManyGroups(most int) error {
	return &wire.Error{Kind: wire.KindPluginLimit, Message: fmt.Sprintf(
		"more than %d groups; group by less or narrow the box", most)}
}
