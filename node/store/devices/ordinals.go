package devices

import "iter"

// ordinals are some devices of a block: those of a list, or without one a range.
type ordinals struct {
	some     []uint32
	from, to uint32
	// passes: all of them pass the check of the filter that lists them, or where that is one of
	// several that are all to be passed, its part of the check.
	passes bool
}

func (o ordinals) len() int {
	if o.some != nil {
		return len(o.some)
	}
	return int(o.to - o.from)
}

func (o ordinals) each() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for _, ord := range o.some {
			if !yield(ord) {
				return
			}
		}
		for ord := o.from; ord < o.to; ord++ {
			if !yield(ord) {
				return
			}
		}
	}
}
