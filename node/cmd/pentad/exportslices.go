package main

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// recordSource is what an export asks of a node.
type recordSource interface {
	Count(ctx context.Context, q *record.Query) (uint64, wire.End, error)
	Scan(ctx context.Context, q *record.Query, emit func(b *record.Batch) error) (wire.End, error)
}

// acqSlices hands out what a query finds in the order of acq, with bounded memory: it cuts the acq
// axis until a slice holds few enough records to be sorted here.
type acqSlices struct {
	db    recordSource
	query *record.Query // all versions, in no order; the box may restrict acq

	maxRecords uint64
	maxBytes   int
	emit       func(b *record.Batch) error // gets records by ascending acq
}

// Slices of a million records with payloads of up to 16 bytes take 60 MB, large payloads twice
// the second bound.
const (
	sliceRecords = 1 << 20
	sliceBytes   = 128 << 20
)

// errSlice says that a slice does not fit into memory.
var errSlice = errors.New("the slice is too large")

// run hands out the records with acq in [fromNs, toNs), of which there are at most count.
func (s *acqSlices) run(ctx context.Context, fromNs, toNs int64, count uint64) error {
	query := *s.query
	var some bool
	if query.Box[record.Acq], some = within(query.Box[record.Acq], fromNs, toNs); !some {
		return nil
	}
	width := uint64(toNs) - uint64(fromNs)
	if count <= s.maxRecords || width == 1 {
		err := s.slice(ctx, &query, width == 1)
		if !errors.Is(err, errSlice) {
			return err
		}
	}
	middle := int64(uint64(fromNs) + width/2)
	left, err := s.count(ctx, fromNs, middle)
	if err != nil {
		return err
	}
	if left > 0 {
		if err := s.run(ctx, fromNs, middle, left); err != nil {
			return err
		}
	}
	right := count - left
	if left >= count { // records were put below the horizon meanwhile
		if right, err = s.count(ctx, middle, toNs); err != nil || right == 0 {
			return err
		}
	}
	return s.run(ctx, middle, toNs, right)
}

// count asks the index alone: filters of the query are left out.
func (s *acqSlices) count(ctx context.Context, fromNs, toNs int64) (uint64, error) {
	query := record.Query{Box: s.query.Box}
	var some bool
	if query.Box[record.Acq], some = within(query.Box[record.Acq], fromNs, toNs); !some {
		return 0, nil
	}
	n, end, err := s.db.Count(ctx, &query)
	if err != nil {
		return 0, err
	}
	return n, checkEnd(end)
}

// slice sorts and hands out one slice, or errSlice before anything is handed out. Records that all
// have one acq need neither order nor room.
func (s *acqSlices) slice(ctx context.Context, query *record.Query, single bool) error {
	var all record.Batch
	end, err := s.db.Scan(ctx, query, func(b *record.Batch) error {
		if single {
			return s.emit(b)
		}
		if all.Len() > 0 && (len(all.Data)+len(b.Data) > s.maxBytes ||
			uint64(all.Len()+b.Len()) > 2*s.maxRecords) {
			return errSlice
		}
		all.AppendRows(b, 0, b.Len())
		return nil
	})
	if err != nil {
		return err
	}
	if err := checkEnd(end); err != nil {
		return err
	}
	return emitByAcq(&all, s.emit)
}

// emitByAcq hands out a batch by ascending acq, in batches of a size that others work with.
func emitByAcq(all *record.Batch, emit func(b *record.Batch) error) error {
	const rows, bytes = 4096, 8 << 20
	rank := make([]uint32, all.Len())
	for i := range rank {
		rank[i] = uint32(i)
	}
	slices.SortFunc(rank, func(i, k uint32) int {
		a, b := all.AcqNs[i], all.AcqNs[k]
		switch {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	})
	var out record.Batch
	for n, i := range rank {
		out.AppendRow(all, int(i))
		if out.Len() == rows || len(out.Data) >= bytes || n == len(rank)-1 {
			if err := emit(&out); err != nil {
				return err
			}
			out.Reset()
		}
	}
	return nil
}

// within restricts a normalised set to [from, to); some is false when nothing is left.
func within(set record.RangeSet, from, to int64) (_ record.RangeSet, some bool) {
	if len(set) == 0 {
		set = record.RangeSet{{From: math.MinInt64, To: math.MaxInt64}}
	}
	var out record.RangeSet
	for _, r := range set {
		r.From, r.To = max(r.From, from), min(r.To, to)
		if r.From < r.To {
			out = append(out, r)
		}
	}
	return out, len(out) > 0
}
