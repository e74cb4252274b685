package sealed

import "encoding/binary"

func damaged() error { return fail(StatusPartial, "a saved sum is damaged") }

// run is a stretch of sequence numbers, both ends included.
type run struct{ from, to uint32 }

// chain is which records of a chain are in a sum: runs in the order in which they came. Rows of a
// block mostly go on where the row before them ended.
type chain struct {
	id       chainID
	runs     []run
	unsorted bool
}

func (c *chain) add(from, to uint32) {
	n := len(c.runs)
	if n > 0 && c.runs[n-1].to+1 == from {
		c.runs[n-1].to = to
		return
	}
	if n > 0 && c.runs[n-1].to >= from {
		c.unsorted = true
	}
	c.runs = append(c.runs, run{from, to})
}

// How runs are written: sorted ones by the gaps between them, others by signed steps, a bitmap with
// a bit for each number. Who reads them sorts them: there is no fuel here to sort what comes in the
// worst of orders.
const (
	runsSorted   = 0
	runsBitmap   = 1
	runsUnsorted = 2
)

// append appends the runs of a chain: as a bitmap where these are many and near to each other.
func (c *chain) append(dst []byte) []byte {
	n := len(c.runs)
	span := uint64(c.runs[n-1].to) - uint64(c.runs[0].from) + 1
	if !c.unsorted && n > 16 && span/8 < uint64(n) {
		return c.appendBitmap(dst, span)
	}
	form := byte(runsSorted)
	if c.unsorted {
		form = runsUnsorted
	}
	dst = binary.AppendUvarint(append(dst, form), uint64(n))
	next := int64(0)
	for _, r := range c.runs {
		step := int64(r.from) - next
		if c.unsorted {
			dst = binary.AppendVarint(dst, step)
		} else {
			dst = binary.AppendUvarint(dst, uint64(step))
		}
		dst = binary.AppendUvarint(dst, uint64(r.to-r.from))
		next = int64(r.to) + 1
	}
	return dst
}

func (c *chain) appendBitmap(dst []byte, span uint64) []byte {
	first := c.runs[0].from
	dst = binary.AppendUvarint(append(dst, runsBitmap), uint64(first))
	dst = binary.AppendUvarint(dst, span)
	at := len(dst)
	dst = append(dst, make([]byte, (span+7)/8)...)
	for _, r := range c.runs {
		for k := uint64(r.from - first); k <= uint64(r.to-first); k++ {
			dst[at+int(k/8)] |= 1 << (k % 8)
		}
	}
	return dst
}

// appendChains appends which records a sum is of; neighbouring chains of one series share its name.
func appendChains(dst []byte, chains []chain) []byte {
	series := 0
	for i := range chains {
		if i == 0 || chains[i].id.seriesID != chains[i-1].id.seriesID {
			series++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(series))
	for len(chains) > 0 {
		one, n := chains[0].id.seriesID, 1
		for n < len(chains) && chains[n].id.seriesID == one {
			n++
		}
		dst = binary.LittleEndian.AppendUint32(dst, uint32(one.cid))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(one.mid))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(one.moid))
		dst = binary.AppendUvarint(dst, uint64(n))
		for i := range chains[:n] {
			dst = binary.LittleEndian.AppendUint64(dst, chains[i].id.id)
			dst = binary.LittleEndian.AppendUint32(dst, chains[i].id.key)
			dst = chains[i].append(dst)
		}
		chains = chains[n:]
	}
	return dst
}

// saved reads what a sum was saved as. After an error it reads zeros.
type saved struct {
	rest []byte
	bad  bool
}

func (in *saved) take(n uint64) []byte {
	if n > uint64(len(in.rest)) {
		in.bad = true
	}
	if in.bad {
		return nil
	}
	out := in.rest[:n]
	in.rest = in.rest[n:]
	return out
}

func (in *saved) u32() uint32 {
	if b := in.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (in *saved) u64() uint64 {
	if b := in.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (in *saved) uvarint() uint64 {
	v, n := binary.Uvarint(in.rest)
	if n <= 0 {
		in.bad = true
	}
	if in.bad {
		return 0
	}
	in.rest = in.rest[n:]
	return v
}

// runs adds saved runs to a chain. What is allocated is bounded by the bytes that are there.
func (in *saved) runs(c *chain) {
	form := in.take(1)
	switch {
	case in.bad:
	case form[0] == runsBitmap:
		in.bitmap(c)
	case form[0] == runsSorted || form[0] == runsUnsorted:
		next := uint64(0)
		n := in.uvarint()
		in.bad = in.bad || n == 0
		for ; n > 0 && !in.bad; n-- {
			step := in.uvarint()
			if form[0] == runsUnsorted {
				step = step>>1 ^ -(step & 1)
			}
			from := next + step
			to := from + in.uvarint()
			if in.bad = in.bad || from == 0 || from > to || to > 1<<32-1; !in.bad {
				c.add(uint32(from), uint32(to))
			}
			next = to + 1
		}
	default:
		in.bad = true
	}
}

func (in *saved) bitmap(c *chain) {
	first, n := in.uvarint(), in.uvarint()
	if first == 0 || first > 1<<32-1 || n == 0 || n > 1<<32-first {
		in.bad = true
	}
	if in.bad {
		return
	}
	for i, b := range in.take((n + 7) / 8) {
		for k := range uint64(8) {
			if at := uint64(8*i) + k; b>>k&1 != 0 && at < n {
				c.add(uint32(first+at), uint32(first+at))
			}
		}
	}
	in.bad = in.bad || len(c.runs) == 0
}
