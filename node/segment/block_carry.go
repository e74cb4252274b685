package segment

import (
	"encoding/binary"
	"fmt"
	"runtime"
)

// CarriedBlock is a block of another segment that a new one takes over as it is encoded, but for
// its number and the ranks of its rows.
type CarriedBlock struct {
	Block     *Block // opened by BlockCopy; it is not usable afterwards
	RankShift uint32 // what is added to the ranks
}

// noteRankBase notes where the base of all ranks of the block is: that of the column which is read
// next.
func (p *frontParser) noteRankBase() {
	// The headers are a part of the data, and end where it does.
	p.block.rankBaseAt = cap(p.data) - cap(p.headers) + 1 // behind the width
}

// carry writes a block of another segment. What it copies is verified.
//
// Errors: *durable.CorruptError.
func (w *sealedWriter) carry(c *CarriedBlock) error {
	runtime.Gosched() // queries come first
	b := c.Block
	if !b.isCopy || len(w.offsets) == maxSegmentBlocks {
		return fmt.Errorf("carry block %d: opened as a copy %v; at most %d blocks",
			len(w.offsets), b.isCopy, maxSegmentBlocks)
	}
	front := b.copied[:b.front]
	binary.LittleEndian.PutUint32(front[8:], uint32(len(w.offsets)))
	base := front[b.rankBaseAt:]
	binary.LittleEndian.PutUint64(base, binary.LittleEndian.Uint64(base)+uint64(c.RankShift))
	sum := front[b.front-4:]
	binary.LittleEndian.PutUint32(sum, checksum(front[:b.front-4]))
	at := w.offset()
	if err := w.append(front); err != nil {
		return err
	}
	for i := range len(b.chunks) / chunkEntryBytes {
		e, ok := b.entry(i)
		if !ok {
			return b.corruptChunk(i, 0, "its place cannot be")
		}
		stored, ok := b.verifyChunk(&e)
		if !ok {
			return b.corruptChunk(i, e.from, "its checksum differs")
		}
		if err := w.append(stored); err != nil {
			return err
		}
	}
	size := w.offset() - at
	if uint64(size) != b.front+uint64(len(b.data)) {
		return b.sealed.corrupt(b.offset, "block: its chunks do not fill it")
	}
	w.offsets, w.sizes = append(w.offsets, uint64(at)), append(w.sizes, uint32(size))
	w.ranks.carried += uint64(b.rows)
	return nil
}
