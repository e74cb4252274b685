package segment

import "encoding/binary"

// VerifyBlock compares the front of a block with its checksum now.
func (s *File) VerifyBlock(i int, offset uint64, size uint32) error {
	if err := s.checkBlockBounds(i, offset, size); err != nil {
		return err
	}
	front := uint64(binary.LittleEndian.Uint32(s.data[offset+4:]))
	if front < blockHeaderBytes+4 || front > uint64(size) ||
		checksum(s.data[offset:offset+front-4]) !=
			binary.LittleEndian.Uint32(s.data[offset+front-4:]) {
		return s.corrupt(offset, "block %d: its checksum differs", i)
	}
	return nil
}

// verify compares the front of the open block with its checksum.
func (b *Block) verify() error {
	if at := b.front - 4; checksum(b.body[:at]) != binary.LittleEndian.Uint32(b.body[at:]) {
		return b.sealed.corrupt(b.offset, "block: its checksum differs")
	}
	return nil
}
