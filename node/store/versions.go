package store

import (
	"errors"
	"math/bits"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// reading is what versions of one reading share.
type reading struct {
	cid, moid int32
	mid, cap  int64
}

// version is a reading and the greatest acq known of it.
type version struct {
	reading
	acqNs int64
}

// newest knows, for the readings in a box that have a row which may supersede an older one, the
// greatest acq. A row is the newest of its reading when newest knows no greater acq: every row
// that hides another is flagged when it enters a head, or looked for because the other came below
// the horizon.
//
// It is a table with open addressing. Most rows are asked for in vain, and a byte of their hash
// tells: 0 in tags is a free place.
type newest struct {
	tags     []uint8 // a power of two; at most half of them are taken
	versions []version
	count    int
	limit    int       // readings that it is to have at most
	spare    []version // while the table grows
}

// errFull says that a table holds a reading more than it is to have.
var errFull = errors.New("table of versions is full")

var newests = sync.Pool{New: func() any { return new(newest) }}

// firstPlaces is how small the table of a scan starts.
const firstPlaces = 256

func newNewest(limit int) *newest {
	n := newests.Get().(*newest)
	n.count, n.limit = 0, limit
	n.resize(firstPlaces)
	return n
}

// resize makes the table empty, with so many places.
func (n *newest) resize(places int) {
	n.tags = slices.Grow(n.tags[:0], places)[:places]
	clear(n.tags)
	n.versions = slices.Grow(n.versions[:0], places)[:places]
}

func hashOf(cid, moid int32, mid, capNs int64) uint64 {
	pair := uint64(uint32(cid))<<32 | uint64(uint32(moid))
	h := (uint64(mid) ^ bits.RotateLeft64(pair*0xc2b2ae3d27d4eb4f, 31)) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32 ^ uint64(capNs)) * 0xff51afd7ed558ccd
	return h ^ h>>32
}

func tagOf(hash uint64) uint8 { return uint8(hash>>56) | 1 }

// place returns where a reading is or would be, and its tag.
func (n *newest) place(r *reading) (at int, tag uint8) {
	h, mask := hashOf(r.cid, r.moid, r.mid, r.cap), len(n.tags)-1
	tag = tagOf(h)
	for at = int(h) & mask; ; at = (at + 1) & mask {
		if t := n.tags[at]; t == 0 || t == tag && n.versions[at].reading == *r {
			return at, tag
		}
	}
}

// add notes row i.
func (n *newest) add(b *record.Batch, i int) error {
	r := reading{b.CID[i], b.MOID[i], b.MID[i], b.CapNs[i]}
	at, tag := n.place(&r)
	if n.tags[at] != 0 {
		n.versions[at].acqNs = max(n.versions[at].acqNs, b.AcqNs[i])
		return nil
	}
	n.tags[at], n.versions[at] = tag, version{r, b.AcqNs[i]}
	if n.count++; 2*n.count > len(n.tags) {
		n.grow()
	}
	if n.count > n.limit {
		return errFull
	}
	return nil
}

func (n *newest) grow() {
	n.spare = n.spare[:0]
	for i, tag := range n.tags {
		if tag != 0 {
			n.spare = append(n.spare, n.versions[i])
		}
	}
	n.resize(2 * len(n.tags))
	for i := range n.spare {
		at, tag := n.place(&n.spare[i].reading)
		n.tags[at], n.versions[at] = tag, n.spare[i]
	}
}

// suspect returns the first row of a batch, from a number on, for which hides is worth asking, or
// how many rows there are.
func (n *newest) suspect(b *record.Batch, from int) int {
	rows := b.Len()
	if n == nil || n.count == 0 {
		return rows
	}
	cids, moids, mids, caps := b.CID[:rows], b.MOID[:rows], b.MID[:rows], b.CapNs[:rows]
	tags, mask := n.tags, uint64(len(n.tags)-1)
	for i := from; i < rows; i++ {
		h := hashOf(cids[i], moids[i], mids[i], caps[i])
		for at := h & mask; tags[at] != 0; at = (at + 1) & mask {
			if tags[at] == tagOf(h) {
				return i
			}
		}
	}
	return rows
}

// hides reports whether a newer version of a row is known.
func (n *newest) hides(k record.Key) bool {
	if n == nil || n.count == 0 {
		return false
	}
	at, _ := n.place(&reading{k.CID, k.MOID, k.MID, k.CapNs})
	return n.tags[at] != 0 && n.versions[at].acqNs > k.AcqNs
}

// middle returns a value of a dimension that has some of the readings below it and others not, if
// they differ in it.
func (n *newest) middle(d record.Dim) (int64, bool) {
	values := make([]int64, 0, n.count)
	for i, tag := range n.tags {
		if tag != 0 {
			r := &n.versions[i].reading
			key := record.Key{CID: r.cid, MID: r.mid, MOID: r.moid, CapNs: r.cap}
			values = append(values, key.Part(d))
		}
	}
	return middleOf(values)
}

// findNewest collects the flagged rows that lie in the box of a piece.
//
// Errors: errFull when they are more readings than there is room for.
func (sc *scan) findNewest(p *piece, room int) error {
	if p.flagged == 0 {
		return nil
	}
	p.newest = newNewest(room)
	err := sc.findBelow(p)
	p.eachMainHead(func(h *index.Head) {
		if err != nil || h.Flagged() == 0 {
			return
		}
		err = h.ScanVersions(&p.box, sc.horizon, func(b *record.Batch) error {
			for i := range b.Len() {
				if sc.hiderOf(b.Key(i)) != nil {
					continue
				}
				if err := p.newest.add(b, i); err != nil {
					return err
				}
			}
			return sc.ctx.Err()
		})
	})
	w := &sc.finder
	w.box = &p.box
	for _, seg := range p.segments {
		if seg.meta.isAside() {
			continue
		}
		w.flagged = w.flagged[:0]
		for _, c := range seg.plan.Candidates {
			if seg.idx.Block(c.Block).Flagged > 0 {
				w.flagged = append(w.flagged, c)
			}
		}
		if err == nil {
			err = w.findFlagged(p, seg, w.flagged)
		}
	}
	return err
}

// shows reports whether a row, the newest version of its reading, is one that the query asked for.
func (sc *scan) shows(k record.Key) bool { return sc.winners.Contains(k.AcqNs) }

// resolve removes from the batch the rows at or after start that a newer version hides, or that
// the query did not ask for, such as tombstones.
func (w *worker) resolve(p *piece, b *record.Batch, start int) {
	if w.scan.view == record.ViewAll {
		if w.scan.noTombs && len(b.Tombs) > 0 {
			keepRows(b, start, func(i int) bool { return !b.Tomb(i) })
		}
		return
	}
	keep, suspect := start, p.newest.suspect(b, start)
	plain := len(b.Tombs) == 0 && len(w.scan.winners) == 0
	if plain {
		keep = suspect
	}
	for i := keep; i < b.Len(); i++ {
		if i == suspect {
			suspect = p.newest.suspect(b, i+1)
			if p.newest.hides(b.Key(i)) {
				w.hidden++
				continue
			}
		}
		if !plain && (b.Tomb(i) || !w.scan.shows(b.Key(i))) {
			continue
		}
		if keep != i {
			b.Move(keep, i)
		}
		keep++
	}
	b.Truncate(keep)
}

// keepRows removes the rows at or after start that are not to stay.
func keepRows(b *record.Batch, start int, stays func(i int) bool) {
	keep := start
	for i := start; i < b.Len(); i++ {
		if !stays(i) {
			continue
		}
		if keep != i {
			b.Move(keep, i)
		}
		keep++
	}
	b.Truncate(keep)
}
