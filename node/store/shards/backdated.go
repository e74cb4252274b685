package shards

import (
	"cmp"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// New makes the shards of a directory, with heads of some head shards. Each has a backdated shard
// for rows whose acqs are among those of its other rows, so that heads, merges and flags can rely
// on ascending acqs. all lists the shards, and then the backdated ones in the same order.
func New(count, headShards int) (shards, all []*Shard) {
	// A put replaces this head and inserts nothing.
	none := HeadOf(index.NewHead(index.TopWatermarks()))
	for i := range count {
		backdated := &Shard{ID: uint32(count + i)}
		backdated.begin(none)
		sh := &Shard{ID: uint32(i), Backdated: backdated}
		sh.begin(newHead(index.NewWatermarks(), headShards))
		shards = append(shards, sh)
	}
	all = slices.Clone(shards)
	for _, sh := range shards {
		all = append(all, sh.Backdated)
	}
	return shards, all
}

// IsBackdated reports whether the shard is one of backdated rows.
func (sh *Shard) IsBackdated() bool { return sh.Backdated == nil }

// BackdatedInfo is what is known of the head of a backdated shard.
type BackdatedInfo struct {
	lastLSN uint64     // of the last entry in it
	PutNs   int64      // acq of its newest put
	bounds  bounds.Box // of its rows
}

// NewestPut returns the acq of the newest put to a backdated shard of which rows may lie in a box,
// or found when that is newer.
func (s *State) NewestPut(box *record.Box, found int64) int64 {
	b := bounds.Of(box)
	for _, seg := range s.Sealed {
		if _, ok := PrunedBy(seg, box); !ok {
			found = max(found, seg.Meta.PutAcqNs)
		}
	}
	for _, immutable := range s.Immutable {
		if immutable.Info.bounds.Overlaps(&b) {
			found = max(found, immutable.Info.PutNs)
		}
	}
	if s.Head.Rows() > 0 && s.Info.bounds.Overlaps(&b) {
		found = max(found, s.Info.PutNs)
	}
	return found
}

// ByAcq returns rows in the order of acq, and of their keys where that is the same.
func ByAcq(rows *record.Batch) *record.Batch {
	order := make([]uint32, rows.Len())
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(rows.AcqNs[a], rows.AcqNs[b]),
			rows.Key(int(a)).Compare(rows.Key(int(b))))
	})
	sorted := &record.Batch{}
	sorted.AppendPicked(rows, order)
	return sorted
}

// WithRows returns a head of the rows of one and of others.
func WithRows(old *index.Head, more *record.Batch) *index.Head {
	rows := new(record.Batch)
	old.ReadAll(rows)
	rows.AppendRows(more, 0, more.Len())
	h := index.NewHead(index.TopWatermarks())
	h.Insert(ByAcq(rows))
	return h
}

// SetHead puts a head with some more rows, put at an acq, in place of the present one. Scans that
// have that one go on without these rows: they have looked for the versions of others.
func (sh *Shard) SetHead(h *index.Head, more *record.Batch, putNs int64) {
	sh.change(func(old *State) *State {
		next := old.with(old.Sealed, old.Immutable)
		next.Head = HeadOf(h)
		next.Info = BackdatedInfo{sh.LastLSN, putNs, bounds.OfRows(more)}
		next.Info.bounds[record.Acq] = bounds.Values(more.AcqNs)
		if old.Head.Rows() > 0 {
			next.Info.PutNs = max(putNs, old.Info.PutNs)
			next.Info.bounds.Include(&old.Info.bounds)
		}
		return next
	})
}

// LastBackdated returns the LSN up to which a read state of a backdated shard holds
// everything.
func (s *State) LastBackdated() uint64 {
	if s.Head.Rows() > 0 {
		return s.Info.lastLSN
	}
	return s.firstLSN - 1
}
