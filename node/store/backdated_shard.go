package store

import (
	"math"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/node/store/shards"
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

// isBackdatedFull reports whether the head of a backdated shard has grown as large as it may.
func isBackdatedFull(h shards.Head) bool {
	return h.Rows() >= maxBackdatedRows || h.Bytes() >= maxBackdatedBytes
}

// replayedBackdated is what the log says of a backdated shard and no head holds yet: each entry by
// itself would have the head made again.
type replayedBackdated struct {
	rows  record.Batch
	putNs int64
}

// addBackdated keeps rows of the log that came below the horizon.
func (r *replay) addBackdated(sh *shards.Shard, h *segment.RowsHeader) {
	if r.backdated == nil {
		r.backdated = map[*shards.Shard]*replayedBackdated{}
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
func (r *replay) insertBackdated(sh *shards.Shard) {
	a := r.backdated[sh]
	delete(r.backdated, sh)
	old := sh.State.Load().Head.Shards[0]
	h := shards.WithRows(old, &a.rows)
	sh.SetHead(h, &a.rows, a.putNs)
	r.store.headBudget.Add(h.GrowthSinceLastCall() - old.Bytes())
	if h := shards.HeadOf(h); isBackdatedFull(h) || r.store.isFull(h) {
		sh.Rotate()
	}
}

// insertAll gives all backdated shards the rows that were kept.
func (r *replay) insertAll() {
	for sh := range r.backdated {
		r.insertBackdated(sh)
	}
}

// mergeLimit returns how many rows a merge may make of segments like this one.
func mergeLimit(seg *shards.Segment) int64 {
	if seg.Meta.IsBackdated() {
		return maxBackdatedMergeRows
	}
	return mergepolicy.MaxRows
}

// rankMapOf numbers the rows of a run of segments as those of one.
func rankMapOf(
	run []*shards.Segment, indexes []*index.Segment, dropped [][]uint64,
) (*index.RankMap, error) {
	if run[0].Meta.IsBackdated() && len(run) > 1 {
		return index.MergeRanks(indexes, dropped)
	}
	return index.ConcatRanks(indexes, dropped)
}

// newestPutOf returns the acq of the newest put of a run of backdated segments.
func newestPutOf(run []*shards.Segment) int64 {
	newest := int64(manifest.NoPut)
	for _, seg := range run {
		newest = max(newest, seg.Meta.PutAcqNs)
	}
	return newest
}

// acqCounts are how many rows lie at each of some acqs.
type acqCounts map[int64]int

// count adds how many rows a read state holds at the acqs, without reading them.
func (c acqCounts) count(state *shards.State) {
	for _, below := range state.AppendBelow(nil, math.MinInt64) {
		for acq := range c {
			c[acq] += below(acq+1) - below(acq)
		}
	}
}
