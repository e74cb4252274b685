package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/pentad-db/pentad/node/internal/durable"
)

// CopySealed writes a segment that holds what src holds, but for the caller's description, and
// makes it durable as WriteRuns does. Everything that is copied is verified as it is copied:
// blocks and payload chunks keep their checksums, and sections those of the table of src. Before
// each block it asks ended, which may be nil, and ends with its error.
//
// Errors: *durable.CorruptError for damage of src, of which nothing is left at path then.
func CopySealed(path string, src *File, meta []byte, ended func() error) error {
	write := func(w *sealedWriter) (info SealedInfo, err error) {
		err = src.CatchPageFaults(func() error {
			if err := w.append(sealedHeader()); err != nil {
				return err
			}
			if err := src.copyBlocks(w, ended); err != nil {
				return err
			}
			if err := w.append(make([]byte, paddingBytes)); err != nil {
				return err
			}
			sections := []Section{{ID: sectionMeta, Data: meta}}
			for _, s := range src.sections {
				if s.ID == sectionMeta {
					continue
				}
				if s.Data, err = src.SectionCopy(s.ID); err != nil {
					return err
				}
				sections = append(sections, s)
			}
			return w.writeSections(sections, src.rows, src.blocks, int64(src.end))
		})
		if err == nil {
			err = w.flush()
		}
		return SealedInfo{}, err
	}
	_, err := writeAndRename(durable.Dir(filepath.Dir(path)), filepath.Base(path), write)
	if err != nil {
		return fmt.Errorf("copy segment to %s: %w", path, err)
	}
	return nil
}

// SectionCopy returns a copy of a section, nil when there is none, that has the checksum that the
// section was written with. The caller owns it.
func (s *File) SectionCopy(id uint32) ([]byte, error) {
	for i, sec := range s.sections {
		if sec.ID != id {
			continue
		}
		data := bytes.Clone(sec.Data)
		if checksum(data) != s.sectionExtents[i].sum {
			return nil, s.corrupt(s.sectionExtents[i].offset,
				"the checksum of section %d differs", i)
		}
		return data, nil
	}
	return nil, nil
}

// copyBlocks appends all blocks, each of which leads to the next.
func (s *File) copyBlocks(w *sealedWriter, ended func() error) error {
	at := uint64(sealedHeaderBytes)
	var buf []byte
	for i := range s.blocks {
		if ended != nil {
			if err := ended(); err != nil {
				return err
			}
		}
		if s.end-at < blockHeaderBytes+4 {
			return s.corrupt(at, "block %d of %d lies outside the blocks", i, s.blocks)
		}
		next, err := s.copyBlock(i, at, &buf, w)
		if err != nil {
			return err
		}
		at = next
	}
	if at != s.end {
		return s.corrupt(at, "the last block ends here and not at %d", s.end)
	}
	return nil
}

// copyBlock appends block i, and returns where it ends. buf is memory.
func (s *File) copyBlock(i int, at uint64, buf *[]byte, w *sealedWriter) (uint64, error) {
	src := mappedReader{s.data}
	size, err := verifyBlock(s, i, at, buf, src, w.append)
	if err != nil {
		return 0, err
	}
	return at + size, nil
}

// blockReader gives out the bytes of a segment.
type blockReader interface {
	// read appends n bytes from an offset on, which is inside the file, to dst.
	read(dst []byte, offset, n uint64) ([]byte, error)
}

type mappedReader struct{ data []byte }

func (m mappedReader) read(dst []byte, offset, n uint64) ([]byte, error) {
	return append(dst, m.data[offset:offset+n]...), nil
}

// verifyBlock reads block i, front and chunks, in parts, of which it keeps one in buf, compares
// each with its checksum, and gives it to visit, which may be nil. It returns the block's size.
func verifyBlock(
	s *File, i int, at uint64, buf *[]byte, src blockReader, visit func(part []byte) error,
) (size uint64, err error) {
	give := func(part []byte) error {
		if visit == nil {
			return nil
		}
		return visit(part)
	}
	b, err := src.read((*buf)[:0], at, blockHeaderBytes)
	if err != nil {
		return 0, err
	}
	size = uint64(binary.LittleEndian.Uint32(b))
	front := uint64(binary.LittleEndian.Uint32(b[4:]))
	if size > s.end-at || front > size || front < blockHeaderBytes+4 ||
		binary.LittleEndian.Uint32(b[8:]) != uint32(i) {
		return 0, s.corrupt(at, "block %d: its header is that of block %d with %d bytes, %d of "+
			"them its front", i, binary.LittleEndian.Uint32(b[8:]), size, front)
	}
	b, err = src.read(b, at+blockHeaderBytes, front-blockHeaderBytes)
	b = slices.Grow(b, chunkBytes)
	*buf = b
	if err != nil {
		return 0, err
	}
	if checksum(b[:front-4]) != binary.LittleEndian.Uint32(b[front-4:]) {
		return 0, s.corrupt(at, "block %d: its checksum differs", i)
	}
	if err := give(b); err != nil {
		return 0, err
	}
	directory, ok := chunkDirectoryOf(b)
	if !ok {
		return 0, s.corrupt(at, "block %d: its chunks do not fill it", i)
	}
	from := uint64(0)
	for c := 0; len(directory) > 0; c++ {
		to := uint64(binary.LittleEndian.Uint32(directory[4:]))
		sum := binary.LittleEndian.Uint32(directory[12:])
		directory = directory[chunkEntryBytes:]
		if to < from || to > size-front {
			return 0, s.corrupt(at, "block %d: chunk %d cannot be", i, c)
		}
		part, err := src.read((*buf)[len(b):], at+front+from, to-from)
		if err != nil {
			return 0, err
		}
		if checksum(part) != sum {
			return 0, s.corrupt(at+front+from, "payload chunk %d: its checksum differs", c)
		}
		if err := give(part); err != nil {
			return 0, err
		}
		from = to
	}
	if from != size-front {
		return 0, s.corrupt(at, "block %d: its chunks do not fill it", i)
	}
	return size, nil
}

// chunkDirectoryOf returns the chunk directory at the end of a front whose checksum is right.
func chunkDirectoryOf(front []byte) (directory []byte, ok bool) {
	if kind := front[16]; kind != payloadFixedChunks && kind != payloadVariableChunks {
		return nil, true
	}
	bytes := chunkEntryBytes * int(binary.LittleEndian.Uint16(front[18:]))
	end := len(front) - 4
	if bytes > end-blockHeaderBytes {
		return nil, false
	}
	return front[end-bytes : end], true
}
