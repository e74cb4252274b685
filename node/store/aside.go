package store

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// asideRows and asideBytes are how large a head of a shard that is aside gets: each put makes
	// it anew, in the order of acq.
	asideRows  = 1 << 17
	asideBytes = 64 << 20
	// maxShuffledRows bounds what a merge of segments that are aside keeps in memory, 4 bytes a
	// row, and what a segment of rows with scattered acqs does as long as it is open, 16.
	maxShuffledRows = 1 << 24
)

// newShards makes the shards of a directory. Each has one aside, for rows that came below the
// horizon: their acqs lie among those of its other rows, which heads, merges and flags may so go on
// to take for ascending. all lists the shards, and then those aside in the same order.
func newShards(count int) (shards, all []*shard) {
	none := index.NewHead(index.TopWatermarks()) // nothing is ever inserted into a head aside
	for i := range count {
		aside := &shard{id: uint32(count + i)}
		aside.begin(none)
		sh := &shard{id: uint32(i), aside: aside}
		sh.begin(index.NewHead(index.NewWatermarks()))
		shards = append(shards, sh)
	}
	all = slices.Clone(shards)
	for _, sh := range shards {
		all = append(all, sh.aside)
	}
	return shards, all
}

// isAside reports whether the shard is one of rows that came below the horizon.
func (sh *shard) isAside() bool { return sh.aside == nil }

// isAside reports whether the segment holds rows that came below the horizon.
func (m *segmentMeta) isAside() bool { return m.PutAcqNs != noPut }

// noPut is the acq of a put of rows that came below the horizon where there is none.
const noPut = 0

// checkPlace checks that a segment names a shard of so many, and one aside if it must.
func (m *segmentMeta) checkPlace(shards int) error {
	if int64(m.Shard) >= 2*int64(shards) {
		return fmt.Errorf("segment %d is of shard %d of %d", m.ID, m.Shard, shards)
	}
	if m.isAside() != (int64(m.Shard) >= int64(shards)) {
		return fmt.Errorf("segment %d of shard %d of %d was put at acq %d", m.ID, m.Shard, shards,
			m.PutAcqNs)
	}
	return nil
}

// asideHead is what is known of a head aside.
type asideHead struct {
	last   uint64 // log index of the last entry in it
	putNs  int64  // acq of its newest put
	bounds bounds // of its rows
}

// isEmpty reports whether the snapshot holds no row.
func (s *snapshot) isEmpty() bool {
	return len(s.sealed)+len(s.frozen) == 0 && s.head.Rows() == 0
}

// acquirePair returns what the shard and the one aside of it hold as one snapshot, to be released
// by the caller.
func (sh *shard) acquirePair() *snapshot {
	main := sh.acquire()
	if sh.aside.snapshot.Load().isEmpty() {
		return main
	}
	below := sh.aside.acquire()
	pair := &snapshot{main: main, below: below, head: main.head,
		sealed: slices.Concat(below.sealed, main.sealed),
		frozen: slices.Concat(below.frozen, main.frozen)}
	if below.head.Rows() > 0 {
		last := &frozenHead{head: below.head, aside: below.aside}
		pair.frozen = append([]*frozenHead{last}, pair.frozen...)
	}
	pair.users.Store(1)
	return pair
}

// acquireFor is acquirePair for a box: where no row that came below the horizon lies in it, only
// what the shard holds.
func (sh *shard) acquireFor(box *record.Box) *snapshot {
	now := sh.acquirePair()
	if now.below == nil || now.below.newestPut(box, noPut) != noPut {
		return now
	}
	now.below.release()
	return now.main
}

// newestPut returns the acq of the newest put to a shard aside of which rows may lie in a box, or
// found when that is newer.
func (s *snapshot) newestPut(box *record.Box, found int64) int64 {
	b := boundsOf(box)
	for _, seg := range s.sealed {
		if _, ok := missed(seg, box); !ok {
			found = max(found, seg.meta.PutAcqNs)
		}
	}
	for _, f := range s.frozen {
		if f.aside.bounds.meets(&b) {
			found = max(found, f.aside.putNs)
		}
	}
	if s.head.Rows() > 0 && s.aside.bounds.meets(&b) {
		found = max(found, s.aside.putNs)
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
	old.Freeze(rows)
	rows.AppendRows(more, 0, more.Len())
	h := index.NewHead(index.TopWatermarks())
	h.Insert(byAcq(rows))
	return h
}

// setHead puts a head with some more rows, put at an acq, in place of the present one. Scans that
// have that one go on without these rows: they have looked for the versions of others.
func (sh *shard) setHead(h *index.Head, more *record.Batch, putNs int64) {
	sh.change(func(old *snapshot) *snapshot {
		next := old.with(old.sealed, old.frozen)
		next.head = h
		next.aside = asideHead{sh.lastIndex, putNs, boundsOfRows(more)}
		next.aside.bounds[record.Acq] = boundOf(more.AcqNs)
		if old.head.Rows() > 0 {
			next.aside.putNs = max(putNs, old.aside.putNs)
			next.aside.bounds.include(&old.aside.bounds)
		}
		return next
	})
}

// asideFull reports whether a head aside has grown as large as it may.
func asideFull(h *index.Head) bool { return h.Rows() >= asideRows || h.Bytes() >= asideBytes }

// replayAside is what the log says of a shard aside and no head holds yet: each entry by itself
// would have the head made anew.
type replayAside struct {
	rows  record.Batch
	putNs int64
}

// below keeps rows of the log that came below the horizon.
func (r *replay) below(sh *shard, h *segment.RowsHeader) {
	if r.aside == nil {
		r.aside = map[*shard]*replayAside{}
	}
	a := r.aside[sh]
	if a == nil {
		a = &replayAside{}
		r.aside[sh] = a
	}
	a.rows.AppendRows(&r.batch, 0, r.batch.Len())
	a.putNs = max(a.putNs, h.BatchFirstAcqNs)
	if a.rows.Len() >= asideRows || len(a.rows.Data) >= asideBytes {
		r.insertAside(sh)
	}
}

// insertAside gives a shard aside the rows that were kept.
func (r *replay) insertAside(sh *shard) {
	a := r.aside[sh]
	delete(r.aside, sh)
	old := sh.snapshot.Load().head
	h := withRows(old, &a.rows)
	sh.setHead(h, &a.rows, a.putNs)
	r.store.headBytes += h.Grown() - old.Bytes()
	if asideFull(h) || r.store.isFull(h) {
		sh.freeze()
	}
}

// insertAll gives all shards aside the rows that were kept.
func (r *replay) insertAll() {
	for sh := range r.aside {
		r.insertAside(sh)
	}
}

// limitOf returns how many rows a merge may make of segments like this one.
func limitOf(seg *sealedSegment) int64 {
	if seg.meta.isAside() {
		return maxShuffledRows
	}
	return maxMergedRows
}

// spliceOf numbers the rows of a run of segments as those of one.
func spliceOf(
	run []*sealedSegment, indexes []*index.Segment, dropped [][]uint64,
) (*index.Splice, error) {
	if run[0].meta.isAside() && len(run) > 1 {
		return index.NewShuffle(indexes, dropped)
	}
	return index.NewSplice(indexes, dropped)
}

// newestPutOf returns the acq of the newest put of a run of segments aside.
func newestPutOf(run []*sealedSegment) int64 {
	newest := int64(noPut)
	for _, seg := range run {
		newest = max(newest, seg.meta.PutAcqNs)
	}
	return newest
}

// checkAcqs refuses a segment of rows that share acqs, unless it is aside.
func (m *segmentMeta) checkAcqs(idx *index.Segment) error {
	if idx.SharesAcqs() && !m.isAside() {
		return fmt.Errorf("rows of shard %d share acqs", m.Shard)
	}
	return nil
}

// asideCounts are how many rows lie at each of some acqs.
type asideCounts map[int64]int

// count adds how many rows a snapshot holds at the acqs, without reading them.
func (c asideCounts) count(now *snapshot) {
	for _, below := range now.appendBelow(nil, math.MinInt64) {
		for acq := range c {
			c[acq] += below(acq+1) - below(acq)
		}
	}
}

// checkEntryShard checks that rows of the log name a shard of so many, and one aside if they must.
func checkEntryShard(e *segment.Entry, h *segment.RowsHeader, shards int) error {
	if int64(e.Shard) >= 2*int64(shards) {
		return fmt.Errorf("log entry of shard %d of %d", e.Shard, shards)
	}
	if aside := int64(e.Shard) >= int64(shards); aside != h.Shared {
		return fmt.Errorf("log entry of shard %d of %d, rows that may share acqs: %v", e.Shard,
			shards, h.Shared)
	}
	return nil
}
