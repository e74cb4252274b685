package engine

import (
	"context"
	"slices"

	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/record"
)

// SelectDevices returns the devices of a box that a selector chooses now, by all descriptions that
// were acknowledged before; they ascend. The box is of one tenant.
//
// Cost: that of the selector, and 8 bytes for each device.
func (e *Engine) SelectDevices(
	ctx context.Context, options request.Options, box *record.Box, selector string,
) (mids []int64, err error) {
	q := &record.Query{View: record.ViewLatest, Last: 1, KeysOnly: true, Select: selector}
	q.Box[record.CID], q.Box[record.MID] = box[record.CID], box[record.MID]
	q.Box[record.MOID] = record.RangeSet{record.At(record.DescriptionMOID)}
	if err := q.Normalize(); err != nil {
		return nil, err
	}
	options = options.CompleteOnly()
	options.Linearizable = true
	_, err = e.Query(ctx, options, q, func(b *record.Batch) error {
		mids = append(mids, b.MID...)
		return nil
	})
	slices.Sort(mids)
	return slices.Compact(mids), err
}
