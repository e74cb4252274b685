package transfer

import (
	"context"
	"math"
	"slices"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// selectOnce puts the devices that the selector chooses now in place of it: an export of all
// versions asks many times, and descriptions may change meanwhile. Those that were just stored
// count, although the horizon may be below them in a cluster.
func (x *exporter) selectOnce(ctx context.Context, db *client.Client) error {
	mids, err := queryflags.SelectedDevices(ctx, db.Linearizable(), x.query)
	if err != nil {
		return err
	}
	x.selected, x.query.Select = x.query.Select, ""
	x.source = &deviceSource{x.source, deviceRanges(mids)}
	return nil
}

// deviceRanges returns the sets of as many ranges as a box may have that hold ascending devices.
func deviceRanges(mids []int64) (sets []record.RangeSet) {
	var set record.RangeSet
	for _, mid := range mids {
		if n := len(set); n > 0 && set[n-1].To == mid {
			set[n-1].To++
			continue
		}
		if len(set) == record.MaxRangesPerDim {
			sets, set = append(sets, set), nil
		}
		set = append(set, record.At(mid))
	}
	if len(set) > 0 {
		sets = append(sets, set)
	}
	return sets
}

// deviceSource asks for the records of devices, one query for each set of them.
type deviceSource struct {
	recordSource
	devices []record.RangeSet
}

// each asks one query for each set of devices, and returns an end of all of them.
func (s *deviceSource) each(
	q *record.Query, ask func(q *record.Query) (wire.End, error),
) (wire.End, error) {
	all := wire.End{Complete: true, HorizonNs: math.MaxInt64}
	for _, set := range s.devices {
		one := *q
		one.Box[record.MID] = slices.Clone(set)
		end, err := ask(&one)
		if all.HorizonNs = min(all.HorizonNs, end.HorizonNs); !end.Complete {
			all.Complete, all.Reason = false, end.Reason
		}
		all.HistoryChangedAcqNs = max(all.HistoryChangedAcqNs, end.HistoryChangedAcqNs)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// Count implements recordSource.
func (s *deviceSource) Count(ctx context.Context, q *record.Query) (uint64, wire.End, error) {
	total := uint64(0)
	end, err := s.each(q, func(q *record.Query) (wire.End, error) {
		n, end, err := s.recordSource.Count(ctx, q)
		total += n
		return end, err
	})
	return total, end, err
}

// Scan implements recordSource.
func (s *deviceSource) Scan(
	ctx context.Context, q *record.Query, emit func(b *record.Batch) error,
) (wire.End, error) {
	return s.each(q, func(q *record.Query) (wire.End, error) {
		return s.recordSource.Scan(ctx, q, emit)
	})
}
