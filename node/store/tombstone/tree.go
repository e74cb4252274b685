package tombstone

import (
	"cmp"
	"slices"

	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// treeFan is the most children of a node: few enough to test each, many enough that three levels of
// sorts build the largest tree.
const treeFan = 16

// Tree finds the range tombstones whose boxes meet a box. It is immutable; nil is empty.
//
// It is an R-tree: a node has either children or tombstones, and the bounds of all below it.
// Tombstones are divided along the dimension in which they are furthest apart relative to their
// width, so that tombstones over many devices, many tenants or many times are found in a few steps.
type Tree struct {
	bounds     bounds.Box
	newest     int64 // acq of the newest tombstone below
	children   []*Tree
	tombstones []*Range
}

// NewTree returns a tree of tombstones. It does not change the slice.
func NewTree(all []*Range) *Tree {
	if len(all) == 0 {
		return nil
	}
	return newNode(slices.Clone(all))
}

// newNode returns a node of tombstones. It sorts the slice and keeps it.
func newNode(all []*Range) *Tree {
	t := &Tree{bounds: all[0].bounds, newest: all[0].AcqNs}
	for _, r := range all[1:] {
		t.newest = max(t.newest, r.AcqNs)
		for d := range record.NumDims {
			t.bounds[d].Min = min(t.bounds[d].Min, r.bounds[d].Min)
			t.bounds[d].Max = max(t.bounds[d].Max, r.bounds[d].Max)
		}
	}
	if len(all) <= treeFan {
		t.tombstones = all
		return t
	}
	d := widestDimension(all)
	slices.SortFunc(all, func(a, b *Range) int {
		return cmp.Compare(a.middle(d), b.middle(d))
	})
	for child := range slices.Chunk(all, (len(all)+treeFan-1)/treeFan) {
		t.children = append(t.children, newNode(child))
	}
	return t
}

// widestDimension returns the dimension in which the centers of tombstones are furthest apart,
// relative to the mean width of the tombstones.
func widestDimension(all []*Range) record.Dim {
	best, apart := record.Dim(0), -1.0
	for d := range record.Dim(record.NumDims) {
		least, most, width := all[0].middle(d), all[0].middle(d), 0.0
		for _, r := range all {
			least, most = min(least, r.middle(d)), max(most, r.middle(d))
			width += float64(r.bounds[d].Max) - float64(r.bounds[d].Min)
		}
		if a := (most - least) / (width/float64(len(all)) + 1); a > apart {
			best, apart = d, a
		}
	}
	return best
}

// Each visits the tombstones whose boxes meet a box with these bounds.
func (t *Tree) Each(box *record.Box, b *bounds.Box, visit func(*Range)) {
	if t == nil || !t.bounds.Overlaps(b) {
		return
	}
	for _, child := range t.children {
		child.Each(box, b, visit)
	}
	for _, r := range t.tombstones {
		if r.bounds.Overlaps(b) && r.Box.Overlaps(box) {
			visit(r)
		}
	}
}

// NewestOf returns the acq of the newest tombstone whose box meets a box with these bounds, or
// found if that is newer.
func (t *Tree) NewestOf(box *record.Box, b *bounds.Box, found int64) int64 {
	if t == nil || t.newest <= found || !t.bounds.Overlaps(b) {
		return found
	}
	for _, child := range t.children {
		found = child.NewestOf(box, b, found)
	}
	for _, r := range t.tombstones {
		if r.AcqNs > found && r.bounds.Overlaps(b) && r.Box.Overlaps(box) {
			found = r.AcqNs
		}
	}
	return found
}

// Oldest returns the oldest event of the tree that hides a row, nil for none.
func (t *Tree) Oldest(k record.Key) *Range {
	if t == nil {
		return nil
	}
	for d := range record.NumDims {
		if v := k.Part(record.Dim(d)); v < t.bounds[d].Min || v > t.bounds[d].Max {
			return nil
		}
	}
	var found *Range
	for _, child := range t.children {
		if r := child.Oldest(k); r != nil && (found == nil || r.AcqNs < found.AcqNs) {
			found = r
		}
	}
	for _, r := range t.tombstones {
		if r.Contains(k) && (found == nil || r.AcqNs < found.AcqNs) {
			found = r
		}
	}
	return found
}
