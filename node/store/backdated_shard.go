package store

import (
	"cmp"
	"math"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// maxBackdatedRows and maxBackdatedBytes bound the head of a backdated shard: each put builds
	// it again, in the order of acq.
	maxBackdatedRows  = 1 << 17
	maxBackdatedBytes = 64 << 20
	// maxBackdatedMergeRows bounds the memory of a merge of backdated segments, 4 bytes a row, and
	// of an open segment of rows with scattered acqs, 16 bytes a row.
	maxBackdatedMergeRows = 1 << 24
)

// newShards makes the shards of a directory. Each has a backdated shard for rows whose acqs are
// among those of its other rows, so that heads, merges and flags can rely on ascending acqs. all
// lists the shards, and then the backdated ones in the same order.
func newShards(count int) (shards, all []*shard) {
	none := index.NewHead(index.TopWatermarks()) // a put replaces this head and inserts nothing
	for i := range count {
		backdated := &shard{id: uint32(count + i)}
		backdated.begin(none)
		sh := &shard{id: uint32(i), backdated: backdated}
		sh.begin(index.NewHead(index.NewWatermarks()))
		shards = append(shards, sh)
	}
	all = slices.Clone(shards)
	for _, sh := range shards {
		all = append(all, sh.backdated)
	}
	return shards, all
}

// isBackdated reports whether the shard is one of backdated rows.
func (sh *shard) isBackdated() bool { return sh.backdated == nil }

// backdatedInfo is what is known of the head of a backdated shard.
type backdatedInfo struct {
	last   uint64     // log index of the last entry in it
	putNs  int64      // acq of its newest put
	bounds bounds.Box // of its rows
}

// newestPut returns the acq of the newest put to a backdated shard of which rows may lie in a box,
// or found when that is newer.
func (s *readState) newestPut(box *record.Box, found int64) int64 {
	b := bounds.Of(box)
	for _, seg := range s.sealed {
		if _, ok := missed(seg, box); !ok {
			found = max(found, seg.meta.PutAcqNs)
		}
	}
	for _, f := range s.immutable {
		if f.info.bounds.Meets(&b) {
			found = max(found, f.info.putNs)
		}
	}
	if s.head.Rows() > 0 && s.info.bounds.Meets(&b) {
		found = max(found, s.info.putNs)
	}
	return found
}

// byAcq returns rows in the order of acq, and of their keys where that is the same.
func byAcq(rows *record.Batch) *record.Batch {
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

// withRows returns a head of the rows of one and of others.
func withRows(old *index.Head, more *record.Batch) *index.Head {
	rows := new(record.Batch)
	old.ReadAll(rows)
	rows.AppendRows(more, 0, more.Len())
	h := index.NewHead(index.TopWatermarks())
	h.Insert(byAcq(rows))
	return h
}

// setHead puts a head with some more rows, put at an acq, in place of the present one. Scans that
// have that one go on without these rows: they have looked for the versions of others.
func (sh *shard) setHead(h *index.Head, more *record.Batch, putNs int64) {
	sh.change(func(old *readState) *readState {
		next := old.with(old.sealed, old.immutable)
		next.head = h
		next.info = backdatedInfo{sh.lastIndex, putNs, bounds.OfRows(more)}
		next.info.bounds[record.Acq] = bounds.Values(more.AcqNs)
		if old.head.Rows() > 0 {
			next.info.putNs = max(putNs, old.info.putNs)
			next.info.bounds.Include(&old.info.bounds)
		}
		return next
	})
}

// backdatedFull reports whether the head of a backdated shard has grown as large as it may.
func backdatedFull(h *index.Head) bool {
	return h.Rows() >= maxBackdatedRows || h.Bytes() >= maxBackdatedBytes
}

// replayedBackdated is what the log says of a backdated shard and no head holds yet: each entry by
// itself would have the head made again.
type replayedBackdated struct {
	rows  record.Batch
	putNs int64
}

// addBackdated keeps rows of the log that came below the horizon.
func (r *replay) addBackdated(sh *shard, h *segment.RowsHeader) {
	if r.backdated == nil {
		r.backdated = map[*shard]*replayedBackdated{}
	}
	a := r.backdated[sh]
	if a == nil {
		a = &replayedBackdated{}
		r.backdated[sh] = a
	}
	a.rows.AppendRows(&r.batch, 0, r.batch.Len())
	a.putNs = max(a.putNs, h.BatchFirstAcqNs)
	if a.rows.Len() >= maxBackdatedRows || len(a.rows.Data) >= maxBackdatedBytes {
		r.insertBackdated(sh)
	}
}

// insertBackdated gives a backdated shard the rows that were kept.
func (r *replay) insertBackdated(sh *shard) {
	a := r.backdated[sh]
	delete(r.backdated, sh)
	old := sh.state.Load().head
	h := withRows(old, &a.rows)
	sh.setHead(h, &a.rows, a.putNs)
	r.store.heads.Add(h.Grown() - old.Bytes())
	if backdatedFull(h) || r.store.isFull(h) {
		sh.rotate()
	}
}

// insertAll gives all backdated shards the rows that were kept.
func (r *replay) insertAll() {
	for sh := range r.backdated {
		r.insertBackdated(sh)
	}
}

// limitOf returns how many rows a merge may make of segments like this one.
func limitOf(seg *sealedSegment) int64 {
	if seg.meta.IsBackdated() {
		return maxBackdatedMergeRows
	}
	return mergepolicy.MaxRows
}

// rankMapOf numbers the rows of a run of segments as those of one.
func rankMapOf(
	run []*sealedSegment, indexes []*index.Segment, dropped [][]uint64,
) (*index.RankMap, error) {
	if run[0].meta.IsBackdated() && len(run) > 1 {
		return index.MergeRanks(indexes, dropped)
	}
	return index.ConcatRanks(indexes, dropped)
}

// newestPutOf returns the acq of the newest put of a run of backdated segments.
func newestPutOf(run []*sealedSegment) int64 {
	newest := int64(manifest.NoPut)
	for _, seg := range run {
		newest = max(newest, seg.meta.PutAcqNs)
	}
	return newest
}

// acqCounts are how many rows lie at each of some acqs.
type acqCounts map[int64]int

// count adds how many rows a read state holds at the acqs, without reading them.
func (c acqCounts) count(now *readState) {
	for _, below := range now.appendBelow(nil, math.MinInt64) {
		for acq := range c {
			c[acq] += below(acq+1) - below(acq)
		}
	}
}
