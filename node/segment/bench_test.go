package segment

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/sdk/record"
)

// sensors are rows as a fleet of devices sends them: 16 bytes of payload, a decimal and a status.
// The order is that of blocks of 2048 rows, each sorted by (mid, cap).
func sensors(n int) *SealedInput {
	rng := rand.New(rand.NewPCG(1, 1))
	in := &SealedInput{Rows: &record.Batch{}, Flags: make([]uint64, (n+63)/64)}
	for i := range n {
		k := record.Key{CID: 1, MID: 1e6 + rng.Int64N(50_000), MOID: 3,
			CapNs: 1.7e18 + int64(i)*1e6 + rng.Int64N(5000)*1e6}
		value := fromDecimal(2000+rng.Int64N(500), 10)
		in.Rows.Append(k, appendWords(nil, value, uint64(rng.IntN(50)/49)))
		in.Order = append(in.Order, uint32(i))
		in.Flags[i/64] |= uint64(rng.IntN(33)/32) << (i % 64)
	}
	for at := 0; at < n; {
		end := min(n, at+2048)
		slices.SortFunc(in.Order[at:end], func(a, b uint32) int {
			return in.Rows.Key(int(a)).Compare(in.Rows.Key(int(b)))
		})
		in.BlockEnds = append(in.BlockEnds, uint32(end))
		at = end
	}
	return in
}

func perRow(b *testing.B, rows int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
}

func BenchmarkWriteSealed(b *testing.B) {
	in := sensors(1 << 18)
	path := filepath.Join(b.TempDir(), "1.seg")
	b.ReportAllocs()
	var info SealedInfo
	for b.Loop() {
		var err error
		if info, err = WriteSealed(path, in); err != nil {
			b.Fatal(err)
		}
	}
	perRow(b, 1<<18)
	b.ReportMetric(float64(info.Bytes)/(1<<18), "B/row")
}

// BenchmarkEncode is WriteSealed without a file.
func BenchmarkEncode(b *testing.B) {
	in := sensors(1 << 16)
	b.ReportAllocs()
	for b.Loop() {
		w := &sealedWriter{file: nullFile{}}
		if _, err := w.write(in.runs()); err != nil {
			b.Fatal(err)
		}
	}
	perRow(b, 1<<16)
}

type nullFile struct{ durable.File }

func (nullFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (nullFile) Sync() error                            { return nil }
func (nullFile) Close() error                           { return nil }

func openSensors(b *testing.B) *Block {
	s := mustSeal(b, sensors(2048))
	s.clock = NewVerifyClock(time.Now)
	return firstBlock(b, s)
}

func BenchmarkOpenBlock(b *testing.B) {
	blk := openSensors(b)
	s, size := blk.sealed, binary.LittleEndian.Uint32(blk.sealed.data[16:])
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Block(0, sealedHeaderBytes, size, blk); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFilter(b *testing.B) {
	blk := openSensors(b)
	set := record.RangeSet{{From: 1.7e18 + 1e9, To: 1.7e18 + 5e9}}
	two := append(record.RangeSet{{From: 1.7e18, To: 1.7e18 + 5e8}}, set...)
	sel := make([]uint32, 0, 2048)
	b.Run("span", func(b *testing.B) {
		for b.Loop() {
			sel = blk.FilterSpan(record.Cap, set, 0, 2048, sel[:0])
		}
		perRow(b, 2048)
	})
	b.Run("span2", func(b *testing.B) {
		for b.Loop() {
			sel = blk.FilterSpan(record.Cap, two, 0, 2048, sel[:0])
		}
		perRow(b, 2048)
	})
	b.Run("selection", func(b *testing.B) {
		all := blk.FilterSpan(record.CID, nil, 0, 2048, nil)
		for b.Loop() {
			blk.Filter(record.Cap, set, append(sel[:0], all...))
		}
		perRow(b, 2048)
	})
	b.Run("search", func(b *testing.B) {
		for b.Loop() {
			blk.SearchMIDs(0, 2048, blk.FindMIDs(1e6+20_000, 1e6+20_001, 1e6+50_000))
		}
	})
}

func BenchmarkGather(b *testing.B) {
	blk := openSensors(b)
	var sel []uint32
	for i := 0; i < 2048; i += 2 {
		sel = append(sel, uint32(i))
	}
	var dst record.Batch
	for _, keysOnly := range []bool{false, true} {
		b.Run(fmt.Sprintf("span/keys=%v", keysOnly), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				dst.Reset()
				if err := blk.GatherSpan(0, 2048, keysOnly, &dst); err != nil {
					b.Fatal(err)
				}
			}
			perRow(b, 2048)
		})
		b.Run(fmt.Sprintf("selection/keys=%v", keysOnly), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				dst.Reset()
				if err := blk.Gather(sel, keysOnly, &dst); err != nil {
					b.Fatal(err)
				}
			}
			perRow(b, len(sel))
		})
	}
}

func BenchmarkGatherChunks(b *testing.B) {
	in := &SealedInput{Rows: &record.Batch{}, BlockEnds: []uint32{2048}}
	for i := range 2048 {
		text := fmt.Appendf(nil, `{"v":%d.%d,"s":"ok"}`, 200+i%50, i%10)
		in.Rows.Append(record.Key{MID: int64(i)}, text)
		in.Order = append(in.Order, uint32(i))
	}
	s := mustSeal(b, in)
	blk := firstBlock(b, s)
	var dst record.Batch
	b.ReportAllocs()
	for b.Loop() {
		dst.Reset()
		if err := blk.GatherSpan(0, 2048, false, &dst); err != nil {
			b.Fatal(err)
		}
	}
	perRow(b, 2048)
}

func BenchmarkRowsEntry(b *testing.B) {
	all := sensors(10_000).Rows
	some := make([]uint32, 0, 600) // what one of 16 groups gets of a batch
	for i := range cap(some) {
		some = append(some, uint32(i*16))
	}
	for _, rows := range [][]uint32{nil, some} {
		for _, packed := range []bool{false, true} {
			var buf []byte
			var dst record.Batch
			h := RowsHeader{Packed: packed}
			n := all.Len()
			if rows != nil {
				n = len(rows)
			}
			name := fmt.Sprintf("rows=%d/packed=%v", n, packed)
			b.Run("append/"+name, func(b *testing.B) {
				for b.Loop() {
					buf = AppendRowsEntry(buf[:0], &h, all, rows)
				}
				perRow(b, n)
				b.ReportMetric(float64(len(buf))/float64(n), "B/row")
			})
			b.Run("parse/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := ParseRowsEntry(buf, &h, &dst); err != nil {
						b.Fatal(err)
					}
				}
				perRow(b, n)
			})
		}
	}
}

// BenchmarkDecode writes the words of a block's payloads.
func BenchmarkDecode(b *testing.B) {
	rng := randomSource(b)
	for _, f := range []struct {
		name  string
		kind  uint8
		width int
	}{{"numbers", columnFOR, 20}, {"decimals", columnDec, 20}, {"entries", columnDict, 8}} {
		c := randomColumn(rng, f.width, f.kind, maxBlockRows)
		c.base, c.gcd = 0, 1
		out := make([]byte, 8*maxBlockRows)
		run := func(name string, write func(w *wordWriter)) {
			b.Run(f.name+"/"+name, func(b *testing.B) {
				for b.Loop() {
					w := newWordWriter(out, maxBlockRows, 8)
					write(&w)
				}
				b.ReportMetric(float64(b.Elapsed())/float64(b.N)/maxBlockRows, "ns/row")
			})
		}
		run("together", func(w *wordWriter) {
			v := c.vectors()
			c.writeRun(&v, 0, maxBlockRows, w)
		})
		run("one by one", func(w *wordWriter) { c.writeRows([]Span{{0, maxBlockRows}}, w) })
	}
}
