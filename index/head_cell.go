package index

import (
	"math"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// cellShift: a cell holds the rows of a tenant, quantity and 256 neighbouring devices. With
	// 1,024 inserting takes a tenth less time, and what one device has twice as much.
	cellShift  = 8
	deviceMask = 1<<cellShift - 1
	// chunkRows is how many rows share a cap zone.
	chunkRows = 64
	// maxCapsRows: with more rows than this a cell has maxCaps, with fewer it is searched.
	maxCapsRows = 32
)

type cellKey struct {
	cid, moid   int32
	deviceRange int64 // mid >> cellShift
}

// entry is a row of a cell: what is asked first, and where the rest lies.
type entry struct {
	cap        int64
	at         rowID
	device     uint16 // mid & deviceMask
	flagged    bool   // may supersede an older row
	superseded bool   // cellSuperseded has it
}

// chunk is rows of a cell in order of arrival. All are flagged, or none: flagged rows
// would stretch the zones of the others over days.
type chunk struct {
	capLo, capHi int64
	maxCapSoFar  int64 // the greatest cap of this chunk and those before it
	first, last  rowID // of the rows: most chunks are passed over, and their rows lie elsewhere
	rows         []entry
}

func (k *chunk) flagged() bool { return k.rows[0].flagged }

type cell struct {
	key           cellKey
	chunks        []chunk
	open          [2]int32 // chunks that take unflagged rows, and flagged ones; counted from 1
	caps          [2]Bound // of the rows of either kind, where open says that there are some
	flaggedChunks []uint32 // numbers of the chunks of flagged rows, cleared since or not
	rows          uint32
	flagged       uint32          // rows
	maxCaps       *maxCaps        // when there are many rows
	superseded    *cellSuperseded // when newer versions came
}

// maxCaps is the table of the greatest cap of each device of a cell: it tells whether a row that
// comes may supersede one of the cell without a look at its rows.
type maxCaps struct {
	of64 [1 << cellShift / 64]*capsOf64
	made *int // counts those of of64
}

// capsOf64 is those of 64 neighbours, of which one has rows.
type capsOf64 struct {
	caps    [64]int64
	present uint64 // a bit for each device that has rows
}

// raise reports whether the device has a row with this cap or a greater one, and notes the cap.
func (n *maxCaps) raise(device uint16, capNs int64) bool {
	b := n.of64[device>>6]
	if b == nil {
		b = new(capsOf64)
		*n.made++
		n.of64[device>>6] = b
	}
	bit := uint64(1) << (device & 63)
	had := b.present&bit != 0 && capNs <= b.caps[device&63]
	if !had {
		b.present |= bit
		b.caps[device&63] = capNs
	}
	return had
}

// raise reports whether the device has a row with this cap or a greater one, and notes the cap in
// maxCaps, if the cell has it.
func (c *cell) raise(device uint16, capNs int64) bool {
	if c.maxCaps != nil {
		return c.maxCaps.raise(device, capNs)
	}
	for i := range c.chunks {
		for k := range c.chunks[i].rows {
			if r := &c.chunks[i].rows[k]; r.device == device && r.cap >= capNs {
				return true
			}
		}
	}
	return false
}

// collectMaxCaps returns the greatest caps of the rows so far, and adds to made what it makes.
func (c *cell) collectMaxCaps(made *int) *maxCaps {
	n := &maxCaps{made: made}
	for i := range c.chunks {
		for k := range c.chunks[i].rows {
			n.raise(c.chunks[i].rows[k].device, c.chunks[i].rows[k].cap)
		}
	}
	return n
}

// append adds a row. Chunks lie in a memory, nil for the heap.
func (c *cell) append(r entry, m *memory) {
	kind := 0
	if r.flagged {
		kind = 1
		c.flagged++
	}
	open, caps := &c.open[kind], &c.caps[kind]
	if *open == 0 {
		*caps = Bound{r.cap, r.cap}
	}
	caps.Min, caps.Max = min(caps.Min, r.cap), max(caps.Max, r.cap)
	if *open == 0 || len(c.chunks[*open-1].rows) == chunkRows ||
		c.chunks[*open-1].flagged() != r.flagged { // ClearFalse was there
		k := chunk{capLo: r.cap, capHi: r.cap, maxCapSoFar: c.maxCapOfFirst(len(c.chunks)),
			first: r.at}
		switch { // once the cell has shown that it fills chunks
		case *open > 0 && m != nil:
			k.rows = take[entry](m, chunkRows)[:0]
		case *open > 0:
			k.rows = make([]entry, 0, chunkRows)
		}
		c.chunks = append(c.chunks, k)
		*open = int32(len(c.chunks))
		if r.flagged {
			c.flaggedChunks = append(c.flaggedChunks, uint32(*open-1))
		}
	}
	k := &c.chunks[*open-1]
	k.capLo, k.capHi, k.last = min(k.capLo, r.cap), max(k.capHi, r.cap), r.at
	k.rows = append(k.rows, r)
	c.rows++
	for i := int(*open - 1); i < len(c.chunks) && c.chunks[i].maxCapSoFar < r.cap; i++ {
		c.chunks[i].maxCapSoFar = r.cap
	}
}

// maxCapOfFirst returns the greatest cap of the first n chunks.
func (c *cell) maxCapOfFirst(n int) int64 {
	if n == 0 {
		return math.MinInt64
	}
	return c.chunks[n-1].maxCapSoFar
}

// overlaps reports which rows may lie in the caps of a box: unflagged ones, and flagged
// ones. Most boxes are older than what is in a head: it saves them a look at each chunk.
func (c *cell) overlaps(caps record.RangeSet) (unflagged, flagged bool) {
	return c.open[0] > 0 && caps.Intersects(c.caps[0].Min, c.caps[0].Max),
		c.open[1] > 0 && caps.Intersects(c.caps[1].Min, c.caps[1].Max)
}

func (c *cell) row(i uint32) *entry { return &c.chunks[i/chunkRows].rows[i%chunkRows] }

// mid returns the device of a row.
func (c *cell) mid(r *entry) int64 { return c.key.deviceRange<<cellShift | int64(r.device) }
