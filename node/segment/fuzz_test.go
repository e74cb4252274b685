package segment

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

func FuzzParseRowsEntry(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 5 {
		f.Add(AppendRowsEntry(nil, &RowsHeader{Seq: 1}, randomInput(rng, 5).Rows, nil))
		f.Add(AppendRowsEntry(nil, &RowsHeader{Packed: true}, randomInput(rng, 5).Rows, nil))
		f.Add(AppendRowsEntry(nil, &RowsHeader{Writer: [16]byte{1}, Persistent: true},
			randomInput(rng, 5).Rows, nil))
	}
	decimals := &record.Batch{}
	for i := range 9 {
		decimals.Append(record.Key{MID: int64(i)}, decimalWords(float64(i)/100, 0))
	}
	f.Add(AppendRowsEntry(nil, &RowsHeader{Packed: true}, decimals, nil))
	stamped := &record.Batch{}
	stamped.AppendStamped(record.Key{MID: 1, AcqNs: 3}, []byte("a"))
	stamped.AppendStamped(record.Key{MID: 2, AcqNs: 9}, []byte("bc"))
	f.Add(AppendRowsEntry(nil, &RowsHeader{FirstAcqNs: 3, HasAcqs: true}, stamped, nil))
	shared := &RowsHeader{FirstAcqNs: 3, HasAcqs: true, EqualAcqs: true}
	f.Add(AppendRowsEntry(nil, shared, stamped, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		var h RowsHeader
		var b record.Batch
		if ParseRowsEntry(data, &h, &b) != nil {
			return
		}
		if err := b.CheckShape(); err != nil {
			t.Fatal(err)
		}
		again := AppendRowsEntry(nil, &h, &b, nil)
		if h.Packed { // may be packed in several ways; ours is one
			if err := ParseRowsEntry(again, &h, &b); err != nil {
				t.Fatal(err)
			}
			data, again = again, AppendRowsEntry(nil, &h, &b, nil)
		}
		if string(again) != string(data) {
			t.Fatalf("%x became %x", data, again)
		}
	})
}

// FuzzOpenSealed opens any bytes as a segment, with checksums put right so that what they guard is
// reached, and reads everything there is to read.
func FuzzOpenSealed(f *testing.F) {
	for _, in := range smallInputs(rand.New(rand.NewPCG(1, 1))) {
		f.Add(sealBytes(f, in), true)
		f.Add(sealBytes(f, in), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, mend bool) {
		if len(data) < sealedHeaderBytes+paddingBytes+tailBytes {
			return
		}
		if mend {
			mendChecksums(data)
		}
		readHostile(t, data)
	})
}

// Every byte of segments of all kinds is set to values that go wrong, with checksums put right:
// nothing panics and no batch is out of shape.
func TestSealedHostile(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	opened := 0
	for _, in := range smallInputs(randomSource(t)) {
		whole := sealBytes(t, in)
		for at := range whole {
			near := []byte{whole[at] + 1, whole[at] - 1}
			for _, v := range append(near, 0, 1, 2, 0x38, 0x40, 0x7f, 0x80, 0xff) {
				data := slices.Clone(whole)
				data[at] = v
				mendChecksums(data)
				opened += readHostile(t, data)
			}
		}
	}
	if opened == 0 {
		t.Fatal("no block was opened")
	}
}

// readHostile reads whatever can be read and returns how many blocks could.
func readHostile(t *testing.T, data []byte) (blocks int) {
	damaged, _, _ := parseDamaged("1.seg", data)
	if damaged != nil {
		_ = checkAll(damaged)
	}
	s, err := parseSealed("1.seg", data)
	if err != nil {
		return 0
	}
	clear(s.verified)
	var b Block
	var dst record.Batch
	for at := uint64(sealedHeaderBytes); blocks < s.Blocks() && at+4 <= s.end; blocks++ {
		size := binary.LittleEndian.Uint32(data[at:])
		if s.Block(blocks, at, size, &b) != nil {
			break
		}
		readBlock(t, &b, &dst)
		at += uint64(size)
	}
	return blocks
}

func readBlock(t *testing.T, b *Block, dst *record.Batch) {
	var sel []uint32
	for d := range record.Dim(record.NumDims) {
		set := record.RangeSet{{From: -5, To: 1 << 40}, {From: 1 << 50, To: d.Max()}}
		sel = b.FilterSpan(d, set, 0, b.Rows(), sel[:0])
	}
	b.SearchMIDs(0, b.Rows(), b.FindMIDs(3, 5, 7))
	b.Describe()
	sel = b.Flagged(b.FilterSpan(record.CID, nil, 0, b.Rows(), sel[:0]))
	checkFilter(t, b, nil, nil, nil)
	dst.Reset()
	for lo := 0; lo < b.Rows(); {
		hi := b.FitSpan(lo, b.Rows(), 1<<20)
		if b.GatherSpan(lo, hi, false, dst) != nil {
			return
		}
		lo = hi
	}
	if b.Gather(sel, false, dst) != nil {
		return
	}
	if dst.Len() != b.Rows()+len(sel) {
		t.Fatalf("%d rows of %d", dst.Len(), b.Rows())
	}
	if err := dst.CheckShape(); err != nil {
		t.Fatal(err)
	}
}

// mendChecksums makes the checksums right wherever something lies where one is expected.
func mendChecksums(data []byte) {
	put := func(at uint64, sum uint32) { binary.LittleEndian.PutUint32(data[at:], sum) }
	n := uint64(len(data))
	tail := n - tailBytes
	put(tail+32, uint32(n))
	table := binary.LittleEndian.Uint64(data[tail+24:])
	if table > tail {
		return
	}
	for at := table; at+sectionEntryBytes <= tail; at += sectionEntryBytes {
		from := binary.LittleEndian.Uint64(data[at+8:])
		size := binary.LittleEndian.Uint64(data[at+16:])
		if from <= n && size <= n-from {
			put(at+4, checksum(data[from:from+size]))
		}
	}
	for at := uint64(sealedHeaderBytes); at+blockHeaderBytes <= tail; {
		size := uint64(binary.LittleEndian.Uint32(data[at:]))
		front := uint64(binary.LittleEndian.Uint32(data[at+4:]))
		if size < blockHeaderBytes+4 || size > n-at || front < blockHeaderBytes+4 || front > size {
			break
		}
		mendChunks(data[at:at+size], front)
		put(at+front-4, checksum(data[at:at+front-4]))
		at += size
	}
	put(tail+52, checksum2(data[table:tail], data[tail:tail+52]))
}

// mendChunks does so in the chunk directory, which ends the front.
func mendChunks(block []byte, front uint64) {
	chunks := uint64(binary.LittleEndian.Uint16(block[18:]))
	kind := block[16]
	if kind != payloadFixedChunks && kind != payloadVariableChunks ||
		chunks*chunkEntryBytes+4 > front {
		return
	}
	directory := block[front-4-chunks*chunkEntryBytes : front-4]
	from := uint64(0)
	for ; len(directory) > 0; directory = directory[chunkEntryBytes:] {
		to := uint64(binary.LittleEndian.Uint32(directory[4:]))
		if to < from || front+to > uint64(len(block)) {
			return
		}
		binary.LittleEndian.PutUint32(directory[12:], checksum(block[front+from:front+to]))
		from = to
	}
}
