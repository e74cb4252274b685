package wasmhost

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"
	"unsafe"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	maxBatchRows  = 4096      // above, calls get long and nothing faster
	firstRows     = 1024      // of the first batch, before the cost of a row is known
	minBatchRows  = 256       // below, the call itself begins to show
	maxBatchBytes = 256 << 10 // of payload, unless one payload is larger
	fixedBytes    = 32 << 10  // of payloads of one length: 4,096 words; as text 1.5 M of fuel

	// A call that used more than fuelHigh gets fewer rows next time, one below fuelLow more.
	// Fuel and not time decides, so that the same records always make the same batches.
	fuelHigh = 1_000_000 // about 0.3 ms
	fuelLow  = 200_000

	regionAlign = 64
)

// columns writes batches into guest memory in the form of the ABI.
type columns struct {
	need      uint32
	rows      int // of the next batch
	maxRows   int
	fixed     bool  // the cut depends only on the rows of a batch
	perRow    int64 // fuel
	minCostly int64 // rows that get the fuel of expensive ones, at least
	seq       uint32
	region    uint32 // guest address, 0 before the first batch
	size      uint32 // of the region
	buffer    uint32 // guest address of what is lent, 0 for none
	offsets   []uint32
	runs      []GroupRun
	gids      []uint32
	series    []record.SeriesRun
	keys      record.Batch // columns made of series
}

func newColumns(d *Descriptor) *columns {
	rows := maxBatchRows
	if d.MaxBatch > 0 {
		rows = int(min(d.MaxBatch, maxBatchRows))
	}
	perRow, least := int64(fuelPerRecord), int64(0)
	if d.Flags&plugin.FlagGrows != 0 {
		rows, perRow, least = min(rows, maxHeapStateRows), fuelPerGrowth, minHeapStateRows
	}
	// The cost of a call depends on previous calls, e.g. by allocations that happen once.
	fixed := d.Flags&plugin.FlagDependsOnBatches != 0
	return &columns{need: d.Need, rows: min(rows, firstRows), maxRows: rows, fixed: fixed,
		perRow: perRow, minCostly: least}
}

// batch is the rows of one call: the addresses of its columns and its cost.
type batch struct {
	from, to int
	stride   int
	offsets  []uint32 // relative to the first payload; nil with a stride or when not needed
	data     []byte
	there    uint32             // guest address of data, where it need not be copied
	gid      []uint32           // nil when runs are given or none are needed
	runs     []GroupRun         // nil when gid is given or none are needed
	series   []record.SeriesRun // nil when columns are given or none are needed
	groups   int
	bitmap   uint32 // address, of a filter
	budget   int64
}

// cut chooses the rows of the next batch from row on.
func (c *columns) cut(b *record.Batch, row int) batch {
	x := batch{from: row, to: min(row+c.rowsOf(b), b.Len())}
	if c.need&(plugin.NeedData|plugin.NeedOffsets) == 0 {
		return x
	}
	if b.Offsets == nil {
		if b.Stride > 0 {
			x.to = min(x.to, row+max(1, maxBatchBytes/b.Stride))
		}
		x.stride = b.Stride
		x.data = b.Data[x.from*b.Stride : x.to*b.Stride]
	} else {
		first := b.Offsets[row]
		fit := sort.Search(x.to-row, func(i int) bool {
			return b.Offsets[row+i+1]-first > maxBatchBytes
		})
		x.to = row + max(1, fit)
		x.data = b.Data[first:b.Offsets[x.to]]
		x.stride = uniform(b.Offsets[x.from : x.to+1])
	}
	if x.stride == 0 {
		x.offsets = c.relative(b, &x)
	}
	return x
}

// rowsOf returns the number of rows of the next batch. If the cut must depend on the rows only,
// short payloads of one length, e.g. numbers, make larger batches.
func (c *columns) rowsOf(b *record.Batch) int {
	if c.fixed && b.Offsets == nil && b.Stride > 0 {
		return min(c.maxRows, max(c.rows, fixedBytes/b.Stride))
	}
	return c.rows
}

// uniform returns the length that all payloads have, else 0.
func uniform(offsets []uint32) int {
	stride := offsets[1] - offsets[0]
	for i := range len(offsets) - 1 {
		if offsets[i+1]-offsets[i] != stride {
			return 0
		}
	}
	return int(stride)
}

func (c *columns) relative(b *record.Batch, x *batch) []uint32 {
	n := x.to - x.from + 1
	c.offsets = slices.Grow(c.offsets[:0], n)[:n]
	if b.Offsets == nil {
		clear(c.offsets)
	} else {
		first := b.Offsets[x.from]
		for i, o := range b.Offsets[x.from : x.to+1] {
			c.offsets[i] = o - first
		}
	}
	return c.offsets
}

// layout assigns offsets to columns, one after another.
type layout struct {
	size uint64
}

func (l *layout) add(bytes int) uint32 {
	at := l.size
	l.size = (l.size + uint64(bytes) + regionAlign - 1) &^ (regionAlign - 1)
	return uint32(min(at, math.MaxUint32))
}

// bytesOf returns a column as the guest reads it. Compiled code runs on little-endian machines
// only.
func bytesOf[T int32 | uint32 | int64 | GroupRun | record.SeriesRun](column []T) []byte {
	if len(column) == 0 {
		return nil
	}
	size := len(column) * int(unsafe.Sizeof(column[0]))
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(column))), size)
}

// placed is a column of a batch with its offset.
type placed struct {
	bit   uint32
	field int // offset of its pointer in the header
	at    uint32
	bytes []byte
}

// assign selects the columns of a batch and assigns their offsets.
func (c *columns) assign(b *record.Batch, x *batch, list []placed, l *layout) []placed {
	add := func(bit uint32, wanted bool, field int, bytes []byte) {
		if wanted {
			list = append(list, placed{bit: bit, field: field, at: l.add(len(bytes)), bytes: bytes})
		}
	}
	from, to := x.from, x.to
	need, keys := c.need, b
	switch {
	case x.series != nil:
		need &^= seriesColumns
	case len(b.Series) > 0 && need&seriesColumns != 0:
		keys, from, to = c.fillKeys(b, from, to), 0, to-from
	}
	add(plugin.NeedCID, need&plugin.NeedCID != 0, 16, bytesOf(keys.CID[from:to]))
	add(plugin.NeedMOID, need&plugin.NeedMOID != 0, 20, bytesOf(keys.MOID[from:to]))
	add(plugin.NeedMID, need&plugin.NeedMID != 0, 24, bytesOf(keys.MID[from:to]))
	from, to = x.from, x.to
	add(plugin.NeedCap, c.need&plugin.NeedCap != 0, 28, bytesOf(b.CapNs[from:to]))
	if c.need&plugin.NeedAcq != 0 {
		add(plugin.NeedAcq, true, 32, bytesOf(b.AcqNs[from:to]))
	}
	add(plugin.NeedGID, x.gid != nil, 36, bytesOf(x.gid))
	add(plugin.NeedOffsets, x.offsets != nil, 40, bytesOf(x.offsets))
	add(plugin.NeedData, c.need&plugin.NeedData != 0 && x.there == 0, 44, x.data)
	add(plugin.NeedRuns, x.runs != nil, 64, bytesOf(x.runs))
	add(plugin.NeedSeries, x.series != nil, 76, bytesOf(x.series))
	return list
}

// write copies the batch into guest memory and returns the address of its header.
func (c *columns) write(
	g *guest, b *record.Batch, x *batch, bitmapBytes int,
) (uint32, error) {
	if c.need&plugin.NeedAcq != 0 && b.AcqNs == nil {
		return 0, g.fail(Limit, "", "the plugin needs acquisition times, and the batch has none")
	}
	x.there = c.lentAt(g, x.data)
	x.series = c.seriesOf(b, x.from, x.to)
	var l layout
	var list [10]placed
	l.add(plugin.BatchHeaderSize)
	columns := c.assign(b, x, list[:0], &l)
	bitmap := l.add(bitmapBytes)
	if err := c.reserve(g, l.size); err != nil {
		return 0, err
	}
	dst, err := g.view(exportAlloc, c.region, uint32(l.size))
	if err != nil {
		return 0, err
	}
	header := dst[:plugin.BatchHeaderSize]
	clear(header)
	put := func(field int, v uint32) { binary.LittleEndian.PutUint32(header[field:], v) }
	present := uint32(0)
	for i := range columns {
		p := &columns[i]
		copy(dst[p.at:], p.bytes)
		put(p.field, c.region+p.at)
		present |= p.bit
	}
	if x.there != 0 {
		put(44, x.there)
		present |= plugin.NeedData
	}
	put(0, plugin.BatchMagic)
	put(4, uint32(x.to-x.from))
	put(12, present)
	if present&plugin.NeedData != 0 {
		put(48, uint32(len(x.data)))
	}
	put(52, uint32(x.stride))
	put(56, uint32(x.groups))
	put(60, uint32(len(x.runs)))
	put(68, c.seq)
	put(72, uint32(len(x.series)))
	c.seq++
	clear(dst[bitmap : bitmap+uint32(bitmapBytes)])
	x.bitmap = c.region + bitmap
	n := int64(x.to - x.from)
	costly := min(max(n, c.minCostly), costlyRows)
	x.budget = g.scaled(fuelBase + c.perRow*n + fuelCostlyRow*costly +
		fuelPerByte*int64(len(x.data)))
	g.unreported.records += n
	return c.region, nil
}

// bufferBytes is how much memory an instance lends: payloads of 8 bytes of four blocks.
const bufferBytes = 256 << 10

// lend returns guest memory for payloads, nil if there is none.
func (c *columns) lend(ctx context.Context, g *guest) []byte {
	if c.need&plugin.NeedData == 0 || g.closed ||
		uint64(g.entry.lim.memoryPages)<<16/16 < bufferBytes {
		return nil
	}
	if c.buffer == 0 {
		if g.enter(ctx) != nil {
			return nil // adding rows returns the same error
		}
		at, err := g.alloc(bufferBytes)
		if g.broken = g.leave(err); err != nil {
			return nil
		}
		c.buffer = at
	}
	buffer, _ := g.memory.Read(c.buffer, bufferBytes)
	return buffer
}

// lentAt returns the guest address of data in lent memory, 0 if it is elsewhere or not aligned.
func (c *columns) lentAt(g *guest, data []byte) uint32 {
	if c.buffer == 0 || len(data) == 0 {
		return 0
	}
	buffer, ok := g.memory.Read(c.buffer, bufferBytes)
	if !ok {
		return 0
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(data))) -
		uintptr(unsafe.Pointer(unsafe.SliceData(buffer)))
	if at >= bufferBytes || at%regionAlign != 0 || bufferBytes-at < uintptr(len(data)) {
		return 0
	}
	return c.buffer + uint32(at)
}

// reserve makes the region large enough. It at least doubles, since guests never free.
func (c *columns) reserve(g *guest, size uint64) error {
	if size <= uint64(c.size) {
		return nil
	}
	limit := uint64(g.entry.lim.memoryPages) << 16
	if size > limit {
		return g.fail(Memory, "", fmt.Sprintf("a batch of %s bytes does not fit into the %d MiB "+
			"of an instance", grouped(size), limit>>20))
	}
	want := max(size, min(2*uint64(c.size), limit/8))
	region, err := g.alloc(uint32(want))
	if err != nil {
		return err
	}
	c.region, c.size = region, uint32(want)
	return nil
}

// adapt chooses the size of the next batch from the fuel of the last one. A small batch says little
// about the cost of a row.
func (c *columns) adapt(g *guest, rows int) {
	switch used := int64(g.used) / g.scale; {
	case c.fixed:
	case used > fuelHigh:
		c.rows = max(min(minBatchRows, c.maxRows), c.rows/2)
	case used < fuelLow && rows >= c.rows:
		c.rows = min(c.maxRows, c.rows*2)
	}
}
