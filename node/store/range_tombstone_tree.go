package store

import (
	"cmp"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// treeFan is the most children of a node: few enough to test each, many enough that three levels of
// sorts build the largest tree.
const treeFan = 16

// bounds are the least and the greatest value of each dimension of a box.
type bounds [record.NumDims]index.Bound

func boundsOf(box *record.Box) (b bounds) {
	for d := range record.NumDims {
		b[d] = extent(box[d], record.Dim(d))
	}
	return b
}

func (b *bounds) meets(o *bounds) bool {
	for d := range record.NumDims {
		if b[d].Max < o[d].Min || o[d].Max < b[d].Min {
			return false
		}
	}
	return true
}

// tombstoneTree finds the range tombstones whose boxes meet a box. It is immutable; nil is empty.
//
// It is an R-tree: a node has either children or tombstones, and the bounds of all below it.
// Tombstones are divided along the dimension in which they are furthest apart relative to their
// width, so that tombstones over many devices, many tenants or many times are found in a few steps.
type tombstoneTree struct {
	bounds     bounds
	newest     int64 // acq of the newest tombstone below
	children   []*tombstoneTree
	tombstones []*rangeTombstone
}

// newTombstoneTree returns a tree of tombstones. It does not change the slice.
func newTombstoneTree(all []*rangeTombstone) *tombstoneTree {
	if len(all) == 0 {
		return nil
	}
	return newTombstoneNode(slices.Clone(all))
}

// newTombstoneNode returns a node of tombstones. It sorts the slice and keeps it.
func newTombstoneNode(all []*rangeTombstone) *tombstoneTree {
	t := &tombstoneTree{bounds: all[0].bounds, newest: all[0].acqNs}
	for _, h := range all[1:] {
		t.newest = max(t.newest, h.acqNs)
		for d := range record.NumDims {
			t.bounds[d].Min = min(t.bounds[d].Min, h.bounds[d].Min)
			t.bounds[d].Max = max(t.bounds[d].Max, h.bounds[d].Max)
		}
	}
	if len(all) <= treeFan {
		t.tombstones = all
		return t
	}
	d := widestDimension(all)
	slices.SortFunc(all, func(a, b *rangeTombstone) int {
		return cmp.Compare(a.middle(d), b.middle(d))
	})
	for child := range slices.Chunk(all, (len(all)+treeFan-1)/treeFan) {
		t.children = append(t.children, newTombstoneNode(child))
	}
	return t
}

// widestDimension returns the dimension in which the centers of tombstones are furthest apart,
// relative to the mean width of the tombstones.
func widestDimension(all []*rangeTombstone) record.Dim {
	best, apart := record.Dim(0), -1.0
	for d := range record.Dim(record.NumDims) {
		least, most, width := all[0].middle(d), all[0].middle(d), 0.0
		for _, h := range all {
			least, most = min(least, h.middle(d)), max(most, h.middle(d))
			width += float64(h.bounds[d].Max) - float64(h.bounds[d].Min)
		}
		if a := (most - least) / (width/float64(len(all)) + 1); a > apart {
			best, apart = d, a
		}
	}
	return best
}

// middle is the center of a tombstone, precise enough to sort by.
func (h *rangeTombstone) middle(d record.Dim) float64 {
	return float64(h.bounds[d].Min)/2 + float64(h.bounds[d].Max)/2
}

// each visits the tombstones whose boxes meet a box with these bounds.
func (t *tombstoneTree) each(box *record.Box, b *bounds, visit func(*rangeTombstone)) {
	if t == nil || !t.bounds.meets(b) {
		return
	}
	for _, child := range t.children {
		child.each(box, b, visit)
	}
	for _, h := range t.tombstones {
		if h.bounds.meets(b) && h.box.Overlaps(box) {
			visit(h)
		}
	}
}

// newestOf returns the acq of the newest tombstone whose box meets a box with these bounds, or
// found if that is newer.
func (t *tombstoneTree) newestOf(box *record.Box, b *bounds, found int64) int64 {
	if t == nil || t.newest <= found || !t.bounds.meets(b) {
		return found
	}
	for _, child := range t.children {
		found = child.newestOf(box, b, found)
	}
	for _, h := range t.tombstones {
		if h.acqNs > found && h.bounds.meets(b) && h.box.Overlaps(box) {
			found = h.acqNs
		}
	}
	return found
}
