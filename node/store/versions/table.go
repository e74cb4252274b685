package versions

import (
	"cmp"
	"errors"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// Reading is what versions of one reading share.
type Reading struct {
	CID, MOID  int32
	MID, CapNs int64
}

// version is a reading and the greatest acq known of it.
type version struct {
	Reading
	acqNs int64
}

// Table maps readings to the acq of their newest version. It holds the readings of a box that
// have a flagged row: one that may supersede an older version. A row is the newest version of its
// reading unless the table has a greater acq: every row that supersedes another is flagged when it
// enters a head, or looked for because the other one is backdated.
//
// It is a hash table with open addressing. Most lookups miss, which a bitmap decides, and otherwise
// nearly always a byte of the hash: 0 in tags is a free entry.
type Table struct {
	filter   []uint64 // a bit for each hash of a reading
	tags     []uint8  // a power of two; at most half of them are taken
	versions []version
	count    int
	limit    int       // readings that it is to have at most
	spare    []version // while the table grows

	// recent are all versions of the table with an acq from recentFromNs on, ascending by reading,
	// at most maxRecent; none until sortRecent was called.
	recent       []version
	recentFromNs int64
}

// ErrFull says that a table holds more readings than its limit.
var ErrFull = errors.New("table of versions is full")

var newestTables = sync.Pool{New: func() any { return new(Table) }}

const (
	// initialCapacity is how small the table of a scan starts.
	initialCapacity = 256
	// filterBits is how many bits the filter has for each entry: so few are set that a processor
	// predicts the answer.
	filterBits = 16
)

// NewTable returns an empty table, which is to have at most some readings.
func NewTable(limit int) *Table {
	n := newestTables.Get().(*Table)
	n.count, n.limit, n.recentFromNs, n.recent = 0, limit, math.MaxInt64, n.recent[:0]
	n.resize(initialCapacity)
	return n
}

// resize makes the table empty, with a capacity.
func (n *Table) resize(capacity int) {
	n.tags = slices.Grow(n.tags[:0], capacity)[:capacity]
	clear(n.tags)
	words := capacity * filterBits / 64
	n.filter = slices.Grow(n.filter[:0], words)[:words]
	clear(n.filter)
	n.versions = slices.Grow(n.versions[:0], capacity)[:capacity]
}

func hashOf(cid, moid int32, mid, capNs int64) uint64 {
	return hashReading(hashPair(cid, moid), mid, capNs)
}

func hashPair(cid, moid int32) uint64 {
	pair := uint64(uint32(cid))<<32 | uint64(uint32(moid))
	return bits.RotateLeft64(pair*0xc2b2ae3d27d4eb4f, 31)
}

func hashReading(pair uint64, mid, capNs int64) uint64 {
	h := (uint64(mid) ^ pair) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32 ^ uint64(capNs)) * 0xff51afd7ed558ccd
	return h ^ h>>32
}

// inFilter returns the word and the bit of a hash in the filter.
func inFilter(hash uint64, words int) (word uint64, bit uint64) {
	return hash >> 6 & uint64(words-1), hash & 63
}

func tagOf(hash uint64) uint8 { return uint8(hash>>56) | 1 }

// probe returns where a reading is or would be, and its tag.
func (n *Table) probe(r *Reading) (at int, tag uint8) {
	h, mask := hashOf(r.CID, r.MOID, r.MID, r.CapNs), len(n.tags)-1
	tag = tagOf(h)
	for at = int(h) & mask; ; at = (at + 1) & mask {
		if t := n.tags[at]; t == 0 || t == tag && n.versions[at].Reading == *r {
			return at, tag
		}
	}
}

// Add notes row i.
func (n *Table) Add(b *record.Batch, i int) error {
	r := Reading{b.CID[i], b.MOID[i], b.MID[i], b.CapNs[i]}
	at, tag := n.probe(&r)
	if n.tags[at] != 0 {
		n.versions[at].acqNs = max(n.versions[at].acqNs, b.AcqNs[i])
		return nil
	}
	n.set(at, tag, version{r, b.AcqNs[i]})
	if n.count++; 2*n.count > len(n.tags) {
		n.grow()
	}
	if n.count > n.limit {
		return ErrFull
	}
	return nil
}

// set puts a reading in a free entry.
func (n *Table) set(at int, tag uint8, v version) {
	n.tags[at], n.versions[at] = tag, v
	word, bit := inFilter(hashOf(v.CID, v.MOID, v.MID, v.CapNs), len(n.filter))
	n.filter[word] |= 1 << bit
}

func (n *Table) grow() {
	n.spare = n.spare[:0]
	for i, tag := range n.tags {
		if tag != 0 {
			n.spare = append(n.spare, n.versions[i])
		}
	}
	n.resize(2 * len(n.tags))
	for i := range n.spare {
		at, tag := n.probe(&n.spare[i].Reading)
		n.set(at, tag, n.spare[i])
	}
}

// nextCandidate returns the first row of a batch, from a row number on, that may be superseded: its
// tag is in the table. It returns the number of rows if there is none.
func (n *Table) nextCandidate(b *record.Batch, from int) int {
	rows := b.Len()
	if n == nil || n.count == 0 {
		return rows
	}
	cids, moids, mids, caps := b.CID[:rows], b.MOID[:rows], b.MID[:rows], b.CapNs[:rows]
	var cid, moid int32
	pair := hashPair(cid, moid)
	for i := from; i < rows; i++ {
		if cids[i] != cid || moids[i] != moid { // few in a block
			cid, moid = cids[i], moids[i]
			pair = hashPair(cid, moid)
		}
		h := hashReading(pair, mids[i], caps[i])
		word, bit := inFilter(h, len(n.filter))
		if n.filter[word]>>bit&1 != 0 && n.hasTag(h) {
			return i
		}
	}
	return rows
}

// hasTag reports whether a reading with the tag of a hash may be in the table.
func (n *Table) hasTag(hash uint64) bool {
	mask := uint64(len(n.tags) - 1)
	for at := hash & mask; n.tags[at] != 0; at = (at + 1) & mask {
		if n.tags[at] == tagOf(hash) {
			return true
		}
	}
	return false
}

// Supersedes reports whether the table has a newer version of a row.
func (n *Table) Supersedes(k record.Key) bool {
	if n == nil || n.count == 0 {
		return false
	}
	at, _ := n.probe(&Reading{k.CID, k.MOID, k.MID, k.CapNs})
	return n.tags[at] != 0 && n.versions[at].acqNs > k.AcqNs
}

// middle returns a value of a dimension that has some of the readings below it and others not, if
// they differ in it.
func (n *Table) middle(d record.Dim) (int64, bool) {
	values := make([]int64, 0, n.count)
	for i, tag := range n.tags {
		if tag != 0 {
			r := &n.versions[i].Reading
			key := record.Key{CID: r.CID, MID: r.MID, MOID: r.MOID, CapNs: r.CapNs}
			values = append(values, key.Part(d))
		}
	}
	return bounds.Middle(values)
}

// All yields the readings, in no order.
func (n *Table) All(yield func(*Reading) bool) {
	for i, tag := range n.tags {
		if tag != 0 && !yield(&n.versions[i].Reading) {
			return
		}
	}
}

// SetValue puts a value in place of the acq of a reading, which is in the table.
func (n *Table) SetValue(r *Reading, value int64) {
	at, _ := n.probe(r)
	n.versions[at].acqNs = value
}

// Value returns the acq, or what SetValue put in its place, of the reading of row i.
func (n *Table) Value(b *record.Batch, i int) (value int64, ok bool) {
	at, _ := n.probe(&Reading{b.CID[i], b.MOID[i], b.MID[i], b.CapNs[i]})
	return n.versions[at].acqNs, n.tags[at] != 0
}

const (
	// maxZoneTests is the most readings that are compared with the zones of each block one by one.
	maxZoneTests = 64
	// maxRecent is the most that are sorted, so that a search finds those near a block: sorting
	// them takes a tenth of a look at the rows of which one in a hundred has a newer version, and
	// 2.5 MiB are kept.
	maxRecent = 1 << 16
	// fewRecent is how many are compared faster than searched.
	fewRecent = 8
)

// hasNone reports whether no newest version with this acq or a greater one can be of a reading in a
// block.
func (n *Table) hasNone(info *index.BlockInfo, fromNs int64) bool {
	switch {
	case n == nil || n.count == 0:
		return true
	case fromNs >= n.recentFromNs:
		none := true
		n.eachRecent(info, fromNs, func(*version) bool {
			none = false
			return false
		})
		return none
	case n.count > maxZoneTests:
		return false
	}
	for i, tag := range n.tags {
		if tag != 0 && n.versions[i].acqNs >= fromNs && n.versions[i].within(info) {
			return false
		}
	}
	return true
}

// eachRecent calls visit with the newest versions with an acq, not below recentFromNs, or a greater
// one that can be of a reading in a block, until it returns false.
func (n *Table) eachRecent(info *index.BlockInfo, fromNs int64, visit func(v *version) bool) {
	if len(n.recent) <= fewRecent {
		for i := range n.recent {
			if v := &n.recent[i]; v.acqNs >= fromNs && v.within(info) && !visit(v) {
				return
			}
		}
		return
	}
	lowest := LowestIn(info)
	highest := Reading{int32(info.Max[record.CID]), int32(info.Max[record.MOID]),
		info.Max[record.MID], info.Max[record.Cap]}
	for i := n.firstFrom(0, &lowest); i < len(n.recent); {
		v := &n.recent[i]
		if v.Compare(&highest) > 0 {
			return
		}
		if v.acqNs >= fromNs && v.within(info) && !visit(v) {
			return
		}
		if i++; i == len(n.recent) || v.CapNs >= lowest.CapNs && v.CapNs <= highest.CapNs {
			continue
		}
		if next := &n.recent[i]; next.MID != v.MID {
			continue
		}
		rest := v.Reading // its other caps may be many
		switch rest.CapNs = lowest.CapNs; {
		case v.CapNs < lowest.CapNs:
			i = n.firstFrom(i, &rest)
		case v.MID < math.MaxInt64:
			rest.MID++
			i = n.firstFrom(i, &rest)
		}
	}
}

// firstFrom returns the first of the recent ones, from number i on, that is not below a reading.
func (n *Table) firstFrom(i int, r *Reading) int {
	end := len(n.recent)
	for step := 1; i+step < end; step *= 2 { // most often it is near
		if n.recent[i+step].Compare(r) >= 0 {
			end = i + step
			break
		}
		i += step
	}
	for i < end {
		mid := int(uint(i+end) >> 1)
		if n.recent[mid].Compare(r) < 0 {
			i = mid + 1
		} else {
			end = mid
		}
	}
	return i
}

// sortRecent makes recent of all versions, or where these are too many of those from an acq on, if
// they are not too many either. Misses are fast from that acq on.
func (n *Table) sortRecent(fromNs int64) {
	if n.count <= maxRecent {
		fromNs = math.MinInt64
	}
	n.recent = n.recent[:0]
	for i, tag := range n.tags {
		if tag == 0 || n.versions[i].acqNs < fromNs {
			continue
		}
		if len(n.recent) == maxRecent {
			return
		}
		n.recent = append(n.recent, n.versions[i])
	}
	slices.SortFunc(n.recent, func(a, b version) int { return a.Compare(&b.Reading) })
	n.recentFromNs = fromNs
}

func (r *Reading) within(info *index.BlockInfo) bool {
	in := func(d record.Dim, v int64) bool { return info.Min[d] <= v && v <= info.Max[d] }
	return in(record.MID, r.MID) && in(record.Cap, r.CapNs) && in(record.CID, int64(r.CID)) &&
		in(record.MOID, int64(r.MOID))
}

// Compare orders readings by tenant, quantity, device and cap.
func (r *Reading) Compare(o *Reading) int {
	switch { // one after the other: they are compared often
	case r.MID != o.MID && r.CID == o.CID && r.MOID == o.MOID:
		return cmp.Compare(r.MID, o.MID)
	case r.CID != o.CID:
		return cmp.Compare(r.CID, o.CID)
	case r.MOID != o.MOID:
		return cmp.Compare(r.MOID, o.MOID)
	}
	return cmp.Compare(r.CapNs, o.CapNs)
}

// key returns the key of the version.
func (v *version) key() record.Key {
	return record.Key{CID: v.CID, MID: v.MID, MOID: v.MOID, CapNs: v.CapNs, AcqNs: v.acqNs}
}

// len returns the number of readings.
func (n *Table) len() int {
	if n == nil {
		return 0
	}
	return n.count
}
