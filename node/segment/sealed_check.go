package segment

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/durable"
)

// OpenDamaged opens a segment as OpenSealed does, but goes on after damage, which it returns. With
// a damaged tail no one knows what is where: the segment is nil then.
//
// Errors: of the file system, wrapped; *formats.Error; damage is none.
func OpenDamaged(path string) (*File, []*durable.CorruptError, error) {
	data, err := mapFile(path)
	var damage *durable.CorruptError
	if errors.As(err, &damage) {
		return nil, []*durable.CorruptError{damage}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	adviseSequential(data)
	mapped := &File{data: data, path: path}
	var s *File
	var all []*durable.CorruptError
	err = mapped.CatchPageFaults(func() error {
		s, all, err = parseDamaged(path, data)
		return err
	})
	if errors.As(err, &damage) {
		s, all, err = nil, []*durable.CorruptError{damage}, nil
	}
	if s == nil {
		return nil, all, errors.Join(err, mapped.Close())
	}
	return s, all, nil
}

// CheckBlocks reads every block with all its chunks and shows each to visit, in the order of the
// file: b as long as err is nil, else err says what is damaged. Where blocks lie is taken from
// offsets and sizes, or when those are nil from the blocks, each of which leads to the next; a
// damaged one may then hide those behind it, which err says. An error of visit ends the check.
func (s *File) CheckBlocks(
	offsets []uint64, sizes []uint32,
	visit func(i int, b *Block, offset uint64, size uint32, err *durable.CorruptError) error,
) error {
	var b Block
	at := uint64(sealedHeaderBytes)
	for i := range s.blocks {
		size := uint32(0)
		if offsets != nil {
			at, size = offsets[i], sizes[i]
		} else {
			size = s.number(at)
		}
		damage := s.checkBlock(i, at, size, &b)
		next := at + uint64(size)
		lost := damage != nil && offsets == nil && i+1 < s.blocks && s.number(next+8) != uint32(i+1)
		if lost {
			damage.Reason += fmt.Sprintf("; without it the %d blocks behind are not found",
				s.blocks-i-1)
		}
		if err := visit(i, &b, at, size, damage); err != nil || lost {
			return err
		}
		at = next
	}
	if at != s.end {
		return visit(s.blocks, nil, at, 0, s.corrupt(at, "the last block ends here and not at %d",
			s.end))
	}
	return nil
}

// number reads one among the blocks, 0 where there is none.
func (s *File) number(at uint64) (n uint32) {
	_ = s.CatchPageFaults(func() error { // who reads on meets the same damage
		if at < s.end {
			n = binary.LittleEndian.Uint32(s.data[at:])
		}
		return nil
	})
	return n
}

func (s *File) checkBlock(i int, offset uint64, size uint32, b *Block) *durable.CorruptError {
	err := s.CatchPageFaults(func() error {
		if err := s.Block(i, offset, size, b); err != nil {
			return err
		}
		for c := range len(b.chunks) / chunkEntryBytes {
			if err := b.openChunk(c); err != nil {
				return err
			}
		}
		return nil
	})
	var damage *durable.CorruptError
	if err == nil || errors.As(err, &damage) {
		return damage
	}
	panic("BUG: a block is neither right nor damaged: " + err.Error())
}

// Locate returns where the blocks lie, for a caller whose index is lost. It reads all of them.
func (s *File) Locate() (offsets []uint64, sizes []uint32, err error) {
	err = s.CheckBlocks(nil, nil, func(
		_ int, _ *Block, offset uint64, size uint32, damage *durable.CorruptError,
	) error {
		if damage != nil {
			return damage
		}
		offsets, sizes = append(offsets, offset), append(sizes, size)
		return nil
	})
	return offsets, sizes, err
}

// StartsSealed reports whether a file that starts so is a sealed segment.
func StartsSealed(start []byte) bool {
	return len(start) >= 8 && binary.LittleEndian.Uint64(start) == sealedMagic
}
