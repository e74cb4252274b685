package segment

import (
	"github.com/pentad-db/pentad/sdk/record"
)

// BlockDescription says how a block is encoded.
type BlockDescription struct {
	Rows       int
	FrontBytes int // of the block, with headers and checksum
	ChunkBytes int // of the block, behind its front
	Flagged    int // rows that may supersede an older one
	Payload    string
	Stride     int // bytes of a payload, where all have one size
	Columns    []ColumnDescription
	Chunks     map[string]int // chunks by method
}

// ColumnDescription says how a column is encoded. Zones of keys are exact; those of payload words
// are not known without reading them.
type ColumnDescription struct {
	Name      string
	Kind      string // for, dict, dec, clock, lines
	Bits      int    // of a packed value
	Bytes     int    // of all packed values, and of the dictionary
	Exponent  int    // of dec: decimals
	Entries   int    // of dict
	Runs      int    // whose entries the column has; 0 for those of rows
	Low, High int64  // zone, of key columns
}

// Describe says how the open block is encoded.
func (b *Block) Describe() BlockDescription {
	d := BlockDescription{Rows: b.rows, ChunkBytes: len(b.data), Stride: b.stride,
		FrontBytes: int(b.front)}
	d.Payload = [...]string{"empty", "words", "fixed", "varied"}[b.kind]
	d.Flagged = b.flags.count()
	for dim := range record.Dim(record.NumDims) {
		d.Columns = append(d.Columns, b.describeKey(dim))
	}
	d.Columns[record.Acq].Name = "rank"
	for w := range b.wordColumns {
		d.Columns = append(d.Columns, b.describeColumn(&b.wordColumns[w], "payload"))
	}
	if b.kind == payloadVariableChunks {
		d.Columns = append(d.Columns, b.describeColumn(&b.sizes, "size"))
	}
	for i := range len(b.chunks) / chunkEntryBytes {
		if d.Chunks == nil {
			d.Chunks = map[string]int{}
		}
		method := min(b.chunks[i*chunkEntryBytes+2], chunkShuffled)
		d.Chunks[[...]string{"raw", "lz4", "shuffled lz4"}[method]]++
	}
	return d
}

func (b *Block) describeColumn(c *column, name string) ColumnDescription {
	kinds := [...]string{"for", "dict", "dec", "clock", "lines"}
	return ColumnDescription{Name: name, Kind: kinds[c.kind], Bits: int(c.width),
		Bytes:    c.bytesOf(b.rows) + len(c.dict) + len(c.lines),
		Exponent: int(c.exponent), Entries: len(c.dict) / 8}
}

// describeKey describes a key column, or what runs have of it.
func (b *Block) describeKey(d record.Dim) ColumnDescription {
	c := &b.keys[d]
	of := b.describeColumn(c, d.String())
	if b.runs.count > 0 {
		of.Runs = b.runs.count
		if d < record.Cap {
			of.Bytes = c.bytes(of.Runs) + len(c.dict)
		} else {
			l := &b.runs.lines[d-record.Cap]
			of.Bytes += l.base.bytes(of.Runs) + l.slope.bytes(of.Runs)
		}
	}
	of.Low = b.key(d, 0)
	of.High = of.Low
	for i := range b.rows {
		v := b.key(d, i)
		of.Low, of.High = min(of.Low, v), max(of.High, v)
	}
	return of
}
