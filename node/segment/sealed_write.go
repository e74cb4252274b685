package segment

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pentad-db/pentad/sdk/record"
)

// Layout of a sealed segment, FORMAT.md section 3.
const (
	sealedMagic       = 0x31535450 // "PTS1"
	sealedVersion     = 1          // 1: first
	sealedHeaderBytes = 16         // magic u32, version u16, zero [10]
	sectionEntryBytes = 32         // id u32, crc u32, offset u64, size u64, zero u64
	tailBytes         = 32         // table offset u64, sections u32, table crc u32, rows u32,
	//                                blocks u32, crc u32 of the 24 bytes before it, magic u32

	// sectionMeta is the id of the description that the caller keeps; smaller ids are the
	// caller's.
	sectionMeta = 0xffffffff

	maxSections = 16
)

// Section is a named piece of a sealed segment that this package does not understand.
type Section struct {
	ID   uint32
	Data []byte
}

// SealedInput is what a sealed segment is made of.
type SealedInput struct {
	Rows      *record.Batch // stamped, in acq order: a row's rank is its number
	Order     []uint32      // position -> rank; a permutation of all rows
	BlockEnds []uint32      // position after the last row of each block
	Flags     []uint64      // bitmap by rank: the row may supersede an older one
	Meta      []byte        // the caller's description
	// Sections is called once all blocks are placed and returns what else is kept.
	Sections func(blockOffsets []uint64, blockSizes []uint32) ([]Section, error)
}

// SealedInfo says what was written.
type SealedInfo struct {
	Bytes  int64
	Blocks int
}

// WriteSealed writes a sealed segment and makes it durable under path: a temporary file beside it
// is written, synced and renamed, and the directory synced.
func WriteSealed(path string, in *SealedInput) (SealedInfo, error) {
	tmp := path + ".tmp"
	f, err := os.Create(tmp)
	if err != nil {
		return SealedInfo{}, fmt.Errorf("write segment: %w", err)
	}
	w := &sealedWriter{out: bufio.NewWriterSize(f, 1<<20)}
	err = w.write(in)
	if err == nil {
		err = w.out.Flush()
	}
	if err == nil {
		err = dataFile{f}.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err == nil {
		err = osDir(filepath.Dir(path)).SyncDir()
	}
	if err != nil {
		_ = os.Remove(tmp)
		return SealedInfo{}, fmt.Errorf("write segment %s: %w", filepath.Base(path), err)
	}
	return SealedInfo{Bytes: w.at, Blocks: len(in.BlockEnds)}, nil
}

type sealedWriter struct {
	out *bufio.Writer
	at  int64
}

func (w *sealedWriter) append(b []byte) error {
	n, err := w.out.Write(b)
	w.at += int64(n)
	return err
}

func (w *sealedWriter) write(in *SealedInput) error {
	header := binary.LittleEndian.AppendUint32(nil, sealedMagic)
	header = binary.LittleEndian.AppendUint16(header, sealedVersion)
	if err := w.append(append(header, make([]byte, sealedHeaderBytes-6)...)); err != nil {
		return err
	}
	offsets, sizes, err := w.blocks(in)
	if err != nil {
		return err
	}
	sections, err := in.Sections(offsets, sizes)
	if err != nil {
		return err
	}
	sections = append(sections, Section{ID: sectionMeta, Data: in.Meta})
	if len(sections) > maxSections {
		return fmt.Errorf("%d sections, at most %d", len(sections), maxSections)
	}
	var table []byte
	for _, s := range sections {
		table = binary.LittleEndian.AppendUint32(table, s.ID)
		table = binary.LittleEndian.AppendUint32(table, checksum(s.Data))
		table = binary.LittleEndian.AppendUint64(table, uint64(w.at))
		table = binary.LittleEndian.AppendUint64(table, uint64(len(s.Data)))
		table = binary.LittleEndian.AppendUint64(table, 0)
		if err := w.append(s.Data); err != nil {
			return err
		}
	}
	tail := binary.LittleEndian.AppendUint64(nil, uint64(w.at))
	tail = binary.LittleEndian.AppendUint32(tail, uint32(len(sections)))
	tail = binary.LittleEndian.AppendUint32(tail, checksum(table))
	tail = binary.LittleEndian.AppendUint32(tail, uint32(in.Rows.Len()))
	tail = binary.LittleEndian.AppendUint32(tail, uint32(len(in.BlockEnds)))
	tail = binary.LittleEndian.AppendUint32(tail, checksum(tail))
	tail = binary.LittleEndian.AppendUint32(tail, sealedMagic)
	return errors.Join(w.append(table), w.append(tail))
}

func (w *sealedWriter) blocks(in *SealedInput) (offsets []uint64, sizes []uint32, err error) {
	var e encoder
	var buf []byte
	start := uint32(0)
	for _, end := range in.BlockEnds {
		if end <= start || end-start > maxBlockRows || int(end) > len(in.Order) {
			return nil, nil, fmt.Errorf("block of rows %d to %d; a block has 1 to %d",
				start, end, maxBlockRows)
		}
		buf = e.appendBlock(buf[:0], in.Rows, in.Order[start:end], in.Flags)
		offsets = append(offsets, uint64(w.at))
		sizes = append(sizes, uint32(len(buf)))
		if err := w.append(buf); err != nil {
			return nil, nil, err
		}
		start = end
	}
	if int(start) != in.Rows.Len() || len(in.Order) != in.Rows.Len() {
		return nil, nil, fmt.Errorf("blocks hold %d of %d rows", start, in.Rows.Len())
	}
	return offsets, sizes, nil
}
