package mergepolicy

import "iter"

// Window is from when to when the newest rows of neighbours were captured, or acquired, and how
// wide the windows are in one of which they must be to be merged: the narrowest of theirs, 0 for
// any.
type Window struct{ WidthNs, FromNs, ToNs int64 }

func (w Window) with(o Window) Window {
	width := min(w.WidthNs, o.WidthNs)
	if width == 0 {
		width = max(w.WidthNs, o.WidthNs)
	}
	return Window{width, min(w.FromNs, o.FromNs), max(w.ToNs, o.ToNs)}
}

// fits reports whether the newest rows are all in one window.
func (w Window) fits() bool {
	return w.WidthNs == 0 || floorDiv(w.FromNs, w.WidthNs) == floorDiv(w.ToNs, w.WidthNs)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// eachUndamaged yields from where to where the neighbours between segments are whose damage is
// known.
func eachUndamaged(all []Segment) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		from := 0
		for i := range all {
			if !all[i].Damaged {
				continue
			}
			if !yield(from, i) {
				return
			}
			from = i + 1
		}
		yield(from, len(all))
	}
}

// eachMergeable yields from where to where neighbours are that may be merged with each other.
func eachMergeable(all []Segment, begin, end int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for from := begin; from < end; {
			to, span := from+1, all[from].Newest
			for to < end {
				next := span.with(all[to].Newest)
				if !next.fits() {
					break
				}
				to, span = to+1, next
			}
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
}

// hasEnded reports whether no newer segments will be merged with neighbours that eachMergeable
// yielded, because their window has ended: the next one is in another window as wide as theirs.
func hasEnded(all []Segment, from, to, end int) bool {
	if to == end {
		return false
	}
	span := all[from].Newest
	for _, seg := range all[from+1 : to] {
		span = span.with(seg.Newest)
	}
	next := all[to].Newest
	next.WidthNs = span.WidthNs
	return !span.with(next).fits()
}
