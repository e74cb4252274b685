package store

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/sdk/record"
)

// sideBySideRows is from how many rows of a write group on goroutines fill its head shards side by
// side: for fewer, waking one takes as long as what it does.
const sideBySideRows = 2048

// keptPutBytes is how many bytes of a log entry a put may leave space for to the next one.
const keptPutBytes = 4 << 20

// headShardRows is the rows of a batch and shard that belong to one head shard.
type headShardRows struct {
	headShard int
	rows      record.Batch
	at        []uint32 // their places among the rows of the shard, ascending; nil: they are all
}

// putBuffers is memory that one put hands to the next, of any store: what was never touched costs
// more than what is done in it.
type putBuffers struct {
	entry   []byte
	owners  []uint8
	at      []uint32
	divided []headShardRows
}

var putBufferPool = sync.Pool{New: func() any { return new(putBuffers) }}

// giveBack hands the memory of a put that was committed or refused to the next one.
func (r *putRequest) giveBack() {
	m := r.buffers
	if r.buffers, r.byShard = nil, nil; m != nil && cap(m.entry) <= keptPutBytes {
		putBufferPool.Put(m)
	}
}

// prepare copies the rows of a batch for each shard and head shard that has any, and makes its log
// entries, which the committer stamps.
func (s *Store) prepare(r *putRequest, b *record.Batch) {
	r.buffers = putBufferPool.Get().(*putBuffers)
	if len(s.shards) > 1 {
		r.byShard = s.split(b)
		for i := range r.byShard {
			p := &r.byShard[i]
			p.entry = r.appendEntry(nil, &p.rows)
		}
		return
	}
	r.byShard = make([]shardRows, 1)
	p := &r.byShard[0]
	r.buffers.entry = r.appendEntry(r.buffers.entry[:0], b)
	p.entry = r.buffers.entry
	p.divideCopy(b, s.opt.HeadShards, r.buffers)
}

func (r *putRequest) appendEntry(dst []byte, rows *record.Batch) []byte {
	return segment.AppendRowsEntry(dst, &segment.RowsHeader{
		Writer: r.writer.ID, Seq: r.writer.Seq, Persistent: r.writer.Persistent,
		BatchRecords: uint32(r.rows), BatchEntries: uint32(len(r.byShard)),
	}, rows, nil)
}

// split copies the rows of a batch, apart for each shard and head shard that has any.
func (s *Store) split(b *record.Batch) []shardRows {
	byShard := splitByShard(b, len(s.shards))
	for i := range byShard {
		byShard[i].divide(s.opt.HeadShards)
	}
	return byShard
}

// divide divides the rows by head shard, in copies unless all are of one. Their acqs come later.
func (p *shardRows) divide(headShards int) {
	if headShards == 1 {
		return
	}
	var m putBuffers
	if owner, one := m.findOwners(&p.rows, headShards); one {
		p.divided = []headShardRows{{headShard: owner, rows: p.rows}}
		return
	}
	p.divided = m.pick(&p.rows, headShards)
}

// divideCopy divides the rows of a batch by head shard, in copies in the memory of m.
func (p *shardRows) divideCopy(b *record.Batch, headShards int, m *putBuffers) {
	owner, one := 0, headShards == 1
	if !one {
		owner, one = m.findOwners(b, headShards)
	}
	if !one {
		p.divided = m.pick(b, headShards)
		return
	}
	m.divided = slices.Grow(m.divided[:0], 1)[:1]
	d := &m.divided[0]
	d.headShard, d.at = owner, nil
	d.begin(b.Len())
	d.rows.AppendRows(b, 0, b.Len())
	p.divided = m.divided
}

// findOwners finds the head shard of each row; one: it is the same for all.
func (m *putBuffers) findOwners(b *record.Batch, headShards int) (owner int, one bool) {
	m.owners = emptied(m.owners, b.Len())
	one = true
	for i := range b.CID {
		if i == 0 || b.CID[i] != b.CID[i-1] ||
			b.MID[i]>>slots.DeviceRangeBits != b.MID[i-1]>>slots.DeviceRangeBits {
			o := shards.HeadShardOf(b.CID[i], b.MID[i], headShards)
			one = one && (i == 0 || o == owner)
			owner = o
		}
		m.owners = append(m.owners, uint8(owner))
	}
	return owner, one
}

// pick copies the rows of a batch by their owners.
func (m *putBuffers) pick(b *record.Batch, headShards int) []headShardRows {
	var counts, next [shards.MaxHeadShards]int
	for _, owner := range m.owners {
		counts[owner]++
	}
	for i := 1; i < headShards; i++ {
		next[i] = next[i-1] + counts[i-1]
	}
	m.at = emptied(m.at, b.Len())[:b.Len()]
	for i, owner := range m.owners {
		m.at[next[owner]] = uint32(i)
		next[owner]++
	}
	m.divided = m.divided[:0]
	at := m.at
	for i, count := range counts[:headShards] {
		if count == 0 {
			continue
		}
		m.divided = slices.Grow(m.divided, 1)[:len(m.divided)+1]
		d := &m.divided[len(m.divided)-1]
		d.headShard, d.at = i, at[:count:count]
		acqs := d.begin(count)
		d.rows.AppendPicked(b, d.at)
		d.rows.AcqNs, at = acqs, at[count:]
	}
	return m.divided
}

// begin empties the rows but for space for the acqs of a number of them, which it also returns.
func (d *headShardRows) begin(rows int) (acqs []int64) {
	acqs = emptied(d.rows.AcqNs, rows)[:rows]
	d.rows.Reset()
	d.rows.AcqNs = acqs
	return acqs
}

// emptied returns an empty slice with space for n, which is that of old if it has so much.
func emptied[T any](old []T, n int) []T {
	if cap(old) >= n {
		return old[:0]
	}
	return make([]T, 0, n)
}

// stamp gives the rows their acqs, which those of the shard have by now.
func (d *headShardRows) stamp(p *shardRows) {
	switch acqs := d.rows.AcqNs; {
	case len(p.rows.AcqNs) > 0:
		for k, i := range d.at { // where these are all, acqs is the same slice
			acqs[k] = p.rows.AcqNs[i]
		}
	case d.at == nil:
		for k := range acqs {
			acqs[k] = p.firstNs + int64(k)
		}
	default:
		for k, i := range d.at {
			acqs[k] = p.firstNs + int64(i)
		}
	}
}

// eachRows calls visit with the rows in one or several batches, which are stamped once they are in
// the heads.
func (p *shardRows) eachRows(visit func(*record.Batch)) {
	if p.rows.Len() > 0 {
		visit(&p.rows)
		return
	}
	for i := range p.divided {
		visit(&p.divided[i].rows)
	}
}

// count returns the number of rows.
func (p *shardRows) count() (n int) {
	p.eachRows(func(rows *record.Batch) { n += rows.Len() })
	return n
}

// insert puts the rows of a durable write group into the heads. The next horizon makes them
// visible.
func (s *Store) insert(writeGroup []*putRequest) {
	rows := 0
	for _, r := range writeGroup {
		rows += r.rows
	}
	if s.opt.HeadShards > 1 && rows >= s.opt.sideBySideRows {
		s.insertSideBySide(writeGroup)
	} else {
		s.insertHeadShard(writeGroup, -1)
	}
	for _, r := range writeGroup {
		for i := range r.byShard {
			r.byShard[i].eachRows(s.described.markRows)
		}
	}
	var grown int64
	for _, sh := range s.shards {
		grown += sh.State.Load().Head.GrowthSinceLastCall()
	}
	s.headBudget.Add(grown)
}

// insertSideBySide fills the head shards of all shards, with as many goroutines as may be workers
// of a scan.
func (s *Store) insertSideBySide(writeGroup []*putRequest) {
	var next atomic.Int64
	fill := func() {
		for n := int(next.Add(1)) - 1; n < s.opt.HeadShards; n = int(next.Add(1)) - 1 {
			s.insertHeadShard(writeGroup, n)
		}
	}
	var wg sync.WaitGroup
	for range min(s.opt.HeadShards, s.opt.Workers) - 1 {
		wg.Go(fill)
	}
	fill()
	wg.Wait()
}

// insertHeadShard puts the rows of one head shard, all for -1, into the heads.
func (s *Store) insertHeadShard(writeGroup []*putRequest, headShard int) {
	for _, r := range writeGroup {
		for i := range r.byShard {
			s.insertRows(&r.byShard[i], headShard)
		}
	}
}

// insertRows puts the rows of a shard into a head shard, into all for -1.
func (s *Store) insertRows(p *shardRows, headShard int) {
	head := s.shards[p.shard].State.Load().Head
	if len(p.divided) == 0 { // there is one head shard
		head.Shards[0].Insert(&p.rows)
		return
	}
	for i := range p.divided {
		d := &p.divided[i]
		if headShard < 0 || d.headShard == headShard {
			d.stamp(p)
			head.Shards[d.headShard].Insert(&d.rows)
		}
	}
}
