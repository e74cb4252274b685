package writes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// maxSelectedBoxes bounds the events of one erase or purge in one store. A store takes 16 times as
// many in all its life.
const maxSelectedBoxes = 1024

// deleteSelected erases or purges a box of the devices that a selector chooses now. These are found
// once, and the events name them: which rows an event hides must not change when descriptions do.
func (d *Dispatcher) deleteSelected(
	ctx context.Context, asked request.Options, ask *wire.Box, purge bool,
) (acqNs int64, err error) {
	mids, err := d.opt.Engine.SelectDevices(ctx, asked, &ask.Box, ask.Select)
	if err != nil {
		return 0, err
	}
	if len(mids) == 0 {
		return 0, &record.InvalidError{Part: "select", Reason: record.EmptyRange, Row: -1,
			Detail: fmt.Sprintf("no device of tenant %d meets %q", ask.Box[record.CID][0].From,
				ask.Select)}
	}
	if m := d.opt.Member.Load(); m != nil {
		return d.groups(m).deleteDevices(ctx, ask.Box, mids, purge, asked.Groups)
	}
	boxes, err := boxesOf(ask.Box, mids)
	if err != nil {
		return 0, err
	}
	if purge {
		return d.opt.Store.PurgeAll(ctx, boxes)
	}
	return d.opt.Store.EraseAll(ctx, boxes)
}

// boxesOf divides a box of ascending devices into boxes of as many ranges of them as an event may
// have.
func boxesOf(box record.Box, mids []int64) (boxes []record.Box, err error) {
	var set record.RangeSet
	for _, mid := range mids {
		if n := len(set); n > 0 && set[n-1].To == mid {
			set[n-1].To++
		} else {
			set = append(set, record.At(mid))
		}
	}
	if most := maxSelectedBoxes * record.MaxRangesPerDim; len(set) > most {
		return nil, &record.InvalidError{Part: "select", Reason: record.TooMany, Row: -1,
			Detail: fmt.Sprintf("%d devices in %d ranges of mid, at most %d; select fewer at a "+
				"time, e.g. by group", len(mids), len(set), most)}
	}
	for some := range slices.Chunk(set, record.MaxRangesPerDim) {
		box[record.MID] = some
		boxes = append(boxes, box)
	}
	return boxes, nil
}

// deleteDevices erases or purges a box of some devices in the groups that have them, or in those of
// only unless that is nil.
//
// Returns: the greatest acq. After an error some events may have been applied.
func (g Groups) deleteDevices(
	ctx context.Context, box record.Box, mids []int64, purge bool, only []cluster.GroupID,
) (acqNs int64, err error) {
	cid := int32(box[record.CID][0].From)
	err = g.retrySplits(ctx, func(v *cluster.View) error {
		byGroup := map[cluster.GroupID][]int64{}
		for _, mid := range mids {
			group := v.GroupOf(cid, mid)
			if only == nil || slices.Contains(only, group) {
				byGroup[group] = append(byGroup[group], mid)
			}
		}
		var mu sync.Mutex // guards acqNs and errs
		var errs []error
		var wg sync.WaitGroup
		for group, mids := range byGroup {
			wg.Go(func() {
				acq, err := g.deleteOfGroup(ctx, v, group, box, mids, purge)
				mu.Lock()
				defer mu.Unlock()
				acqNs, errs = max(acqNs, acq), append(errs, err)
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
	return acqNs, err
}

// deleteOfGroup is deleteDevices for the devices of a group.
func (g Groups) deleteOfGroup(
	ctx context.Context, v *cluster.View, group cluster.GroupID, box record.Box, mids []int64,
	purge bool,
) (acqNs int64, err error) {
	boxes, err := boxesOf(box, mids)
	if err != nil {
		return 0, err
	}
	encode := commands.AppendErase
	if purge {
		encode = commands.AppendPurge
	}
	for _, one := range boxes {
		var answer member.Answer
		command, err := encode(nil, one)
		if err == nil {
			answer, err = g.member.Propose(ctx, group, forSlots(v, group, command), false)
		}
		if err != nil {
			return acqNs, err
		}
		acqNs = max(acqNs, answer.AcqNs)
	}
	return acqNs, nil
}
