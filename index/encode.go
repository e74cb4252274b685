package index

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/pentad-db/pentad/sdk/record"
)

// Versions of the block directory and posting lists. 1: first. 2: the directory says which blocks
// hold late rows; 3: a block has eight sub-runs, and up to 8,192 rows.
const (
	blockDirectoryVersion = 3
	postingsVersion       = 1
)

const (
	subBytes            = 4 + 8 + 8 + 4 + 4
	blockBytes          = record.NumDims*16 + 8 + 4 + 4 + 4 + subRuns*subBytes
	blockDirectoryBytes = 4 + 4 + 4 + 4 // version, rows, blocks, on time
)

// AppendBlockDirectory appends the block directory: version u32, rows u32, blocks u32, blocks
// before the first with late rows u32, then per block five pairs (min i64, max i64), offset u64,
// size u32, rows u32, flagged u32 and eight sub-runs {end u32, cap lo i64, cap hi i64, rank lo u32,
// rank hi u32}; little-endian.
func (s *Segment) AppendBlockDirectory(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, blockDirectoryVersion)
	dst = binary.LittleEndian.AppendUint32(dst, s.rows)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s.blocks)))
	dst = binary.LittleEndian.AppendUint32(dst, s.onTime)
	for i := range s.blocks {
		b := &s.blocks[i]
		for d := range record.NumDims {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(b.Min[d]))
			dst = binary.LittleEndian.AppendUint64(dst, uint64(b.Max[d]))
		}
		dst = binary.LittleEndian.AppendUint64(dst, b.Offset)
		dst = binary.LittleEndian.AppendUint32(dst, b.Size)
		dst = binary.LittleEndian.AppendUint32(dst, b.Rows)
		dst = binary.LittleEndian.AppendUint32(dst, b.Flagged)
		for k := range b.Subs {
			sub := &b.Subs[k]
			dst = binary.LittleEndian.AppendUint32(dst, sub.End)
			dst = binary.LittleEndian.AppendUint64(dst, uint64(sub.CapLo))
			dst = binary.LittleEndian.AppendUint64(dst, uint64(sub.CapHi))
			dst = binary.LittleEndian.AppendUint32(dst, sub.RankLo)
			dst = binary.LittleEndian.AppendUint32(dst, sub.RankHi)
		}
	}
	return dst
}

// AppendRanks appends the rank table, node/segment/FORMAT.md section 8.
func (s *Segment) AppendRanks(dst []byte) []byte { return append(dst, s.ranks.src...) }

// AppendPostings appends the posting lists: version u32, then per dimension bins u32, the bounds
// i64 and three times as many lists (le, ge, ov), each a size u32 and a roaring bitmap in its
// portable format.
func (s *Segment) AppendPostings(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, postingsVersion)
	for d := range s.postings {
		p := &s.postings[d]
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(p.bounds)))
		for _, bound := range p.bounds {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(bound))
		}
		for _, list := range [][]posting{p.le, p.ge, p.ov} {
			for i := range list {
				var buf bytes.Buffer
				if _, err := list[i].ids.WriteTo(&buf); err != nil {
					panic("BUG: a bitmap cannot be written to memory: " + err.Error())
				}
				dst = binary.LittleEndian.AppendUint32(dst, uint32(buf.Len()))
				dst = append(dst, buf.Bytes()...)
			}
		}
	}
	return dst
}

// decoder reads numbers and remembers that it ran out.
type decoder struct {
	src   []byte
	short bool
}

func (d *decoder) take(n uint64) []byte {
	if d.short || n > uint64(len(d.src)) {
		d.short = true
		return nil
	}
	out := d.src[:n]
	d.src = d.src[n:]
	return out
}

func (d *decoder) u32() uint32 {
	if b := d.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Parse reads what AppendBlockDirectory, AppendPostings and AppendRanks wrote. It copies what it
// keeps.
func Parse(directory, postings, ranks []byte) (*Segment, error) {
	s := &Segment{}
	if err := s.parseDirectory(directory); err != nil {
		return nil, fmt.Errorf("parse directory: %w", err)
	}
	var err error
	if s.ranks, err = parseRanks(ranks, s.rows); err != nil {
		return nil, fmt.Errorf("parse ranks: %w", err)
	}
	s.finish()
	if err := s.parsePostings(postings); err != nil {
		return nil, fmt.Errorf("parse postings: %w", err)
	}
	return s, nil
}

func (s *Segment) parseDirectory(src []byte) error {
	d := decoder{src: src}
	version, rows, blocks, onTime := d.u32(), d.u32(), d.u32(), d.u32()
	if d.short || version != blockDirectoryVersion {
		return &VersionError{version, blockDirectoryVersion}
	}
	if blocks == 0 || blocks > maxBlocks || uint64(len(d.src)) != uint64(blocks)*blockBytes {
		return fmt.Errorf("%d blocks in %d bytes", blocks, len(d.src))
	}
	if onTime > blocks {
		return fmt.Errorf("%d of %d blocks are on time", onTime, blocks)
	}
	s.rows, s.onTime, s.blocks = rows, onTime, make([]BlockInfo, blocks)
	total := uint64(0)
	for i := range s.blocks {
		b := &s.blocks[i]
		for dim := range record.NumDims {
			b.Min[dim], b.Max[dim] = int64(d.u64()), int64(d.u64())
			if b.Min[dim] > b.Max[dim] {
				return fmt.Errorf("block %d: %v ends before it starts", i, record.Dim(dim))
			}
		}
		if b.Min[record.Acq] < 0 || b.Max[record.Acq] >= int64(rows) {
			return fmt.Errorf("block %d: ranks reach beyond %d rows", i, rows)
		}
		b.Offset, b.Size, b.Rows, b.Flagged = d.u64(), d.u32(), d.u32(), d.u32()
		if b.Rows > maxBlockRows { // what ranks take grows with the rows, not with the bytes
			return fmt.Errorf("block %d holds %d rows, at most %d", i, b.Rows, maxBlockRows)
		}
		total += uint64(b.Rows)
		end := uint32(0)
		for k := range b.Subs {
			sub := &b.Subs[k]
			sub.End, sub.CapLo, sub.CapHi = d.u32(), int64(d.u64()), int64(d.u64())
			sub.RankLo, sub.RankHi = d.u32(), d.u32()
			if sub.End < end {
				return fmt.Errorf("block %d: sub-run %d ends before it starts", i, k)
			}
			end = sub.End
		}
		if end != b.Rows || b.Rows == 0 || b.Flagged > b.Rows {
			return fmt.Errorf("block %d: sub-runs hold %d of %d rows", i, end, b.Rows)
		}
	}
	if total != uint64(rows) {
		return fmt.Errorf("blocks hold %d of %d rows", total, rows)
	}
	return nil
}

func (s *Segment) parsePostings(src []byte) error {
	d := decoder{src: src}
	if version := d.u32(); d.short || version != postingsVersion {
		return &VersionError{version, postingsVersion}
	}
	for dim := range s.postings {
		if err := s.parseDimension(&d, &s.postings[dim], record.Dim(dim)); err != nil {
			return fmt.Errorf("%v: %w", record.Dim(dim), err)
		}
	}
	if d.short || len(d.src) != 0 {
		return fmt.Errorf("%d bytes are left over", len(d.src))
	}
	return nil
}

func (s *Segment) parseDimension(d *decoder, p *postings, dim record.Dim) error {
	bins := d.u32()
	if bins == 0 || int64(bins) > int64(maxBins[dim]) {
		return fmt.Errorf("%d bins, at most %d", bins, maxBins[dim])
	}
	p.bounds = make([]int64, bins)
	for i := range p.bounds {
		p.bounds[i] = int64(d.u64())
		if i > 0 && p.bounds[i] <= p.bounds[i-1] {
			return fmt.Errorf("bin %d starts before bin %d", i, i-1)
		}
	}
	p.le, p.ge, p.ov = newPostings(int(bins)), newPostings(int(bins)), newPostings(int(bins))
	for _, list := range [][]posting{p.le, p.ge, p.ov} {
		for i := range list {
			if err := s.parseList(d, &list[i]); err != nil {
				return fmt.Errorf("bin %d: %w", i, err)
			}
		}
	}
	return nil
}

func (s *Segment) parseList(d *decoder, l *posting) error {
	buf := d.take(uint64(d.u32()))
	if d.short {
		return fmt.Errorf("section ends inside a list")
	}
	// A bitmap of one container is at most 8 KiB and a little; the library's reader trusts
	// counts, which are bounded by this.
	if len(buf) > 16<<10 {
		return fmt.Errorf("list of %d bytes", len(buf))
	}
	l.ids = roaring.New()
	n, err := l.ids.ReadFrom(bytes.NewReader(buf))
	if err != nil || n != int64(len(buf)) {
		return fmt.Errorf("list of %d bytes, %d read: %w", len(buf), n, err)
	}
	if l.ids.IsEmpty() {
		return nil
	}
	if err := l.ids.Validate(); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	if last := l.ids.Maximum(); int64(last) >= int64(len(s.blocks)) {
		return fmt.Errorf("list names block %d of %d", last, len(s.blocks))
	}
	l.finish(len(s.blocks))
	return nil
}
