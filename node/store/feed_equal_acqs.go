package store

import (
	"context"
	"errors"
	"fmt"

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
			parts := bounds.Halve(&box, &out.raw)
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
