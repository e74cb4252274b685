package segment

// maxWhole bounds the payloads that are open at once where all of a block are wanted.
const maxWhole = 256 << 10

// openWhole opens all chunks as one, so that who looks at payloads and then gathers some of them
// does not decompress each chunk twice. Where they are too large it leaves one of them open.
//
// Errors: damage of a payload chunk, a *durable.CorruptError.
func (b *Block) openWhole() error {
	b.whole, b.wholeEnds = b.whole[:0], b.wholeEnds[:0]
	end := 0
	for i := range len(b.chunks) / chunkEntryBytes {
		if e, ok := b.entry(i); ok && len(b.whole)+int(e.raw) > maxWhole {
			return nil
		}
		if err := b.openChunk(i); err != nil {
			return err
		}
		if b.kind == payloadVariableChunks {
			for _, to := range b.ends {
				b.wholeEnds = append(b.wholeEnds, uint32(len(b.whole))+to)
			}
		}
		b.whole, end = append(b.whole, b.open.raw...), b.open.end
	}
	if end == b.rows {
		b.open = chunk{end: end, raw: b.whole}
		b.ends, b.wholeEnds = b.wholeEnds, b.ends
	}
	return nil
}
