package index

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"

	"github.com/pentad-db/pentad/sdk/record"
)

// A row has a newer version for ever once one has come, so a head keeps which of its rows have one,
// by cell, and finds only those of versions that came since. What is kept is exact for each moment:
// the acq of the version that came next is kept with the row.

// supersededRow is a row that the latest view does not show.
type supersededRow struct {
	fromNs int64 // acq of the next version, of a tombstone its own: from here on it is not shown
	at     rowID
}

// supersededRowMemory is what such a row takes.
const supersededRowMemory = 16

// cellSuperseded are the rows of a cell that the latest view does not show, as far as newer
// versions were looked for.
type cellSuperseded struct {
	rows    []supersededRow // in no order
	below   rowID           // versions in the same head that came before were looked for
	newerNs int64           // so were those in newer heads, with smaller acqs
}

// version is a row of a cell, or one of a newer head that supersedes it.
type version struct {
	entry
	acqNs int64
	row   int32 // its number in the cell; -1 in a newer head
	tomb  bool
}

func (v *version) compare(o *version) int {
	return cmp.Or(cmp.Compare(v.cap, o.cap), cmp.Compare(v.device, o.device),
		cmp.Compare(v.acqNs, o.acqNs))
}

// FindSuperseded finds which rows of the cells of a normalized box have a newer version in the head
// or in newer ones, oldest first, that came since this was called last. All heads are pinned, and
// rows are inserted into the last one only.
//
// Cost: a look at each flagged row that came, or where that is less at each cell; in cells that got
// some, a comparison of each row of the chunks that can hold older ones; 16 bytes are kept for each
// superseded row.
func (h *Head) FindSuperseded(box *record.Box, newer []*Head) {
	some := h.Flagged() > 0
	for _, n := range newer {
		some = n.Flagged() > 0 || some
	}
	if !some {
		return
	}
	s := headScans.Get().(*headScan)
	defer s.giveBack()
	s.head, s.box = h, box
	cells, now, all := s.cellsWithNewer(newer)
	if len(cells) > 0 {
		h.finding.Lock()
		defer h.finding.Unlock()
	}
	f := supersededFinder{most: maxReadings - 1}
	for _, id := range cells {
		for f.find(s, id, newer) {
		}
	}
	if all {
		h.raiseSearched(now)
	}
}

// searchedRows says at which flagged rows FindSuperseded has looked, whatever their cells.
type searchedRows struct {
	rows    int   // the first of the head
	newerNs int64 // rows of newer heads with smaller acqs
}

func (h *Head) raiseSearched(to searchedRows) {
	h.rlock()
	known := h.searched
	h.mu.RUnlock()
	if known.rows >= to.rows && known.newerNs >= to.newerNs {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.searched.rows = max(h.searched.rows, to.rows)
	h.searched.newerNs = max(h.searched.newerNs, to.newerNs)
}

// cellsWithNewer returns the cells of the box in which FindSuperseded has not looked at all flagged
// rows. Where these are all such cells, what has been searched is now as far as it says.
func (s *headScan) cellsWithNewer(newer []*Head) (cells []uint32, now searchedRows, all bool) {
	newer = slices.DeleteFunc(slices.Clone(newer), func(n *Head) bool { return n.Flagged() == 0 })
	if ids, ok := s.lookUpCells(); ok {
		return s.notSearched(ids, len(newer) > 0), now, false
	}
	h := s.head
	h.rlock()
	known, count := h.searched, len(h.list)
	now = searchedRows{rows: h.rowsInCells, newerNs: known.newerNs}
	keys := h.flaggedKeys(nil, known.rows, count)
	h.mu.RUnlock()
	for _, n := range newer {
		n.rlock()
		if n.rowsInCells > 0 {
			keys = n.flaggedKeys(keys, n.rows.below(known.newerNs), count)
			p, at := n.rows.row(n.rows.nth(n.rowsInCells - 1))
			now.newerNs = max(now.newerNs, p.rows.AcqNs[at]+1)
		}
		n.mu.RUnlock()
	}
	if len(keys) > count { // it is less to look at each cell
		ids := s.matchingCells()
		return s.notSearched(ids, len(newer) > 0), now, len(ids) >= count
	}
	cells, all = s.cellsOf(keys)
	return cells, now, all
}

// flaggedKeys appends the cells of the flagged rows that are in cells, from the n-th row that came
// on, until there are more than a number.
func (h *Head) flaggedKeys(keys []cellKey, n, most int) []cellKey {
	for n < h.rowsInCells && len(keys) <= most {
		p, from := h.rows.row(h.rows.nth(n))
		to := min(p.rows.Len(), h.rowsInCells-p.first)
		n = p.first + to
		for i := from; i < to; i++ {
			word := p.flagged[i>>6] >> (i & 63)
			if word == 0 {
				i |= 63
				continue
			}
			if i += bits.TrailingZeros64(word); i >= to {
				break
			}
			key := cellKey{p.rows.CID[i], p.rows.MOID[i], p.rows.MID[i] >> cellShift}
			if len(keys) > 0 && keys[len(keys)-1] == key {
				continue
			}
			if keys = append(keys, key); len(keys) > most {
				break
			}
		}
	}
	return keys
}

// cellsOf returns the cells with some keys that the box meets, and whether it meets all of them.
func (s *headScan) cellsOf(keys []cellKey) (cells []uint32, all bool) {
	s.head.rlock()
	defer s.head.mu.RUnlock()
	all = true
	for _, key := range keys {
		id, ok := s.head.find(key)
		switch {
		case !ok: // of a newer head
		case s.meets(s.head.list[id]):
			cells = append(cells, id)
		default:
			all = false
		}
	}
	slices.Sort(cells)
	return slices.Compact(cells), all
}

// notSearched returns those of some cells in which FindSuperseded has not looked at all flagged
// rows, all of them if there are newer heads.
func (s *headScan) notSearched(ids []uint32, newer bool) (cells []uint32) {
	if newer {
		return ids
	}
	for from := 0; from < len(ids); from += scanLook / chunkRows {
		s.head.rlock()
		for _, id := range ids[from:min(len(ids), from+scanLook/chunkRows)] {
			c := s.head.list[id]
			below, _ := c.searched()
			if c.flagged > 0 && c.flaggedFrom(below) < len(c.flaggedChunks) {
				cells = append(cells, id)
			}
		}
		s.head.mu.RUnlock()
	}
	return cells
}

// searched returns what versions were looked for.
func (c *cell) searched() (below rowID, newerNs int64) {
	if c.superseded == nil {
		return 0, record.Acq.Min()
	}
	return c.superseded.below, c.superseded.newerNs
}

// flaggedFrom returns the first of the flagged chunks that has rows from a row ID on.
func (c *cell) flaggedFrom(at rowID) int {
	return sort.Search(len(c.flaggedChunks), func(i int) bool {
		return c.chunks[c.flaggedChunks[i]].last >= at
	})
}

// supersededFinder finds superseded rows of one cell after the other.
type supersededFinder struct {
	most  int       // flagged rows that are looked at together
	came  []version // flagged rows that were not looked at
	found []version // they, and rows of the same readings without a newer version so far
}

// find finds the superseded rows of a cell, and reports whether it left some flagged rows for
// another call.
func (f *supersededFinder) find(s *headScan, id uint32, newer []*Head) (more bool) {
	f.came, f.found = f.came[:0], f.found[:0]
	s.head.rlock()
	c := s.head.list[id]
	key := c.key
	below, newerNs := c.searched()
	below, more = f.addFlagged(s.head, c, below)
	s.head.mu.RUnlock()
	for i := 0; i < len(newer) && !more; i++ {
		newerNs, more = f.addNewer(newer[i], key, newerNs)
	}
	if len(f.came) == 0 {
		return false
	}
	f.addOlder(s, id, below)
	f.keep(s.head, c, below, newerNs)
	return more
}

// addFlagged adds the flagged rows of a cell from a row ID on, and returns that of the first one
// that it left.
func (f *supersededFinder) addFlagged(h *Head, c *cell, from rowID) (below rowID, more bool) {
	for _, i := range c.flaggedChunks[c.flaggedFrom(from):] {
		k := &c.chunks[i]
		if !k.flagged() {
			continue
		}
		for n := range k.rows {
			r := &k.rows[n]
			if r.at < from {
				continue
			}
			if len(f.came) == f.most {
				return r.at, true
			}
			f.came = append(f.came, version{entry: *r})
		}
	}
	return h.endOfCells(), false
}

// addNewer adds the flagged rows of the same cell of a newer head with some acq or a greater one,
// and returns the acq of the first one that it left.
func (f *supersededFinder) addNewer(n *Head, key cellKey, fromNs int64) (belowNs int64, more bool) {
	n.rlock()
	defer n.mu.RUnlock()
	belowNs = fromNs
	id, ok := n.find(key)
	if !ok {
		return belowNs, false
	}
	c := n.list[id]
	for _, i := range c.flaggedChunks[c.flaggedFrom(n.rows.bound(fromNs)):] {
		k := &c.chunks[i]
		if !k.flagged() {
			continue
		}
		for r := range k.rows {
			p, at := n.rows.row(k.rows[r].at)
			acqNs := p.rows.AcqNs[at]
			if acqNs < fromNs {
				continue
			}
			if len(f.came) >= f.most && acqNs >= belowNs {
				return acqNs, true
			}
			v := version{entry: k.rows[r], acqNs: acqNs, row: -1}
			f.came, f.found = append(f.came, v), append(f.found, v)
			belowNs = acqNs + 1
		}
	}
	return belowNs, false
}

// addOlder finds the rows below a row ID that have the readings of those that came, and no newer
// version so far.
func (f *supersededFinder) addOlder(s *headScan, id uint32, below rowID) {
	s.readings.begin(len(f.came)+1, s.head.cells.rangeFactor, s.head.cells.pairFactor)
	s.caps = s.caps[:0]
	for i := range f.came {
		s.readings.add(&f.came[i].entry)
		s.caps = append(s.caps, f.came[i].cap)
	}
	slices.Sort(s.caps)
	for i, done := 0, false; !done; {
		s.head.rlock()
		c := s.head.list[id]
		for looked := 0; looked < scanLook; i++ {
			if done = i == len(c.chunks); done {
				break
			}
			looked++
			if k := &c.chunks[i]; k.first < below && s.hasCapIn(k.capLo, k.capHi) {
				looked += len(k.rows)
				f.addOlderOf(s, k, i, below)
			}
		}
		s.head.mu.RUnlock()
	}
}

func (f *supersededFinder) addOlderOf(s *headScan, k *chunk, number int, below rowID) {
	least, greatest := s.caps[0], s.caps[len(s.caps)-1] // mostly one row came, so they are the same
	for n := range k.rows {
		r := &k.rows[n]
		if r.cap < least || r.cap > greatest || r.superseded || r.at >= below ||
			!s.readings.has(r) {
			continue
		}
		p, at := s.head.rows.row(r.at)
		f.found = append(f.found, version{entry: *r, acqNs: p.rows.AcqNs[at],
			row: int32(number*chunkRows + n), tomb: p.rows.Tomb(at)})
	}
}

// keep keeps what was found: a row is superseded by the next version of its reading.
func (f *supersededFinder) keep(h *Head, c *cell, below rowID, newerNs int64) {
	slices.SortFunc(f.found, func(a, b version) int { return a.compare(&b) })
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.superseded == nil {
		c.superseded = &cellSuperseded{}
	}
	to := c.superseded
	to.below, to.newerNs = below, newerNs
	before := cap(to.rows)
	for i := range f.found {
		v := &f.found[i]
		fromNs, ok := v.acqNs, v.tomb
		for k := i + 1; k < len(f.found) && !ok; k++ {
			next := &f.found[k]
			if next.cap != v.cap || next.device != v.device {
				break
			}
			fromNs, ok = next.acqNs, next.acqNs > v.acqNs
		}
		if ok && v.row >= 0 {
			c.row(uint32(v.row)).superseded = true
			to.rows = append(to.rows, supersededRow{fromNs: fromNs, at: v.at})
		}
	}
	h.bytes.Add(int64(cap(to.rows)-before) * supersededRowMemory)
}

// countSuperseded returns how many rows of a cell the latest view leaves out.
func (s *headScan) countSuperseded(c *cell) (rows int) {
	if c.superseded == nil {
		return 0
	}
	caps, mids, lowest := s.box[record.Cap], s.box[record.MID], c.key.deviceRange<<cellShift
	all := mids.Covers(lowest, lowest+deviceMask)
	for kind := range c.caps {
		all = all && (c.open[kind] == 0 || caps.Covers(c.caps[kind].Min, c.caps[kind].Max))
	}
	for i := range c.superseded.rows {
		r := &c.superseded.rows[i]
		if r.fromNs >= s.below {
			continue
		}
		if !all {
			p, at := s.head.rows.row(r.at)
			if !caps.Contains(p.rows.CapNs[at]) || !mids.Contains(p.rows.MID[at]) {
				continue
			}
		}
		rows++
	}
	return rows
}

// hideByArrival notes which rows of some cells the latest view leaves out, for a scan in order of
// arrival.
func (s *headScan) hideByArrival(ids []uint32) {
	s.head.rlock()
	defer s.head.mu.RUnlock()
	s.bound = s.head.rows.bound(s.below)
	for _, id := range ids {
		c := s.head.list[id]
		if c.superseded == nil {
			continue
		}
		if len(s.hidden) == 0 {
			words := int(s.bound+63) / 64
			s.hidden = slices.Grow(s.hidden, words)[:words]
			clear(s.hidden)
		}
		for i := range c.superseded.rows {
			if r := &c.superseded.rows[i]; r.fromNs < s.below { // so the row itself is below bound
				setBit(s.hidden, int(r.at))
			}
		}
	}
}

// hides reports whether hideByArrival has noted a row.
func (s *headScan) hides(at rowID) bool {
	return int(at>>6) < len(s.hidden) && hasBit(s.hidden, int(at))
}

// shownRun returns how many of n rows from one on come before the first that hideByArrival noted.
func (s *headScan) shownRun(at rowID, n int) int {
	for i := 0; i < n; {
		bit := int(at) + i
		if bit>>6 >= len(s.hidden) {
			break
		}
		if word := s.hidden[bit>>6] >> (bit & 63); word != 0 {
			return min(n, i+bits.TrailingZeros64(word))
		}
		i += 64 - bit&63
	}
	return n
}

// beginCell prepares hidesInCell for a cell, of whose superseded rows a number were looked at
// before. It is called whenever the lock was let go: others find superseded rows meanwhile.
func (s *headScan) beginCell(c *cell, known int) (all int) {
	if known == 0 {
		s.supersededLater = s.supersededLater[:0]
	}
	if !s.latest || c.superseded == nil {
		return 0
	}
	before := len(s.supersededLater)
	for i := range c.superseded.rows[known:] {
		if r := &c.superseded.rows[known+i]; r.fromNs >= s.below {
			s.supersededLater = append(s.supersededLater, r.at)
		}
	}
	if len(s.supersededLater) > before {
		slices.Sort(s.supersededLater)
	}
	return len(c.superseded.rows)
}

// hidesInCell reports whether the latest view leaves out a row of the cell that is scanned.
func (s *headScan) hidesInCell(r *entry) bool {
	if !s.latest || !r.superseded {
		return false
	}
	_, shown := slices.BinarySearch(s.supersededLater, r.at)
	return !shown
}

// dropHidden removes from the chosen rows of a chunk those that the latest view leaves out.
func (s *headScan) dropHidden(rows []entry, chosen []uint8) (n int) {
	for _, i := range chosen {
		chosen[n] = i
		if !s.hidesInCell(&rows[i]) {
			n++
		}
	}
	s.leftOut += len(chosen) - n
	return n
}
