// Package pebble measures Pebble, the LSM tree of CockroachDB, as an engineer would use it for
// measurements: keys that sort as queries ask, payloads as values, and skips within a scan.
package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	keyBytes  = 1 + 4 + 8 + 4 + 8 + 8 // copy, then the parts in its order
	cacheSize = 1 << 30
	// nearby is how many keys are stepped over before a seek is cheaper.
	nearby = 8
)

// order is the order of the parts in the keys of a copy.
type order [record.NumDims]record.Dim

// orders returns the copies: by device, and with all three by time of capture and of arrival.
func orders(copies int) []order {
	return []order{
		{record.CID, record.MID, record.MOID, record.Cap, record.Acq},
		{record.Cap, record.MOID, record.CID, record.MID, record.Acq},
		{record.Acq, record.CID, record.MID, record.MOID, record.Cap},
	}[:copies]
}

// Kinds returns Pebble with the primary order alone, and with three covering copies.
func Kinds() []system.Kind {
	kind := func(name, about string, copies int) system.Kind {
		return system.Kind{Name: name, About: about, Durability: "WAL synced per batch",
			Open: func(_ context.Context, dir string) (system.System, error) {
				return open(dir, copies)
			}}
	}
	return []system.Kind{
		kind("pebble", "key (cid, mid, moid, cap, acq), bloom filters, 1 GiB cache, skip scans", 1),
		kind("pebble-3", "as pebble, with covering copies (cap, moid, cid, mid, acq) and "+
			"(acq, cid, mid, moid, cap); the best copy per query", 3),
	}
}

type db struct {
	*pebble.DB
	orders []order
	lo, hi [record.NumDims]int64 // of what was stored

}

func open(dir string, copies int) (*db, error) {
	cache := pebble.NewCache(cacheSize)
	defer cache.Unref()
	opt := &pebble.Options{Cache: cache, MemTableSize: 64 << 20, L0CompactionThreshold: 2,
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 }, Logger: quiet{}}
	opt.Levels[0].FilterPolicy = bloom.FilterPolicy(10)
	opt.FormatMajorVersion = pebble.FormatNewest
	d, err := pebble.Open(dir, opt)
	if err != nil {
		return nil, err
	}
	out := &db{DB: d, orders: orders(copies)}
	for i := range out.lo {
		out.lo[i], out.hi[i] = math.MaxInt64, math.MinInt64
	}
	return out, nil
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, _ ...any) {
	panic("pebble: " + format)
}

func (o order) append(dst []byte, copied int, k [record.NumDims]int64) []byte {
	dst = append(dst, byte(copied))
	for _, d := range o {
		switch v := k[d]; d {
		case record.CID, record.MOID:
			dst = binary.BigEndian.AppendUint32(dst, uint32(int32(v))^1<<31)
		default:
			dst = binary.BigEndian.AppendUint64(dst, uint64(v)^1<<63)
		}
	}
	return dst
}

func (o order) parse(src []byte) (k [record.NumDims]int64) {
	src = src[1:]
	for _, d := range o {
		switch d {
		case record.CID, record.MOID:
			k[d], src = int64(int32(binary.BigEndian.Uint32(src)^1<<31)), src[4:]
		default:
			k[d], src = int64(binary.BigEndian.Uint64(src)^1<<63), src[8:]
		}
	}
	return k
}

func (d *db) Put(_ context.Context, b *record.Batch) error {
	batch := d.NewBatchWithSize(b.Len() * len(d.orders) * (keyBytes + 32))
	defer batch.Close()
	var key []byte
	for i := range b.Len() {
		k := [record.NumDims]int64{int64(b.CID[i]), b.MID[i], int64(b.MOID[i]), b.CapNs[i],
			b.AcqNs[i]}
		for dim, v := range k {
			d.lo[dim], d.hi[dim] = min(d.lo[dim], v), max(d.hi[dim], v)
		}
		for c, o := range d.orders {
			key = o.append(key[:0], c, k)
			if err := batch.Set(key, b.Payload(i), nil); err != nil {
				return err
			}
		}
	}
	return batch.Commit(pebble.Sync)
}

func (d *db) Settle(ctx context.Context) error {
	if err := d.Flush(); err != nil {
		return err
	}
	return d.Compact(ctx, []byte{0}, []byte{255}, true)
}

// choose returns the copy that leaves the smallest part of the keys to be looked at.
func (d *db) choose(box *record.Box) int {
	best, smallest := 0, math.Inf(1)
	for c, o := range d.orders {
		part := 1.0
		for _, dim := range o {
			set := box[dim]
			if len(set) == 0 && (dim == record.CID || dim == record.MOID) {
				continue // of few values: each is sought in turn
			}
			if len(set) == 0 {
				break
			}
			width, point := 0.0, true
			for _, r := range set {
				width += float64(min(r.To, d.hi[dim]+1)) - float64(max(r.From, d.lo[dim]))
				point = point && r.To-r.From == 1
			}
			span := float64(d.hi[dim]-d.lo[dim]) + 1
			part *= max(0, width) / span
			if !point {
				break
			}
		}
		if part < smallest {
			best, smallest = c, part
		}
	}
	return best
}

func (d *db) Ask(
	_ context.Context, q *record.Query, count bool, take func(b *record.Batch),
) (uint64, error) {
	if q.View == record.ViewAsOf {
		return 0, errors.New("pebble: no view as of")
	}
	c := d.choose(&q.Box)
	if q.View == record.ViewLatest {
		c = 0 // versions of a reading are neighbours there
	}
	it, err := d.NewIter(&pebble.IterOptions{LowerBound: []byte{byte(c)},
		UpperBound: []byte{byte(c) + 1}})
	if err != nil {
		return 0, err
	}
	s := &scan{it: it, order: d.orders[c], copied: c, box: &q.Box,
		latest: q.View == record.ViewLatest,
		count:  count, take: take}
	s.run()
	return s.rows, errors.Join(it.Error(), it.Close())
}

// scan walks the keys of a copy that lie in a box, seeking over those that do not.
type scan struct {
	it     *pebble.Iterator
	order  order
	copied int
	box    *record.Box
	latest bool
	count  bool
	take   func(b *record.Batch)

	batch  record.Batch
	rows   uint64
	held   record.Record // the newest version so far, with latest
	holds  bool
	target []byte
}

func (s *scan) run() {
	var first [record.NumDims]int64
	for d := range first {
		first[d] = s.lowest(record.Dim(d))
	}
	ok := s.it.SeekGE(s.order.append(nil, s.copied, first))
	for ok {
		k := s.order.parse(s.it.Key())
		next, in, done := s.next(k)
		if in {
			s.found(k, s.it.Value())
			ok = s.it.Next()
			continue
		}
		if done {
			break
		}
		s.target = s.order.append(s.target[:0], s.copied, next)
		ok = s.skip()
	}
	s.release()
	if s.batch.Len() > 0 {
		s.take(&s.batch)
	}
}

// skip goes to the first key from the target on: by steps when it is near.
func (s *scan) skip() bool {
	for range nearby {
		if !s.it.Next() {
			return false
		}
		if bytes.Compare(s.it.Key(), s.target) >= 0 {
			return true
		}
	}
	return s.it.SeekGE(s.target)
}

func (s *scan) lowest(d record.Dim) int64 {
	if set := s.box[d]; len(set) > 0 {
		return set[0].From
	}
	return d.Min()
}

// after returns the smallest value of the set from v on.
func (s *scan) after(d record.Dim, v int64) (int64, bool) {
	set := s.box[d]
	if len(set) == 0 {
		return v, true
	}
	i, _ := slices.BinarySearchFunc(set, v, func(r record.Range, v int64) int {
		if r.To <= v {
			return -1
		}
		return 1
	})
	if i == len(set) {
		return 0, false
	}
	return max(v, set[i].From), true
}

// next reports whether a key lies in the box, and else the first that may.
func (s *scan) next(k [record.NumDims]int64) (to [record.NumDims]int64, in, done bool) {
	for at, d := range s.order {
		if s.box[d].Contains(k[d]) {
			continue
		}
		for place, bump := at, false; place >= 0; place, bump = place-1, true {
			dim := s.order[place]
			v := k[dim]
			if bump {
				v++
			}
			if v, ok := s.after(dim, v); ok {
				k[dim] = v
				for _, later := range s.order[place+1:] {
					k[later] = s.lowest(later)
				}
				return k, false, false
			}
		}
		return k, false, true
	}
	return k, true, false
}

// found takes a row; with latest it waits until the next key shows that it was the newest.
func (s *scan) found(k [record.NumDims]int64, payload []byte) {
	key := record.Key{CID: int32(k[0]), MID: k[1], MOID: int32(k[2]), CapNs: k[3], AcqNs: k[4]}
	if !s.latest {
		s.emit(key, payload)
		return
	}
	same := s.held.Key
	same.AcqNs = key.AcqNs
	if s.holds && same != key {
		s.release()
	}
	s.held = record.Record{Key: key, Payload: append(s.held.Payload[:0], payload...)}
	s.holds = true
}

func (s *scan) release() {
	if s.holds {
		s.emit(s.held.Key, s.held.Payload)
		s.holds = false
	}
}

func (s *scan) emit(key record.Key, payload []byte) {
	s.rows++
	if s.count {
		return
	}
	s.batch.AppendStamped(key, payload)
	if s.batch.Len() >= system.TakeRows {
		s.take(&s.batch)
		s.batch.Reset()
	}
}
