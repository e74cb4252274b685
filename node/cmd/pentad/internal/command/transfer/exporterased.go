package transfer

import (
	"context"
	"slices"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// maxDevices bounds the devices of which the erases are kept at hand.
const maxDevices = 1 << 16

// erased leaves out of an export of all versions what erases hide. A file has no erases: brought
// into a node, such rows would be readings again.
type erased struct {
	events   []wire.Hiding
	byDevice map[device][]*wire.Hiding // that may hide rows of one; made as devices come
	kept     record.Batch
	count    int64 // rows left out
}

type device struct {
	cid int32
	mid int64
}

// newErased asks for the erases below a horizon that can hide rows of a box.
func newErased(
	ctx context.Context, db *client.Client, box *record.Box, horizonNs int64,
) (*erased, error) {
	state, err := db.SyncState(ctx)
	if err == nil && state.HorizonNs < horizonNs {
		err = behind(state.HorizonNs, horizonNs)
	}
	if err != nil {
		return nil, err
	}
	events := slices.DeleteFunc(state.History.Hiding, func(e wire.Hiding) bool {
		return e.Purge || e.AcqNs >= horizonNs || !e.Box.Overlaps(box)
	})
	return &erased{events: events, byDevice: map[device][]*wire.Hiding{}}, nil
}

// visible returns the rows of a batch that no erase hides, valid until the next call.
func (e *erased) visible(b *record.Batch) *record.Batch {
	if len(e.events) == 0 {
		return b
	}
	var picked []uint32
	for i := range b.Len() {
		if !e.hides(b.Key(i)) {
			picked = append(picked, uint32(i))
		}
	}
	if len(picked) == b.Len() {
		return b
	}
	e.count += int64(b.Len() - len(picked))
	e.kept.Reset()
	e.kept.AppendPicked(b, picked)
	return &e.kept
}

func (e *erased) hides(k record.Key) bool {
	d := device{k.CID, k.MID}
	events, known := e.byDevice[d]
	if !known {
		for i := range e.events {
			box := &e.events[i].Box
			if box[record.CID].Contains(int64(d.cid)) && box[record.MID].Contains(d.mid) {
				events = append(events, &e.events[i])
			}
		}
		if len(e.byDevice) == maxDevices {
			clear(e.byDevice)
		}
		e.byDevice[d] = events
	}
	return slices.ContainsFunc(events, func(h *wire.Hiding) bool {
		return k.AcqNs < h.AcqNs && h.Box.Contains(k)
	})
}
