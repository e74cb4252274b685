package segment

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Sealed is an open sealed segment: a read-only mapping of its file. Blocks may be opened from
// many goroutines. What its methods return aliases the mapping and must not be used after Close.
type Sealed struct {
	path     string
	size     int64
	data     []byte
	rows     int
	blocks   int
	end      uint64 // where the blocks end
	sections []Section
	checked  []atomic.Uint64 // bitmap of the blocks that were found right
}

// OpenSealed maps a segment and checks everything but its blocks, which are checked when they are
// first opened.
//
// Errors: *CorruptError, naming file and offset; an error of the file system, wrapped.
func OpenSealed(path string) (*Sealed, error) {
	data, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	adviseRandom(data)
	var s *Sealed
	err = (&Sealed{path: path, data: data}).Guard(func() error {
		s, err = parseSealed(path, data)
		return err
	})
	if err != nil {
		_ = unix.Munmap(data) // the damage is what matters
		return nil, err
	}
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
		return nil, &CorruptError{File: path, Reason: fmt.Sprintf("%d bytes are no segment", size)}
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map segment %s: %w", path, err)
	}
	return data, nil
}

func (s *Sealed) corrupt(offset uint64, format string, args ...any) *CorruptError {
	return &CorruptError{File: s.path, Offset: int64(offset), Reason: fmt.Sprintf(format, args...)}
}

// parseSealed checks header, tail, section table, sections and padding. data has room for them.
func parseSealed(path string, data []byte) (*Sealed, error) {
	s, damage := parseDamaged(path, data)
	if len(damage) > 0 {
		return nil, damage[0]
	}
	return s, nil
}

// parseDamaged does so and goes on after damage, as far as the tail still says what is where; s is
// nil when it does not.
func parseDamaged(path string, data []byte) (s *Sealed, damage []*CorruptError) {
	s = &Sealed{path: path, size: int64(len(data)), data: data}
	table, sections, err := s.parseTail()
	if err != nil {
		return nil, []*CorruptError{err}
	}
	s.checked = make([]atomic.Uint64, (s.blocks+63)/64)
	damage = s.parseSections(table, sections)
	return s, append(damage, s.parseConstants()...)
}

func (s *Sealed) parseTail() (table uint64, sections int, err *CorruptError) {
	data := s.data
	at := uint64(len(data) - tailBytes)
	tail := data[at:]
	if binary.LittleEndian.Uint64(tail[56:]) != sealedMagic {
		return 0, 0, s.corrupt(at+56, "the file does not end like a segment: is it cut?")
	}
	if v := binary.LittleEndian.Uint32(tail[40:]); v != sealedVersion {
		return 0, 0, s.corrupt(at+40, "version %d; this program reads version %d", v, sealedVersion)
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
		return 0, 0, s.corrupt(at+32, "the file has %d bytes; others were written", len(data))
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

// parseSections checks that the sections fill the room between padding and table.
func (s *Sealed) parseSections(table uint64, sections int) (damage []*CorruptError) {
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
	}
	if next != table {
		damage = append(damage,
			s.corrupt(next, "%d bytes lie between sections and table", table-next))
	}
	return damage
}

func (s *Sealed) parseConstants() (damage []*CorruptError) {
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
func (s *Sealed) Section(id uint32) []byte {
	for _, sec := range s.sections {
		if sec.ID == id {
			return sec.Data
		}
	}
	return nil
}

// Meta returns the description that was given to WriteSealed.
func (s *Sealed) Meta() []byte { return s.Section(sectionMeta) }

// Rows returns the number of rows.
func (s *Sealed) Rows() int { return s.rows }

// Blocks returns the number of blocks.
func (s *Sealed) Blocks() int { return s.blocks }

// Size returns the size of the file in bytes, also beside and after Close.
func (s *Sealed) Size() int64 { return s.size }

// IndexBytes returns how much of the file is not blocks: sections, table, header and tail.
func (s *Sealed) IndexBytes() int64 { return s.size - int64(s.end) + sealedHeaderBytes }

// Path returns the name of the file.
func (s *Sealed) Path() string { return s.path }

// Block opens block i, which lies at offset and has size bytes, into b. The first opening checks
// its checksum and what its columns say; payload chunks are checked whenever they are read.
//
// Errors: *CorruptError; b is not usable then.
// Cost: about 0.1 us, no allocation; the first time a pass over the block.
func (s *Sealed) Block(i int, offset uint64, size uint32, b *Block) error {
	if i < 0 || i >= s.blocks || offset < sealedHeaderBytes || size < blockHeaderBytes+4 ||
		offset > s.end || uint64(size) > s.end-offset {
		return s.corrupt(offset, "block %d of %d bytes lies outside the blocks", i, size)
	}
	word, bit := &s.checked[i>>6], uint64(1)<<(i&63)
	known := word.Load()&bit != 0
	b.sealed, b.offset = s, offset
	reason := b.parse(s.data[offset:], i, size, known)
	if reason == "" && !known {
		reason = b.check()
	}
	if reason != "" {
		b.rows = 0
		return s.corrupt(offset, "block %d: %s", i, reason)
	}
	if !known {
		word.Or(bit)
	}
	return nil
}

// Close unmaps the file. Nobody may be reading it.
func (s *Sealed) Close() error {
	if s.data == nil {
		return nil
	}
	data := s.data
	s.data = nil
	if err := unix.Munmap(data); err != nil {
		return fmt.Errorf("unmap segment %s: %w", s.path, err)
	}
	return nil
}
