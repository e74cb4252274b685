package store

import (
	"math/bits"

	"github.com/pentad-db/pentad/sdk/record"
)

// reading is what versions of one reading share.
type reading struct {
	cid, moid int32
	mid, cap  int64
}

// newest knows, for the readings in a box that have a row which may supersede an older one, the
// greatest acq. A row is the newest of its reading when newest knows no greater acq: every row
// that hides another is flagged when it enters a head.
type newest struct {
	acqs  map[reading]int64
	bloom []uint64 // over readings in acqs; a power of two words
	room  *int     // readings that all shards of the scan may still add
}

func (n *newest) add(b *record.Batch, i int) error {
	key := reading{b.CID[i], b.MOID[i], b.MID[i], b.CapNs[i]}
	if n.acqs == nil {
		n.acqs = map[reading]int64{}
	}
	known, ok := n.acqs[key]
	if !ok {
		if *n.room--; *n.room < 0 {
			return ErrTooManyVersions
		}
	}
	if !ok || known < b.AcqNs[i] {
		n.acqs[key] = b.AcqNs[i]
	}
	return nil
}

// seal draws the bloom filter: 16 to 32 bits per reading let about one row in ten thousand
// through to the map in vain.
func (n *newest) seal() {
	if len(n.acqs) == 0 {
		return
	}
	n.bloom = make([]uint64, 1<<bits.Len(uint(len(n.acqs)/4)))
	for key := range n.acqs {
		word, mask := n.place(key.mid, key.cap)
		n.bloom[word] |= mask
	}
}

func (n *newest) place(mid, capNs int64) (word int, mask uint64) {
	h := (uint64(mid)*0x9e3779b97f4a7c15 ^ uint64(capNs)) * 0xff51afd7ed558ccd
	h ^= h >> 32
	word = int(h>>12) & (len(n.bloom) - 1)
	return word, 1<<(h&63) | 1<<(h>>6&63)
}

// hides reports whether a newer version of row i is known.
func (n *newest) hides(b *record.Batch, i int) bool {
	if n.bloom == nil {
		return false
	}
	word, mask := n.place(b.MID[i], b.CapNs[i])
	if n.bloom[word]&mask != mask {
		return false
	}
	acq, ok := n.acqs[reading{b.CID[i], b.MOID[i], b.MID[i], b.CapNs[i]}]
	return ok && acq > b.AcqNs[i]
}

// findNewest collects the flagged rows of a shard that lie in the box.
func (sc *scan) findNewest(part *shardScan) error {
	part.newest = &newest{room: &sc.newestRoom}
	heads := make([]*frozenHead, 0, len(part.now.frozen)+1)
	heads = append(append(heads, part.now.frozen...), &frozenHead{head: part.now.head})
	for _, h := range heads {
		err := h.head.Scan(&sc.box, sc.horizon, true, func(b *record.Batch, flags []uint64) error {
			for i := range b.Len() {
				if flags[i>>6]>>(i&63)&1 == 0 {
					continue
				}
				if err := part.newest.add(b, i); err != nil {
					return err
				}
			}
			return sc.ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	w := &worker{scan: sc}
	for _, seg := range part.segments {
		for _, c := range seg.plan.Candidates {
			if seg.idx.Block(c.Block).Flagged == 0 {
				continue
			}
			if err := w.flaggedRows(part, seg, c); err != nil {
				return err
			}
		}
	}
	part.newest.seal()
	return nil
}

// resolve removes from the batch the rows at or after start that a newer version hides, or whose
// acq the query did not ask for.
func (w *worker) resolve(part *shardScan, b *record.Batch, start int) {
	if w.scan.view == record.ViewAll {
		return
	}
	winners := w.scan.winners
	keep := start
	for i := start; i < b.Len(); i++ {
		if part.newest.hides(b, i) || !winners.Contains(b.AcqNs[i]) {
			continue
		}
		if keep != i {
			moveRow(b, keep, i)
		}
		keep++
	}
	truncate(b, keep)
}

// moveRow copies row from to row to, to < from, where everything between them is to vanish.
func moveRow(b *record.Batch, to, from int) {
	b.CID[to], b.MID[to], b.MOID[to] = b.CID[from], b.MID[from], b.MOID[from]
	b.CapNs[to], b.AcqNs[to] = b.CapNs[from], b.AcqNs[from]
	if b.Offsets == nil {
		copy(b.Data[to*b.Stride:(to+1)*b.Stride], b.Data[from*b.Stride:])
		return
	}
	size := b.Offsets[from+1] - b.Offsets[from]
	copy(b.Data[b.Offsets[to]:], b.Data[b.Offsets[from]:b.Offsets[from+1]])
	b.Offsets[to+1] = b.Offsets[to] + size
}

// truncate cuts a stamped batch to its first n rows.
func truncate(b *record.Batch, n int) {
	b.CID, b.MID, b.MOID = b.CID[:n], b.MID[:n], b.MOID[:n]
	b.CapNs, b.AcqNs = b.CapNs[:n], b.AcqNs[:n]
	if b.Offsets == nil {
		b.Data = b.Data[:n*b.Stride]
		return
	}
	b.Offsets = b.Offsets[:n+1]
	b.Data = b.Data[:b.Offsets[n]]
}
