package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"unsafe"
)

const (
	// diskAlign is what direct reads are aligned to.
	diskAlign = 4096
	// diskBytes is how much is read at once.
	diskBytes = 256 << 10
)

// Disk reads a sealed segment from the disk and not from memory, where the system has direct reads:
// so that damage is found although no query reads the file, and what queries read stays in memory.
type Disk struct {
	of     *File
	file   *os.File
	window []byte // aligned memory
	at     uint64 // in the file, of the window
	filled int    // bytes of the window
	buf    []byte
}

// OpenDisk opens the file of a segment once more. memory is of a Disk that was closed, or nil.
func (s *File) OpenDisk(memory *Disk) (*Disk, error) {
	f, err := openDirect(s.path)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	d := &Disk{of: s, file: f}
	if memory != nil {
		d.window, d.buf = memory.window, memory.buf[:0]
	} else {
		d.window = alignedBytes(diskBytes)
	}
	return d, nil
}

func alignedBytes(n int) []byte {
	all := make([]byte, n+diskAlign)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(all))) & (diskAlign - 1)
	return all[skip:][:n:n]
}

// Close closes the file.
func (d *Disk) Close() error { return d.file.Close() }

// read implements blockReader.
func (d *Disk) read(dst []byte, offset, n uint64) ([]byte, error) {
	for n > 0 {
		if offset < d.at || offset >= d.at+uint64(d.filled) {
			if err := d.fill(offset); err != nil {
				return dst, err
			}
		}
		part := d.window[offset-d.at : d.filled]
		part = part[:min(uint64(len(part)), n)]
		dst = append(dst, part...)
		offset, n = offset+uint64(len(part)), n-uint64(len(part))
	}
	return dst, nil
}

// fill reads the window that has the byte at an offset.
func (d *Disk) fill(offset uint64) error {
	d.at, d.filled = offset&^(diskAlign-1), 0
	n, err := d.file.ReadAt(d.window, int64(d.at))
	if errors.Is(err, syscall.EINVAL) && n == 0 { // of a file system without direct reads
		var plain *os.File
		if plain, err = os.Open(d.of.path); err != nil {
			return fmt.Errorf("open segment: %w", err)
		}
		_ = d.file.Close() // only read
		d.file = plain
		n, err = d.file.ReadAt(d.window, int64(d.at))
	}
	if uint64(n) > offset-d.at {
		d.filled = n
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return d.of.corrupt(offset, "the file ends here: it was cut")
	}
	damage := d.of.corrupt(offset, "the disk cannot read these bytes")
	damage.Err = err
	return damage
}

// Block verifies block i, which is stored at offset, with all its chunks, and returns its size.
//
// Errors: *durable.CorruptError; of the file system.
func (d *Disk) Block(i int, offset uint64) (size uint64, err error) {
	if offset > d.of.end || d.of.end-offset < blockHeaderBytes+4 {
		return 0, d.of.corrupt(offset, "block %d lies outside the blocks", i)
	}
	return verifyBlock(d.of, i, offset, &d.buf, d, nil)
}

// Rest verifies everything but the blocks: header, padding, sections, their table and the tail.
// They are compared with what was there when the segment was opened, so that the tail need not be
// understood.
//
// Errors: *durable.CorruptError; of the file system.
func (d *Disk) Rest() error {
	s := d.of
	var err error
	if d.buf, err = d.read(d.buf[:0], 0, sealedHeaderBytes); err != nil {
		return err
	}
	if !slices.Equal(d.buf, sealedHeader()) {
		return s.corrupt(0, "the file does not start like a segment")
	}
	if d.buf, err = d.read(d.buf[:0], s.end, paddingBytes); err != nil {
		return err
	}
	if !slices.Equal(d.buf, make([]byte, paddingBytes)) {
		return s.corrupt(s.end, "the padding is not zero")
	}
	for i, sec := range s.sections {
		sum := uint32(0)
		at, left := s.sectionExtents[i].offset, uint64(len(sec.Data))
		for left > 0 {
			if d.buf, err = d.read(d.buf[:0], at, min(left, diskBytes)); err != nil {
				return err
			}
			sum = update(sum, d.buf)
			at, left = at+uint64(len(d.buf)), left-uint64(len(d.buf))
		}
		if sum != s.sectionExtents[i].sum {
			return s.corrupt(s.sectionExtents[i].offset, "the checksum of section %d differs", i)
		}
	}
	return d.tail()
}

// tail verifies the section table and the tail.
func (d *Disk) tail() error {
	s := d.of
	at := uint64(s.size) - tailBytes
	table := at - uint64(len(s.sections))*sectionEntryBytes
	var err error
	if d.buf, err = d.read(d.buf[:0], table, uint64(s.size)-table); err != nil {
		return err
	}
	sum := checksum(d.buf[:len(d.buf)-tailBytes+52])
	tail := d.buf[len(d.buf)-tailBytes:]
	if binary.LittleEndian.Uint32(tail[52:]) != sum ||
		binary.LittleEndian.Uint64(tail[56:]) != sealedMagic {
		return s.corrupt(at, "the checksum of section table and tail differs")
	}
	for i, p := range s.sectionExtents {
		if e := d.buf[i*sectionEntryBytes:]; binary.LittleEndian.Uint32(e[4:]) != p.sum {
			return s.corrupt(table, "the section table is another one than when it was opened")
		}
	}
	return nil
}
