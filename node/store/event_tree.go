package store

import (
	"cmp"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// treeFan is how many children a node of a tree of events has at most: few enough to look at each,
// many enough that three sorts plant the largest tree.
const treeFan = 16

// bounds are the least and the greatest values of a box.
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

// eventTree finds the events whose boxes meet a box. It is immutable; nil has none.
//
// A node has either other nodes or events, and the bounds of all below it. Events are parted along
// the dimension in which they lie furthest from each other for their width: those of many devices,
// of many tenants and of many times are all found in a few steps.
type eventTree struct {
	bounds   bounds
	newest   int64 // acq of the newest event below
	children []*eventTree
	events   []*hider
}

// plantTree returns a tree of events. Their list stays as it is.
func plantTree(events []*hider) *eventTree {
	if len(events) == 0 {
		return nil
	}
	return plantNode(slices.Clone(events))
}

// plantNode returns a node of events, in whose memory it sorts and stays.
func plantNode(events []*hider) *eventTree {
	t := &eventTree{bounds: events[0].bounds, newest: events[0].acqNs}
	for _, h := range events[1:] {
		t.newest = max(t.newest, h.acqNs)
		for d := range record.NumDims {
			t.bounds[d].Min = min(t.bounds[d].Min, h.bounds[d].Min)
			t.bounds[d].Max = max(t.bounds[d].Max, h.bounds[d].Max)
		}
	}
	if len(events) <= treeFan {
		t.events = events
		return t
	}
	d := widestApart(events)
	slices.SortFunc(events, func(a, b *hider) int { return cmp.Compare(a.middle(d), b.middle(d)) })
	for part := range slices.Chunk(events, (len(events)+treeFan-1)/treeFan) {
		t.children = append(t.children, plantNode(part))
	}
	return t
}

// widestApart returns the dimension in which the middles of events lie furthest apart, measured by
// how wide the events are.
func widestApart(events []*hider) record.Dim {
	best, apart := record.Dim(0), -1.0
	for d := range record.Dim(record.NumDims) {
		least, most, width := events[0].middle(d), events[0].middle(d), 0.0
		for _, h := range events {
			least, most = min(least, h.middle(d)), max(most, h.middle(d))
			width += float64(h.bounds[d].Max) - float64(h.bounds[d].Min)
		}
		if a := (most - least) / (width/float64(len(events)) + 1); a > apart {
			best, apart = d, a
		}
	}
	return best
}

// middle is halfway between the bounds of an event, as nearly as needed to sort.
func (h *hider) middle(d record.Dim) float64 {
	return float64(h.bounds[d].Min)/2 + float64(h.bounds[d].Max)/2
}

// each visits the events whose boxes meet a box with these bounds.
func (t *eventTree) each(box *record.Box, b *bounds, visit func(*hider)) {
	if t == nil || !t.bounds.meets(b) {
		return
	}
	for _, child := range t.children {
		child.each(box, b, visit)
	}
	for _, h := range t.events {
		if h.bounds.meets(b) && h.box.Overlaps(box) {
			visit(h)
		}
	}
}

// newestOf returns the acq of the newest event whose box meets a box with these bounds, or found
// when that is newer.
func (t *eventTree) newestOf(box *record.Box, b *bounds, found int64) int64 {
	if t == nil || t.newest <= found || !t.bounds.meets(b) {
		return found
	}
	for _, child := range t.children {
		found = child.newestOf(box, b, found)
	}
	for _, h := range t.events {
		if h.acqNs > found && h.bounds.meets(b) && h.box.Overlaps(box) {
			found = h.acqNs
		}
	}
	return found
}
