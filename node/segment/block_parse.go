package segment

import (
	"encoding/binary"
	"fmt"

	"github.com/pentad-db/pentad/sdk/record"
)

// parse reads the front of block i and returns what is wrong with it. data runs on behind the front
// by more than loadBytes. The checksum is not computed again where it was verified lately.
func (b *Block) parse(data []byte, i int, size uint32, verifiedLately bool) (reason string) {
	front := uint64(binary.LittleEndian.Uint32(data[4:]))
	if binary.LittleEndian.Uint32(data) != size || front > uint64(size) ||
		front < blockHeaderBytes+4 {
		return fmt.Sprintf("the directory gives it %d bytes; its header says %d, "+
			"with a front of %d",
			size, binary.LittleEndian.Uint32(data), front)
	}
	body := data[:front-4]
	if !verifiedLately && checksum(body) != binary.LittleEndian.Uint32(data[front-4:]) {
		return "its checksum differs"
	}
	rows := binary.LittleEndian.Uint16(body[12:])
	head := uint64(binary.LittleEndian.Uint16(body[14:]))
	if binary.LittleEndian.Uint32(body[8:]) != uint32(i) || rows == 0 || rows > maxBlockRows ||
		head < blockHeaderBytes || head > uint64(len(body)) || body[16] > payloadVariableChunks ||
		!areBlockFlags(body[17]) {
		return fmt.Sprintf("its header is that of block %d with %d rows, kind %d, flags %x",
			binary.LittleEndian.Uint32(body[8:]), rows, body[16], body[17])
	}
	b.rows, b.kind, b.open, b.front = int(rows), body[16], chunk{}, front
	b.stride = int(binary.LittleEndian.Uint32(body[20:]))
	p := frontParser{headers: body[blockHeaderBytes:head], data: data, at: head, end: front - 4,
		rows: b.rows, block: b}
	b.runs.reset()
	b.subRuns.count = 0
	if body[17]&blockHasRuns != 0 {
		p.runs(body[17])
	} else {
		for d := range record.Dim(record.NumDims) {
			p.key(d, body[17])
		}
		if body[17]&blockHasClock != 0 {
			p.clock()
		}
		if body[17]&blockHasSubRuns != 0 {
			p.subRuns()
		}
	}
	b.flags = p.flagSet(body[17])
	b.tombs = nil
	if body[17]&blockHasTombs != 0 {
		b.tombs = p.take(uint64(b.rows+7) / 8)
	}
	b.parsePayload(&p, binary.LittleEndian.Uint16(body[18:]))
	if p.bad || len(p.headers) != 0 || p.at != p.end {
		return "its columns do not fill it"
	}
	b.body = data
	return ""
}

// areBlockFlags reports whether the flags of a block may be together.
func areBlockFlags(flags uint8) bool {
	const (
		notOfRuns    = blockHasClock | blockHasSubRuns | blockHasLines
		formsOfMIDs  = blockHasDictionary | blockHasLines
		formsOfFlags = blockHasFlags | blockHasFlagList
	)
	return (flags&blockHasRuns == 0 || flags&notOfRuns == 0) &&
		flags&formsOfMIDs != formsOfMIDs && flags&formsOfFlags != formsOfFlags
}

// parsePayload parses what the front has of payloads: the columns of words, or the directory of
// chunks; count is how many of these there are.
func (b *Block) parsePayload(p *frontParser, count uint16) {
	b.wordColumns, b.chunks = b.wordColumns[:0], nil
	hasStride := b.kind == payloadFixedColumns || b.kind == payloadFixedChunks
	if hasStride != (b.stride != 0) || b.kind != payloadEmpty != (count != 0) ||
		b.kind == payloadFixedColumns && (count > maxPayloadWords || b.stride != 8*int(count)) {
		p.bad = true
		return
	}
	switch b.kind {
	case payloadFixedColumns:
		for range count {
			b.wordColumns = append(b.wordColumns, column{})
			p.wordColumn(&b.wordColumns[len(b.wordColumns)-1])
		}
	case payloadVariableChunks:
		p.column(&b.sizes)
		fallthrough
	case payloadFixedChunks:
		b.chunks = p.take(uint64(count) * chunkEntryBytes)
	}
}

// frontParser takes column headers from head and their columns from data[at:end].
type frontParser struct {
	headers, data []byte
	at, end       uint64
	rows          int
	block         *Block // what is parsed
	tables        int    // of frames that its columns took
	bad           bool
}

// take returns the next n bytes.
func (p *frontParser) take(n uint64) []byte {
	if p.bad || n > p.end-p.at {
		p.bad = true
		return nil
	}
	p.at += n
	return p.data[p.at-n : p.at : p.at]
}

func (p *frontParser) column(c *column) {
	if h := p.headers; len(h) >= 9 && h[0] <= maxPackedWidth && !p.bad { // as most are
		width := h[0]
		c.base, c.gcd, c.width = binary.LittleEndian.Uint64(h[1:]), 1, width
		c.maxPacked, p.headers = 1<<width-1, h[9:]
		c.body = p.data[p.at:]
		if size := (uint64(p.rows)*uint64(width) + 7) / 8; size <= p.end-p.at {
			p.at += size
		} else {
			p.bad = true
		}
		return
	}
	var ok bool
	if p.headers, ok = c.parseFOR(p.headers); !ok {
		p.bad = true
		return
	}
	at := p.at
	p.take(uint64(c.bytes(p.rows)))
	c.body = p.data[at:]
}

// key reads a key column.
func (p *frontParser) key(d record.Dim, flags uint8) {
	c := &p.block.keys[d]
	c.kind, c.table, c.lines = columnFOR, nil, nil
	if d == record.Acq {
		p.noteRankBase()
	}
	switch {
	case d == record.MID && flags&blockHasDictionary != 0:
		p.dictionary(c)
	case d == record.MID && flags&blockHasLines != 0:
		p.lined(c)
	default:
		p.column(c)
	}
}

// framable reads a column that may have frames.
func (p *frontParser) framable(c *column) {
	if p.bad || len(p.headers) == 0 || p.headers[0] != framedMark {
		p.column(c)
		return
	}
	if p.headers, p.bad = p.headers[1:], true; len(p.headers) > 0 {
		var ok bool
		p.headers, ok = c.parseFOR(p.headers)
		p.bad = !ok
	}
	if !p.bad {
		p.parseFrames(c)
	}
}

// dictionary reads a key column whose values are numbers in a dictionary.
func (p *frontParser) dictionary(c *column) {
	if p.bad || len(p.headers) < 4 {
		p.bad = true
		return
	}
	c.kind, c.dict = columnDict, p.take(8*uint64(binary.LittleEndian.Uint32(p.headers)))
	p.headers = p.headers[4:]
	p.column(c)
	p.bad = p.bad || len(c.dict) == 0 || c.base != 0 || c.gcd != 1
}

// wordColumn reads a column of payload words: its kind, what the kind needs, and the column.
func (p *frontParser) wordColumn(c *column) {
	if p.bad || len(p.headers) < 5 { // no header is shorter
		p.bad = true
		return
	}
	c.kind = p.headers[0]
	switch c.kind {
	case columnFOR:
		p.headers = p.headers[1:]
	case columnDec:
		c.exponent, p.headers = p.headers[1], p.headers[2:]
		p.bad = p.bad || int(c.exponent) >= len(powersOf10)
	case columnDict:
		c.dict = p.take(8 * uint64(binary.LittleEndian.Uint32(p.headers[1:])))
		p.headers = p.headers[5:]
		p.bad = p.bad || len(c.dict) == 0
	default:
		p.bad = true
	}
	p.framable(c)
	if c.kind == columnDict && (c.base != 0 || c.gcd != 1) {
		p.bad = true
	}
}

// checkStructure looks at what parse does not, because it takes a pass over the block: that
// dictionary entries exist and that chunks hold the payloads. A checksum says that the bytes are
// those that were written, and not that they make sense.
func (b *Block) checkStructure() (reason string) {
	if reason := b.checkDictionary(); reason != "" {
		return reason
	}
	if reason := b.checkRuns(); reason != "" {
		return reason
	}
	if reason := b.checkSubRuns(); reason != "" {
		return reason
	}
	if reason := b.flags.check(b.rows); reason != "" {
		return reason
	}
	for w := range b.wordColumns {
		c := &b.wordColumns[w]
		if !c.checkFrames() {
			return fmt.Sprintf("frames of word %d cannot be", w)
		}
		for i := 0; c.kind == columnDict && i < b.rows; i++ {
			if c.number(i) >= uint64(len(c.dict)/8) {
				return fmt.Sprintf("word %d of payload %d names no entry of the dictionary", w, i)
			}
		}
	}
	if b.kind != payloadFixedChunks && b.kind != payloadVariableChunks {
		if len(b.data) > 0 {
			return "it has bytes of payloads, and no chunk"
		}
		return ""
	}
	var last chunkEntry
	for i := range len(b.chunks) / chunkEntryBytes {
		e, ok := b.entry(i)
		if !ok {
			return fmt.Sprintf("chunk %d of rows %d to %d at %d to %d cannot be",
				i, e.first, e.end, e.from, e.to)
		}
		if b.payloadBytes(e.first, e.end) != uint64(e.raw) {
			return fmt.Sprintf("chunk %d does not hold its payloads", i)
		}
		last = e
	}
	if last.end != b.rows || uint64(last.to) != uint64(len(b.data)) {
		return "its chunks do not fill it"
	}
	return ""
}

// checkDictionary checks the dictionary of devices, if there is one.
func (b *Block) checkDictionary() (reason string) {
	c := &b.keys[record.MID]
	if c.kind != columnDict {
		return ""
	}
	for i := 1; i < len(c.dict)/8; i++ {
		if c.entry(uint64(i)) <= c.entry(uint64(i-1)) {
			return fmt.Sprintf("device %d of its dictionary is not above the one before", i)
		}
	}
	for i := range b.keyRows() {
		if c.packed(i) >= uint64(len(c.dict)/8) {
			return fmt.Sprintf("device %d is no entry of the dictionary", i)
		}
	}
	return ""
}

// plausible reports whether stored bytes can become raw bytes; LZ4 makes at most 255 of one.
func plausible(method uint8, raw, stored, rows uint64) bool {
	switch method {
	case chunkRaw:
		return raw == stored
	case chunkLZ4:
		return raw <= 255*stored
	case chunkShuffled:
		return raw <= 255*stored && raw%rows == 0
	default:
		return false
	}
}
