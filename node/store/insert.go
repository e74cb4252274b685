package store

import (
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/sdk/record"
)

// sideBySideRows is from how many rows of a write group on goroutines fill its head shards side by
// side: for fewer, waking one takes as long as what it does.
const sideBySideRows = 2048

// headShardRows is the rows of a batch and shard that belong to one head shard.
type headShardRows struct {
	headShard int
	rows      record.Batch
	at        []uint32 // their places among the rows of the shard, ascending; nil: they are all
}

// divide divides the rows by head shard, in copies unless all are of one. Their acqs come later.
func (p *shardRows) divide(headShards int) {
	if headShards == 1 {
		return
	}
	b := &p.rows
	owners, counts := make([]uint8, b.Len()), [shards.MaxHeadShards]int{}
	owner := 0
	for i := range owners {
		if i == 0 || b.CID[i] != b.CID[i-1] ||
			b.MID[i]>>slots.DeviceRangeBits != b.MID[i-1]>>slots.DeviceRangeBits {
			owner = shards.HeadShardOf(b.CID[i], b.MID[i], headShards)
		}
		owners[i] = uint8(owner)
		counts[owner]++
	}
	if counts[owner] == b.Len() {
		p.divided = []headShardRows{{headShard: owner, rows: *b}}
		return
	}
	at, next := make([]uint32, b.Len()), [shards.MaxHeadShards]int{}
	for i := 1; i < headShards; i++ {
		next[i] = next[i-1] + counts[i-1]
	}
	for i, owner := range owners {
		at[next[owner]] = uint32(i)
		next[owner]++
	}
	acqs := b.AcqNs
	b.AcqNs = nil
	for i, count := range counts[:headShards] {
		if count == 0 {
			continue
		}
		d := headShardRows{headShard: i, at: at[:count:count]}
		d.rows.AppendPicked(b, d.at)
		d.rows.AcqNs = make([]int64, count)
		p.divided, at = append(p.divided, d), at[count:]
	}
	b.AcqNs = acqs
}

// stamp gives the rows the acqs that those of the shard have by now.
func (d *headShardRows) stamp(acqs []int64) {
	for k, i := range d.at {
		d.rows.AcqNs[k] = acqs[i]
	}
}

// insert puts the rows of a durable write group into the heads. The next horizon makes them
// visible.
func (s *Store) insert(writeGroup []*putRequest) {
	rows := 0
	for _, r := range writeGroup {
		rows += r.rows
		for i := range r.byShard {
			s.described.markRows(&r.byShard[i].rows)
		}
	}
	headShards := s.opt.HeadShards
	if headShards > 1 && rows >= s.opt.sideBySideRows {
		s.insertSideBySide(writeGroup, headShards)
	} else {
		for _, r := range writeGroup {
			for i := range r.byShard {
				s.insertRows(&r.byShard[i], -1)
			}
		}
	}
	var grown int64
	for _, sh := range s.shards {
		grown += sh.State.Load().Head.GrowthSinceLastCall()
	}
	s.headBudget.Add(grown)
}

// insertSideBySide fills the head shards of all shards, one goroutine each as long as processors
// have nothing else to do.
func (s *Store) insertSideBySide(writeGroup []*putRequest, headShards int) {
	var next atomic.Int64
	fill := func() {
		for n := int(next.Add(1)) - 1; n < headShards; n = int(next.Add(1)) - 1 {
			for _, r := range writeGroup {
				for i := range r.byShard {
					s.insertRows(&r.byShard[i], n)
				}
			}
		}
	}
	var wg sync.WaitGroup
	for range min(headShards, s.opt.Workers) - 1 {
		wg.Go(fill)
	}
	fill()
	wg.Wait()
}

// insertRows puts the rows of a shard into a head shard, or into all for -1.
func (s *Store) insertRows(p *shardRows, headShard int) {
	head := s.shards[p.shard].State.Load().Head
	if len(head.Shards) == 1 {
		head.Shards[0].Insert(&p.rows)
		return
	}
	for i := range p.divided {
		d := &p.divided[i]
		if headShard < 0 || d.headShard == headShard {
			d.stamp(p.rows.AcqNs)
			head.Shards[d.headShard].Insert(&d.rows)
		}
	}
}
