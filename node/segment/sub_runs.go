package segment

import (
	"encoding/binary"
	"math/bits"

	"github.com/pentad-db/pentad/sdk/record"
)

// Rows of one tenant and quantity that are in a few sub-runs, each sorted by device, are mostly of
// the same devices in each. Such a block keeps its devices once, and bits: for each sub-run and
// device a one, and then a zero for each row. So the zero of a row is behind as many zeros as there
// are rows before it, and behind as many ones as there are sub-runs and devices up to its own. Caps
// and ranks have a base for each sub-run, and one width: where a row's bits are does not depend on
// the sub-run.

const (
	maxSubRuns = 8
	// deviceHeaderBytes come before the header of the column of devices: devices u16, sub-runs
	// u8.
	deviceHeaderBytes = 2 + 1
	// leastBytes is what the headers have of a sub-run: its least cap u32, its least rank u32.
	leastBytes = 4 + 4
	// groupDevices is how many devices of a sub-run there are for each of its starts.
	groupDevices = 64
)

// subRunTable is the sub-runs of an open block. What it has copied is checked each time a block is
// opened; bytes of the block may be damaged since they were verified.
type subRunTable struct {
	count   int                    // of sub-runs; 0: the block has no such table
	starts  [maxSubRuns + 1]uint16 // and where the last one ends
	share   uint32                 // sub-runs a row, in 1 << shareBits
	leasts  []byte                 // of sub-runs
	devices int
	groups  int    // of devices
	mids    column // of the devices, which ascend
	// groupStarts has the position u16 of the first row of each group, in each of the sub-runs.
	groupStarts []byte
	bits        []byte // and what follows them
	// Of cap and rank: the base of a sub-run is that of the column + unit * its least value.
	bases, units [2]uint64
	found        []foundDevices // where searches have found them
	// Devices [from, to) are unpacked: device d is unpacked[d+1].
	from, to int
	unpacked []int64
	numbers  []uint32 // of the devices of rows
}

// foundDevices is the rows [first, end) of a sub-run, those of its devices [low, last).
type foundDevices struct{ first, end, low, last uint16 }

// maxFound bounds what is noted of searches.
const maxFound = 2048

// reset forgets the block.
func (t *subRunTable) reset() {
	t.count, t.from, t.to, t.found = 0, 0, 0, t.found[:0]
}

// close keeps memory only.
func (t *subRunTable) close() {
	t.reset()
	t.leasts, t.mids, t.groupStarts, t.bits = nil, column{}, nil, nil
}

// devices reads what a block with sub-runs has in the place of the column of mids.
func (p *frontParser) devices() {
	t, h := &p.block.subRuns, p.headers
	c := &p.block.keys[record.MID]
	c.kind, c.table, c.width = columnFOR, nil, 0
	if p.bad || len(h) < deviceHeaderBytes {
		p.bad = true
		return
	}
	t.devices, t.count = int(binary.LittleEndian.Uint16(h)), int(h[2])
	p.headers = h[deviceHeaderBytes:]
	if t.count > maxSubRuns || t.count == 0 || t.devices == 0 || t.devices > p.rows {
		t.count, p.bad = 0, true
		return
	}
	rows := p.rows
	p.rows = t.devices
	p.column(&t.mids)
	p.rows = rows
	t.groups = (t.devices + groupDevices - 1) / groupDevices
	t.groupStarts = p.take(2 * uint64(t.groups*t.count))
	at := p.at
	p.take(uint64(t.bitsOf(rows)+7) / 8)
	if t.bits = p.data[at:]; !p.bad {
		p.starts()
	}
}

// bitsOf returns how many bits there are.
func (t *subRunTable) bitsOf(rows int) int { return rows + t.count*t.devices }

// starts reads where sub-runs start.
func (p *frontParser) starts() {
	t := &p.block.subRuns
	before, bad := -1, false
	for s := range t.count {
		start := int(binary.LittleEndian.Uint16(t.groupStarts[2*s:]))
		bad = bad || start <= before
		t.starts[s], before = uint16(start), start
	}
	t.starts[t.count] = uint16(p.rows)
	p.bad = bad || t.starts[0] != 0 || before >= p.rows
	t.share = uint32(t.count<<shareBits) / uint32(p.rows)
}

// leasts reads the bases of caps and ranks of sub-runs.
func (p *frontParser) leasts() {
	t := &p.block.subRuns
	size := leastBytes * t.count
	if p.bad || len(p.headers) < size {
		p.bad = true
		return
	}
	t.leasts, p.headers = p.headers[:size], p.headers[size:]
	for k := range t.bases {
		c := &p.block.keys[int(record.Cap)+k]
		t.bases[k], t.units[k] = c.base, c.gcd
		if c.kind == columnClock {
			t.units[k] = c.period
		}
	}
}

// checkSubRuns looks at what parse does not.
func (b *Block) checkSubRuns() (reason string) {
	t := &b.subRuns
	for i := 1; i < t.devices && t.count > 0; i++ {
		if int64(t.mids.value(i)) <= int64(t.mids.value(i-1)) {
			return "its devices do not ascend"
		}
	}
	word, ones := 0, 0 // before the word
	for s := range t.count {
		for g := range t.groups {
			at, before := t.groupBit(s, g), s*t.devices+g*groupDevices
			for ; word < at>>6; word++ {
				ones += bits.OnesCount64(t.word(word))
			}
			of := t.word(word)
			if word != at>>6 || of>>(at&63)&1 == 0 ||
				ones+bits.OnesCount64(of&(1<<(at&63)-1)) != before {
				return "a group of its devices does not start where it should"
			}
		}
	}
	if t.count > 0 {
		all, devices := t.bitsOf(b.rows), t.count*t.devices
		if last := t.skip(0, all, devices-1, 0); last == all || t.skip(last, all, 1, 0) != all {
			return "its bits are not of as many devices as it has"
		}
	}
	return ""
}

// groupStart returns where the rows of a group of devices start in a sub-run.
func (t *subRunTable) groupStart(s, group int) int {
	return int(binary.LittleEndian.Uint16(t.groupStarts[2*(group*t.count+s):]))
}

// groupBit returns where its bits start; at most where all bits end, of damaged bytes.
func (t *subRunTable) groupBit(s, group int) int {
	ones := s*t.devices + group*groupDevices
	return min(ones+t.groupStart(s, group), t.bitsOf(t.end(t.count-1)))
}

func (t *subRunTable) start(s int) int { return int(t.starts[s]) }

func (t *subRunTable) end(s int) int { return int(t.starts[s+1]) }

// shareBits is enough for all rows of a block to be given the sub-run that they are in, if all
// have as many rows.
const shareBits = 16

// of returns the sub-run that a row is in.
func (t *subRunTable) of(row int) int {
	s := row * int(t.share) >> shareBits
	if r := uint16(row); t.starts[s] <= r && r < t.starts[s+1] {
		return s
	}
	return t.search(row)
}

func (t *subRunTable) search(row int) int {
	s := 0
	for s < t.count-1 && t.end(s) <= row {
		s++
	}
	return s
}

// enter gives the caps or ranks the base of a sub-run, and returns them.
func (b *Block) enter(d record.Dim, s int) *column {
	c, t, k := &b.keys[d], &b.subRuns, int(d-record.Cap)
	least := binary.LittleEndian.Uint32(t.leasts[4*(t.count*k+s):])
	c.base = t.bases[k] + t.units[k]*uint64(least)
	return c
}

// enterOf is enter for the sub-run of a row, and returns its end, too.
func (b *Block) enterOf(d record.Dim, row int) (c *column, end int) {
	s := b.subRuns.of(row)
	return b.enter(d, s), b.subRuns.end(s)
}
