package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// readInside reads some of the rows with the acq that the feed is at, where they are more than a
// slice holds: those in one of the boxes that are left, which is divided until they fit. The acq is
// closed with the last of them.
func (f *Feed) readInside(
	ctx context.Context, out *Slice, horizon int64, share int,
) (more bool, err error) {
	for {
		last := len(f.inside) - 1
		box := f.inside[last]
		out.reset(f.next, f.next+1)
		err := f.gather(ctx, out, &box, share)
		if errors.Is(err, errSliceFull) {
			parts := divide(&box, out)
			if parts == nil {
				return false, fmt.Errorf("acq %s: %d rows have the same five parts; run pentad "+
					"check", record.FormatNs(f.next), out.raw.Len())
			}
			f.inside = append(f.inside[:last], parts...)
			continue
		}
		if err != nil {
			return false, err
		}
		out.sort()
		if f.inside = f.inside[:last]; last > 0 {
			out.ClosedNs = f.next
			return true, nil
		}
		f.inside = nil
		out.Events = f.events(out.Events, out.ClosedNs)
		f.next = out.ClosedNs
		return f.next < horizon, nil
	}
}

// divide cuts a box in two, the greater keys first, where about half of the rows lie that were
// gathered from it. They have one acq, so they differ in another dimension; nil: they do not.
func divide(box *record.Box, out *Slice) []record.Box {
	values := make([]int64, out.raw.Len())
	for _, d := range []record.Dim{record.CID, record.MID, record.MOID, record.Cap} {
		for i := range values {
			values[i] = out.raw.Key(i).Part(d)
		}
		slices.Sort(values)
		least, at := values[0], values[len(values)/2]
		if at == least {
			at = values[sortedAbove(values, least)]
		}
		if at > least {
			low, high := bounds.Cut(box, d, at)
			return []record.Box{high, low}
		}
	}
	return nil
}

// sortedAbove returns the number of the first of some ascending values above one, or of the last.
func sortedAbove(values []int64, above int64) int {
	at, _ := slices.BinarySearch(values, above+1)
	return min(at, len(values)-1)
}
