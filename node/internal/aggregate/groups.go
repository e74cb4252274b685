package aggregate

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"

	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
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
	groupMemory
	by           record.GroupBy
	predecessors bool // of all keys
	max          int
	last         uint32 // the group of the previous run
	kept         bool   // states that were saved share the memory
	seed         [3]uint64
	bucket       bucket // of the previous row

	windows *calendar.Table // nil without a calendar window

	devices   *DeviceValues // nil without a key of descriptions
	lastMID   int64         // whose value is lastValue, if hasLast
	lastValue int64
	hasLast   bool
}

// groupMemory is memory of a table that later ones use.
type groupMemory struct {
	keys   []groupKey
	counts []uint64
	after  []successor
	slots  []uint32 // number of a group + 1, 0 for a free entry; empty for a few groups
}

var groupMemories = sync.Pool{New: func() any { return new(groupMemory) }}

// maxPooledGroups: memory of this many groups is pooled, some 1.5 MiB.
const maxPooledGroups = 1 << 14

// takeMemory gives an empty table memory of an earlier one.
func (g *GroupTable) takeMemory() {
	m := groupMemories.Get().(*groupMemory)
	g.groupMemory = groupMemory{m.keys[:0], m.counts[:0], m.after[:0], m.slots[:0]}
}

// giveBack ends the use of a table.
func (g *GroupTable) giveBack() {
	if m := g.groupMemory; !g.kept && cap(m.keys) > 0 && cap(m.keys) <= maxPooledGroups {
		groupMemories.Put(&m)
	}
	g.groupMemory, g.kept = groupMemory{}, false
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
	g.takeMemory()
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

// seriesKey returns what the key of a row has of its series.
func (g *GroupTable) seriesKey(cid int32, mid int64, moid int32) groupKey {
	k := groupKey{predecessor: g.predecessors}
	if g.by.CID {
		k.cid = cid
	}
	switch {
	case g.by.MID:
		k.mid = mid
	case g.devices != nil:
		k.mid = g.valueOf(mid)
	}
	if g.by.MOID {
		k.moid = moid
	}
	return k
}

// capOf returns the start of the window or bucket of a cap, and makes it that of this row.
func (g *GroupTable) capOf(ns int64) int64 {
	if g.windows != nil {
		return g.windowOf(ns)
	}
	return g.startOf(ns, g.by.CapBucketNs)
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
	g.after = append(g.after, successor{})
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
	n := max(firstSlots, 4*len(g.slots))
	g.slots = slices.Grow(g.slots[:0], n)[:n]
	clear(g.slots)
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
	g.keys, g.counts, g.after = g.keys[:0], g.counts[:0], g.after[:0]
	clear(g.slots)
}

// AppendRuns appends the runs of rows of one group of a batch to dst; with an error, those before
// the first whose group exceeds the limit.
//
// Cost: some ns for each run, and for each series of the batch.
func (g *GroupTable) AppendRuns(
	b *record.Batch, dst []wasmhost.GroupRun,
) (_ []wasmhost.GroupRun, err error) {
	byCap := g.by.ByCap()
	for from, i := 0, 0; from < b.Len(); i++ {
		var k groupKey
		to := 0
		if len(b.Series) > 0 {
			s := &b.Series[i]
			k, to = g.seriesKey(s.CID, s.MID, s.MOID), int(s.End)
		} else {
			k = g.seriesKey(b.CID[from], b.MID[from], b.MOID[from])
			to = g.seriesEnd(b, from)
		}
		if byCap {
			dst, err = g.appendBuckets(dst, k, b.CapNs[:to], from, len(b.Series) > 0)
		} else {
			dst, err = g.appendGroup(dst, &k, from, to)
		}
		if err != nil {
			return dst, err
		}
		from = to
	}
	return dst, nil
}

// appendBuckets appends the rows from one on, which differ in their buckets only. Caps of a series
// ascend.
func (g *GroupTable) appendBuckets(
	dst []wasmhost.GroupRun, k groupKey, caps []int64, from int, ascend bool,
) ([]wasmhost.GroupRun, error) {
	for from < len(caps) {
		id, ok := g.following(&k, caps[from])
		if !ok {
			var err error
			k.cap = g.capOf(caps[from])
			if id, err = g.id(k); err != nil {
				return dst, err
			}
			g.after[g.last].next, g.after[id].span = id, g.bucket.span
		}
		g.last = id
		to := from + 1
		if ascend {
			to = from + g.bucketRows(caps[from:])
		}
		for !ascend && to < len(caps) && g.bucket.contains(caps[to]) {
			to++
		}
		dst = g.appendRun(dst, id, from, to)
		from = to
	}
	return dst, nil
}

// successor is what a group knows of the one after it. Rows of the same groups follow each other
// often, e.g. buckets of one device after the other, or devices of one block after the other.
type successor struct {
	span uint64 // of the bucket of the group itself
	next uint32 // the group of the run that came after one of it the last time
}

// successor returns the successor of the last group. It is not ok where there is no group.
func (g *GroupTable) successor() (id uint32, ok bool) {
	if int(g.last) >= len(g.after) {
		g.last = 0
		return 0, false
	}
	return g.after[g.last].next, true
}

// following returns the successor of the last group, if it is that of a series at a cap, and makes
// its bucket that of this row.
func (g *GroupTable) following(k *groupKey, ns int64) (uint32, bool) {
	id, ok := g.successor()
	if !ok {
		return 0, false
	}
	o, x := &g.keys[id], bucket{g.keys[id].cap, g.after[id].span}
	if !x.contains(ns) || o.mid != k.mid || o.cid != k.cid || o.moid != k.moid ||
		o.predecessor != k.predecessor {
		return 0, false
	}
	g.bucket = x
	return id, true
}

// bucketRows returns how many of caps, which ascend, are in the bucket of the first.
func (g *GroupTable) bucketRows(caps []int64) int {
	lo, hi := 1, firstLook // those before lo are in it
	for hi < len(caps) && g.bucket.contains(caps[hi]) {
		lo, hi = hi+1, 2*hi
	}
	hi = min(hi, len(caps))
	return lo + sort.Search(hi-lo, func(i int) bool { return !g.bucket.contains(caps[lo+i]) })
}

// appendGroup appends rows of the group of a key.
func (g *GroupTable) appendGroup(
	dst []wasmhost.GroupRun, k *groupKey, from, to int,
) ([]wasmhost.GroupRun, error) {
	id, ok := g.successor()
	if !ok || g.keys[id] != *k {
		var err error
		if id, err = g.id(*k); err != nil {
			return dst, err
		}
		g.after[g.last].next = id
	}
	g.last = id
	return g.appendRun(dst, id, from, to), nil
}

// appendRun appends rows of a group.
func (g *GroupTable) appendRun(
	dst []wasmhost.GroupRun, id uint32, from, to int,
) []wasmhost.GroupRun {
	g.counts[id] += uint64(to - from)
	if n := len(dst); n > 0 && dst[n-1].Group == id {
		dst[n-1].End = uint32(to)
		return dst
	}
	return append(dst, wasmhost.GroupRun{Group: id, End: uint32(to)})
}

// firstLook is how many rows are compared first: one part of the key may change with every row, and
// another not at all in a batch.
const firstLook = 8

// seriesEnd returns the end of the rows from one on that have the same of their series in the key.
func (g *GroupTable) seriesEnd(b *record.Batch, from int) int {
	for look := firstLook; ; look *= 2 {
		to := min(from+look, b.Len())
		if end := g.seriesWithin(b, from, to); end < to || to == b.Len() {
			return end
		}
	}
}

// seriesWithin is seriesEnd among the rows before to.
func (g *GroupTable) seriesWithin(b *record.Batch, from, to int) int {
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
		"more than %d groups; group by less or narrow the box; an aggregate that counts each "+
			"series by itself, as delta, has one for each series and window, whatever it is "+
			"grouped by: ask for fewer devices, longer windows or a shorter time", most)}
}
