package segment

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
)

// File is an open sealed segment: a read-only mapping of its file. Blocks may be opened from
// many goroutines. What its methods return aliases the mapping and must not be used after Close.
type File struct {
	path           string
	size           int64
	data           []byte
	rows           int
	blocks         int
	end            uint64 // where the blocks end
	sections       []Section
	sectionExtents []sectionExtent
	clock          *VerifyClock    // nil: blocks are verified whenever they are opened
	verified       []atomic.Uint32 // by block: the tick of clock when it was found right; 0: never
}

// sectionExtent is where a section starts, and its checksum.
type sectionExtent struct {
	offset uint64
	sum    uint32
}

// OpenSealed maps a segment and verifies everything but its blocks. A block is verified when it is
// opened, unless clock says that this was done within [VerifyAfter]; with a nil clock each time.
//
// Errors: *durable.CorruptError, naming file and offset; *formats.Error; an error of the file
// system, wrapped.
func OpenSealed(path string, clock *VerifyClock) (*File, error) {
	data, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	adviseRandom(data)
	var s *File
	err = (&File{path: path, data: data}).CatchPageFaults(func() error {
		s, err = parseSealed(path, data)
		return err
	})
	if err != nil {
		_ = unmap(data) // the damage is what matters
		return nil, err
	}
	s.clock = clock
	return s, nil
}

func mapFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	size := info.Size()
	if size < sealedHeaderBytes+paddingBytes+tailBytes || int64(int(size)) != size {
		return nil, &durable.CorruptError{File: path,
			Reason: fmt.Sprintf("a segment cannot have %d bytes", size)}
	}
	data, err := mmap(f, int(size))
	if err != nil {
		return nil, fmt.Errorf("map segment %s: %w", path, err)
	}
	return data, nil
}

func (s *File) corrupt(offset uint64, format string, args ...any) *durable.CorruptError {
	return &durable.CorruptError{File: s.path, Offset: int64(offset),
		Reason: fmt.Sprintf(format, args...)}
}

// parseSealed checks header, tail, section table, sections and padding. data has space for them.
func parseSealed(path string, data []byte) (*File, error) {
	s, damage, err := parseDamaged(path, data)
	if err != nil {
		return nil, err
	}
	if len(damage) > 0 {
		return nil, damage[0]
	}
	return s, nil
}

// parseDamaged does so and goes on after damage, as far as the tail still says what is where; s is
// nil when it does not.
//
// Errors: *formats.Error.
func parseDamaged(path string, data []byte) (s *File, damage []*durable.CorruptError, err error) {
	s = &File{path: path, size: int64(len(data)), data: data}
	table, sections, bad := s.parseTail()
	if bad != nil {
		return nil, []*durable.CorruptError{bad}, nil
	}
	at := len(data) - tailBytes + 40 // under the checksum that parseTail has verified
	version := binary.LittleEndian.Uint32(data[at:])
	if e := formats.Of(path, "", uint64(version), sealedVersion); e != nil {
		return nil, nil, e
	}
	if version != sealedVersion {
		bad = s.corrupt(uint64(at), "version %d; this program reads version %d", version,
			sealedVersion)
		return nil, []*durable.CorruptError{bad}, nil
	}
	s.verified = make([]atomic.Uint32, s.blocks)
	damage = s.parseSections(table, sections)
	return s, append(damage, s.parseConstants()...), nil
}

func (s *File) parseTail() (table uint64, sections int, err *durable.CorruptError) {
	data := s.data
	at := uint64(len(data) - tailBytes)
	tail := data[at:]
	if binary.LittleEndian.Uint64(tail[56:]) != sealedMagic {
		return 0, 0, s.corrupt(at+56, "the file does not end like a segment: it was cut, or is "+
			"another file")
	}
	count := uint64(binary.LittleEndian.Uint32(tail[12:]))
	table = binary.LittleEndian.Uint64(tail[24:])
	if count > maxSections || table > at || at-table != count*sectionEntryBytes {
		return 0, 0, s.corrupt(at+24, "a table of %d sections does not start at %d", count, table)
	}
	if checksum2(data[table:at], tail[:52]) != binary.LittleEndian.Uint32(tail[52:]) {
		return 0, 0, s.corrupt(at, "the checksum of section table and tail differs")
	}
	s.end = binary.LittleEndian.Uint64(tail[16:])
	rows, blocks := binary.LittleEndian.Uint64(tail), binary.LittleEndian.Uint32(tail[8:])
	switch {
	case binary.LittleEndian.Uint64(tail[32:]) != uint64(len(data)):
		return 0, 0, s.corrupt(at+32, "the file has %d bytes, not as many as were written",
			len(data))
	case binary.LittleEndian.Uint64(tail[44:]) != 0:
		return 0, 0, s.corrupt(at+44, "reserved bytes of the tail are not zero")
	case s.end < sealedHeaderBytes || s.end > table || table-s.end < paddingBytes:
		return 0, 0, s.corrupt(at+16, "blocks do not end at %d", s.end)
	case uint64(blocks) > s.end/blockHeaderBytes || blocks > maxSegmentBlocks ||
		rows < uint64(blocks) || rows > uint64(blocks)*maxBlockRows:
		return 0, 0, s.corrupt(at, "%d rows in %d blocks in %d bytes", rows, blocks, s.end)
	}
	s.rows, s.blocks = int(rows), int(blocks)
	return table, int(count), nil
}

// parseSections checks that the sections fill the space between padding and table.
func (s *File) parseSections(table uint64, sections int) (damage []*durable.CorruptError) {
	next := s.end + paddingBytes
	s.WillNeed(next, table-next)
	for i := range sections {
		at := table + uint64(i)*sectionEntryBytes
		e := s.data[at:]
		offset, size := binary.LittleEndian.Uint64(e[8:]), binary.LittleEndian.Uint64(e[16:])
		if offset != next || size > table-next || binary.LittleEndian.Uint64(e[24:]) != 0 {
			return append(damage,
				s.corrupt(at, "section %d of %d bytes does not lie at %d", i, size, offset))
		}
		next += size
		body := s.data[offset:next:next]
		if checksum(body) != binary.LittleEndian.Uint32(e[4:]) {
			damage = append(damage, s.corrupt(offset, "the checksum of section %d differs", i))
			continue
		}
		s.sections = append(s.sections, Section{ID: binary.LittleEndian.Uint32(e), Data: body})
		s.sectionExtents = append(s.sectionExtents,
			sectionExtent{offset, binary.LittleEndian.Uint32(e[4:])})
	}
	if next != table {
		damage = append(damage,
			s.corrupt(next, "%d bytes lie between sections and table", table-next))
	}
	return damage
}

func (s *File) parseConstants() (damage []*durable.CorruptError) {
	if binary.LittleEndian.Uint64(s.data) != sealedMagic {
		damage = append(damage, s.corrupt(0, "the file does not start like a segment"))
	}
	if binary.LittleEndian.Uint64(s.data[8:]) != sealedVersion {
		damage = append(damage, s.corrupt(8, "version or reserved bytes of the header differ"))
	}
	for i, b := range s.data[s.end : s.end+paddingBytes] {
		if b != 0 {
			return append(damage, s.corrupt(s.end+uint64(i), "the padding is not zero"))
		}
	}
	return damage
}

// Section returns the bytes of a section, nil when there is none.
func (s *File) Section(id uint32) []byte {
	for _, sec := range s.sections {
		if sec.ID == id {
			return sec.Data
		}
	}
	return nil
}

// Sections returns all sections, the caller's description with id 0 among them.
func (s *File) Sections() []Section { return s.sections }

// Meta returns the description that was given to WriteRuns.
func (s *File) Meta() []byte { return s.Section(sectionMeta) }

// Rows returns the number of rows.
func (s *File) Rows() int { return s.rows }

// Blocks returns the number of blocks.
func (s *File) Blocks() int { return s.blocks }

// Size returns the size of the file in bytes, also beside and after Close.
func (s *File) Size() int64 { return s.size }

// IndexBytes returns how much of the file is not blocks: sections, table, header and tail.
func (s *File) IndexBytes() int64 { return s.size - int64(s.end) + sealedHeaderBytes }

// Path returns the name of the file.
func (s *File) Path() string { return s.path }

// Block opens block i, which is stored at offset and has size bytes, into b. Its checksum is
// verified unless that was done within [VerifyAfter]; that of a payload chunk whenever the chunk is
// read. What is read of a block that was damaged since then may be wrong, but its length is right,
// and reading it does not panic.
//
// Errors: *durable.CorruptError; b is not usable then.
// Cost: about 0.1 us, no allocation; 5 to 10 us for 8,192 rows when it is verified.
func (s *File) Block(i int, offset uint64, size uint32, b *Block) error {
	if err := s.checkBlockBounds(i, offset, size); err != nil {
		return err
	}
	b.isCopy = false
	return s.openBlock(i, offset, size, b, s.clock.isRecent(s.verified[i].Load()), s.data[offset:])
}

// BlockCopy is Block for a reader that writes rows elsewhere under new checksums, which must not
// make damage look right: it verifies a copy of the front, and later one of each chunk that is
// read, and reads the rows from these.
//
// Cost: some 15 us for 8,192 rows.
func (s *File) BlockCopy(i int, offset uint64, size uint32, b *Block) error {
	if err := s.checkBlockBounds(i, offset, size); err != nil {
		return err
	}
	front := uint64(binary.LittleEndian.Uint32(s.data[offset+4:]))
	if front > uint64(size) {
		return s.corrupt(offset, "block %d: a front of %d bytes in %d bytes", i, front, size)
	}
	b.copied = slices.Grow(b.copied[:0], int(front)+paddingBytes)
	b.copied = append(b.copied, s.data[offset:offset+front]...)
	b.copied = append(b.copied, make([]byte, paddingBytes)...)
	if binary.LittleEndian.Uint32(b.copied[4:]) != uint32(front) {
		return s.corrupt(offset, "block %d: its header changes while it is read", i)
	}
	b.isCopy = true
	return s.openBlock(i, offset, size, b, false, b.copied)
}

// openBlock parses the block whose front src begins with, and verifies its checksum unless that
// was done lately.
func (s *File) openBlock(
	i int, offset uint64, size uint32, b *Block, verifiedLately bool, src []byte,
) error {
	b.sealed, b.offset = s, offset
	reason := b.parse(src, i, size, verifiedLately)
	if reason == "" {
		b.data = s.data[offset+b.front : offset+uint64(size)]
		if s.verified[i].Load() == 0 { // of bytes with the same checksum it says the same
			reason = b.checkStructure()
		}
	}
	if reason != "" {
		b.rows = 0
		return s.corrupt(offset, "block %d: %s", i, reason)
	}
	if !verifiedLately {
		s.verified[i].Store(s.clock.tick())
	}
	return nil
}

// checkBlockBounds checks that a block can be where an index says.
func (s *File) checkBlockBounds(i int, offset uint64, size uint32) error {
	if i < 0 || i >= s.blocks || offset < sealedHeaderBytes || size < blockHeaderBytes+4 ||
		offset > s.end || uint64(size) > s.end-offset {
		return s.corrupt(offset, "block %d of %d bytes lies outside the blocks", i, size)
	}
	return nil
}

// Close unmaps the file. Nobody may be reading it.
func (s *File) Close() error {
	if s.data == nil {
		return nil
	}
	data := s.data
	s.data = nil
	if err := unmap(data); err != nil {
		return fmt.Errorf("unmap segment %s: %w", s.path, err)
	}
	return nil
}
