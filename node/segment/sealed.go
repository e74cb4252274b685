package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Sealed is an open sealed segment: a read-only mapping of the file. Blocks may be opened from
// many goroutines. What its methods return aliases the mapping and must not be used after Close.
type Sealed struct {
	path     string
	data     []byte
	rows     int
	blocks   int
	sections []Section
	end      int64           // where the blocks end
	checked  []atomic.Uint32 // bitmap of blocks whose checksum was found right
}

// OpenSealed maps a segment and checks everything but its blocks, which are checked when they are
// first opened.
//
// Errors: *CorruptError, naming file and offset; an error of the file system.
func OpenSealed(path string) (*Sealed, error) {
	data, err := mapFile(path)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	s := &Sealed{path: path, data: data}
	if err := s.parse(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func mapFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size < sealedHeaderBytes+tailBytes || int64(int(size)) != size {
		return nil, &CorruptError{File: path, Offset: size, Reason: "file ends inside its header"}
	}
	return unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
}

func (s *Sealed) corrupt(offset int64, reason string, err error) *CorruptError {
	return &CorruptError{File: s.path, Offset: offset, Reason: reason, Err: err}
}

func (s *Sealed) parse() error {
	d := s.data
	if binary.LittleEndian.Uint32(d) != sealedMagic {
		return s.corrupt(0, "not a sealed segment", nil)
	}
	if v := binary.LittleEndian.Uint16(d[4:]); v != sealedVersion {
		return s.corrupt(4, fmt.Sprintf("version %d; this program reads version %d", v, sealedVersion), nil)
	}
	for i := 6; i < sealedHeaderBytes; i++ {
		if d[i] != 0 {
			return s.corrupt(int64(i), "reserved byte of the header is not zero", nil)
		}
	}
	at := int64(len(d) - tailBytes)
	tail := d[at:]
	if binary.LittleEndian.Uint32(tail[28:]) != sealedMagic ||
		binary.LittleEndian.Uint32(tail[24:]) != checksum(tail[:24]) {
		return s.corrupt(at, "the end of the file is not that of a sealed segment", nil)
	}
	table := binary.LittleEndian.Uint64(tail)
	sections := binary.LittleEndian.Uint32(tail[8:])
	if sections == 0 || sections > maxSections || table > uint64(at) ||
		uint64(at)-table != uint64(sections)*sectionEntryBytes {
		return s.corrupt(at, fmt.Sprintf("table of %d sections at %d", sections, table), nil)
	}
	if checksum(d[table:at]) != binary.LittleEndian.Uint32(tail[12:]) {
		return s.corrupt(int64(table), "checksum of the section table differs", nil)
	}
	s.rows = int(binary.LittleEndian.Uint32(tail[16:]))
	s.blocks = int(binary.LittleEndian.Uint32(tail[20:]))
	if uint64(s.blocks) > table/blockHeaderBytes {
		return s.corrupt(at, fmt.Sprintf("%d blocks in %d bytes", s.blocks, table), nil)
	}
	s.checked = make([]atomic.Uint32, (s.blocks+31)/32)
	return s.parseSections(int64(table), int(sections))
}

func (s *Sealed) parseSections(table int64, sections int) error {
	s.end = table
	want := table // sections lie one after another up to the table, the first one lowest
	for i := sections - 1; i >= 0; i-- {
		at := table + int64(i)*sectionEntryBytes
		e := s.data[at:]
		offset, size := binary.LittleEndian.Uint64(e[8:]), binary.LittleEndian.Uint64(e[16:])
		if size > uint64(want) || offset != uint64(want)-size || offset < sealedHeaderBytes ||
			binary.LittleEndian.Uint64(e[24:]) != 0 {
			return s.corrupt(at, fmt.Sprintf("section %d at %d of %d bytes", i, offset, size), nil)
		}
		body := s.data[offset : offset+size : offset+size]
		if checksum(body) != binary.LittleEndian.Uint32(e[4:]) {
			return s.corrupt(int64(offset), "checksum of a section differs", nil)
		}
		s.sections = append(s.sections, Section{ID: binary.LittleEndian.Uint32(e), Data: body})
		want = int64(offset)
	}
	s.end = want
	return nil
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

// Meta returns the description given to WriteSealed.
func (s *Sealed) Meta() []byte { return s.Section(sectionMeta) }

// Rows returns the number of rows.
func (s *Sealed) Rows() int { return s.rows }

// Blocks returns the number of blocks.
func (s *Sealed) Blocks() int { return s.blocks }

// Size returns the size of the file in bytes.
func (s *Sealed) Size() int64 { return int64(len(s.data)) }

// Path returns the name of the file.
func (s *Sealed) Path() string { return s.path }

// Block opens block i, which lies at offset, into b. The first opening checks its checksum.
func (s *Sealed) Block(i int, offset uint64, size uint32, b *Block) error {
	if i < 0 || i >= s.blocks || offset < sealedHeaderBytes || size < blockHeaderBytes+4 ||
		offset > uint64(s.end) || uint64(size) > uint64(s.end)-offset {
		return s.corrupt(int64(offset), fmt.Sprintf("block %d of %d bytes lies outside", i, size), nil)
	}
	data, body := s.data[offset:], int(size)-4
	word, bit := &s.checked[i/32], uint32(1)<<(i%32)
	known := word.Load()&bit != 0
	if !known && checksum(data[:body]) != binary.LittleEndian.Uint32(data[body:]) {
		return s.corrupt(int64(offset), fmt.Sprintf("checksum of block %d differs", i), nil)
	}
	err := b.parse(data, body)
	if err == nil && !known {
		err = b.checkDictionaries()
	}
	if err != nil {
		return s.corrupt(int64(offset), fmt.Sprintf("block %d", i), err)
	}
	b.file, b.offset = s.path, int64(offset)
	if !known {
		word.Or(bit)
	}
	return nil
}

// Close unmaps the file.
func (s *Sealed) Close() error {
	if s.data == nil {
		return nil
	}
	data := s.data
	s.data = nil
	return unix.Munmap(data[:len(data):len(data)])
}
