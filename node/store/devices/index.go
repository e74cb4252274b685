// Package devices is the index of descriptions of devices: it finds those that a selector chooses.
//
// It owns the devices of one tenant, in memory, and knows nothing of records, versions or the
// store, which tells it what each device's description is now. Its main type is [Index]. It starts
// no goroutines.
package devices

import (
	"maps"
	"slices"
	"sync"
	"unsafe"

	"github.com/pentad-db/pentad/sdk/registry"
)

const (
	// maxTail is how many devices are kept as they came, and matched one by one: 100 µs of a
	// selection at most.
	maxTail = 512
	// blockRatio is how many times as large a block is at least as the next one: a million devices
	// that changed one by one are in six blocks, and each was moved as often.
	blockRatio = 4
)

// Index holds the descriptions of the devices of one tenant. Selections may run at the same time,
// and not while it is changed.
//
// New descriptions are kept in a tail until there are some, which become an immutable block. Blocks
// of similar size are merged; a device that is described again dies in the block where it was. The
// zero value is empty.
type Index struct {
	blocks []*block // the larger ones first
	tail   map[int64]*registry.Description
	// tailBytes is about what the descriptions of the tail take.
	tailBytes int64
}

// Set makes a description that of a device; nil removes it. The index keeps the description.
//
// Cost: about a microsecond, and merges: of n devices that change one by one each is moved log n
// times.
func (x *Index) Set(mid int64, d *registry.Description) {
	for _, b := range x.blocks {
		b.kill(mid)
	}
	if old := x.tail[mid]; old != nil {
		x.tailBytes -= sizeOf(old)
		delete(x.tail, mid)
	}
	if d != nil {
		if x.tail == nil {
			x.tail = map[int64]*registry.Description{}
		}
		x.tail[mid] = d
		x.tailBytes += sizeOf(d)
	}
	if len(x.tail) >= maxTail {
		x.flush()
	}
	x.merge()
}

// flush makes a block of the tail.
func (x *Index) flush() {
	var b Builder
	for mid, d := range x.tail {
		b.Add(mid, d)
	}
	clear(x.tail)
	x.tailBytes = 0
	x.blocks = append(x.blocks, b.finish())
}

// merge brings the sizes of blocks in order, and drops the dead from blocks with many.
func (x *Index) merge() {
	for n := len(x.blocks); n > 1; n-- {
		if x.blocks[n-2].living() >= blockRatio*x.blocks[n-1].living() {
			break
		}
		x.blocks = append(x.blocks[:n-2], mergeBlocks(x.blocks[n-2:]))
	}
	for i, b := range x.blocks {
		if b.dead > len(b.mids)/2 {
			x.blocks[i] = mergeBlocks([]*block{b})
		}
	}
	x.blocks = slices.DeleteFunc(x.blocks, func(b *block) bool { return len(b.mids) == 0 })
}

// Load makes the index of what a builder was given, and of nothing else. The builder is used up.
func (x *Index) Load(b *Builder) {
	*x = Index{}
	if built := b.finish(); len(built.mids) > 0 {
		x.blocks = []*block{built}
	}
}

// Len returns the number of devices.
func (x *Index) Len() int {
	n := len(x.tail)
	for _, b := range x.blocks {
		n += b.living()
	}
	return n
}

// Bytes returns about how much memory the index takes.
func (x *Index) Bytes() (n int64) {
	for _, b := range x.blocks {
		n += b.bytes
	}
	return n + x.tailBytes
}

// Each visits the devices that have descriptions, in no particular order.
func (x *Index) Each(visit func(mid int64)) {
	for _, b := range x.blocks {
		for i, mid := range b.mids {
			if b.lives(b.ords[i]) {
				visit(mid)
			}
		}
	}
	for mid := range maps.Keys(x.tail) {
		visit(mid)
	}
}

// ordinalLists keep their memory.
var ordinalLists = sync.Pool{New: func() any { return new([]uint32) }}

// Select appends the devices that a selector chooses, ascending.
//
// Cost: some ns for each device that meets the condition which fewest meet.
func (x *Index) Select(s *registry.Selector, dst []int64) []int64 {
	start := len(dst)
	memory := ordinalLists.Get().(*[]uint32)
	defer ordinalLists.Put(memory)
	for _, b := range x.blocks {
		*memory = b.find(s.Expr(), (*memory)[:0])
		dst = b.appendMIDs(*memory, dst)
	}
	for mid, d := range x.tail {
		if s.Match(d) {
			dst = append(dst, mid)
		}
	}
	found := dst[start:]
	if !slices.IsSorted(found) {
		slices.Sort(found)
	}
	return dst[:start+len(slices.Compact(found))]
}

// sizeOf is about what a description of the tail takes.
func sizeOf(d *registry.Description) int64 {
	const mapEntry = 64 // of a key, a value and space between them
	n := int(unsafe.Sizeof(*d)) + len(d.Name) + len(d.Type) + len(d.Group) + len(d.Metadata)
	for key, v := range d.Attributes {
		n += mapEntry + len(key) + len(v.Text())
	}
	if d.Place != nil {
		n += int(unsafe.Sizeof(*d.Place))
	}
	return int64(n + mapEntry)
}
