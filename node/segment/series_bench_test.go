package segment

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// subRunsOfSeries is how many sub-runs the blocks of seriesBlocks have.
const subRunsOfSeries = 2

// seriesBlocks are blocks of 455 readings of 18 series each, whose clock is regular or jittered, in
// as many sub-runs as index makes of them.
func seriesBlocks(blocks int, jitter int64) *SealedInput {
	rng := rand.New(rand.NewPCG(1, 1))
	in := &SealedInput{Rows: &record.Batch{}}
	const series, ticks, subs = 18, 455, subRunsOfSeries
	values := make([]int64, series)
	for tick := range blocks * ticks {
		for mid := range values {
			values[mid] = min(100, max(0, values[mid]+rng.Int64N(5)-2))
			k := record.Key{CID: 1, MID: int64(mid), MOID: 3,
				CapNs: 1.7e18 + int64(tick)*10e9 + rng.Int64N(jitter+1)*1e6}
			in.Rows.Append(k, appendWords(nil, math.Float64bits(float64(values[mid]))))
			in.Order = append(in.Order, uint32(tick*series+mid))
		}
	}
	for b := range blocks {
		const rows = series * ticks
		all := in.Order[b*rows : (b+1)*rows]
		for i := range subs {
			part := all[rows*i/subs&^7 : rows*(i+1)/subs&^7]
			if i == subs-1 {
				part = all[rows*i/subs&^7:]
			}
			slices.SortFunc(part, func(a, b uint32) int {
				return in.Rows.Key(int(a)).Compare(in.Rows.Key(int(b)))
			})
		}
		in.BlockEnds = append(in.BlockEnds, uint32(b+1)*rows)
	}
	return in
}

// BenchmarkSeries opens blocks of series, and does with each what a query does.
func BenchmarkSeries(b *testing.B) {
	for _, clock := range []struct {
		name   string
		jitter int64
	}{{"regular", 0}, {"jittered", 5000}} {
		in := seriesBlocks(64, clock.jitter)
		s := mustSeal(b, in)
		s.clock = NewVerifyClock(time.Now)
		var offsets []uint64
		for at, i := uint64(sealedHeaderBytes), 0; i < s.Blocks(); i++ {
			offsets = append(offsets, at)
			at += uint64(binary.LittleEndian.Uint32(s.data[at:]))
		}
		b.Logf("%s: %.2f bytes a row", clock.name, float64(s.Size())/float64(in.Rows.Len()))
		var blk Block
		var dst record.Batch
		sel := make([]uint32, 0, maxBlockRows)
		run := func(name string, do func()) {
			b.Run(clock.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					at := offsets[i%len(offsets)]
					size := binary.LittleEndian.Uint32(s.data[at:])
					if err := s.Block(i%len(offsets), at, size, &blk); err != nil {
						b.Fatal(err)
					}
					dst.Reset()
					do()
					i++
				}
			})
		}
		gather := func(lo, hi int, columns Columns) {
			if err := blk.GatherColumns(nil, []Span{{uint32(lo), uint32(hi)}}, columns, &dst); err != nil {
				b.Fatal(err)
			}
		}
		few := 1<<record.MID | 1<<record.Cap | Payloads
		run("open", func() {})
		run("all", func() { gather(0, blk.Rows(), AllColumns) })
		run("values", func() { gather(0, blk.Rows(), few) })
		run("values of a sub-run", func() { gather(1024, 2048, few) })
		run("half of the caps", func() {
			caps := record.RangeSet{{From: 1.7e18, To: 1.7e18 + 32*455*10e9 + 2275e9}}
			sel = blk.FilterSpan(record.Cap, caps, 0, blk.Rows(), sel[:0])
		})
		run("caps and rows", func() {
			caps := record.RangeSet{{From: 1.7e18, To: 1.7e18 + 32*455*10e9 + 2275e9}}
			sel = blk.FilterSpan(record.Cap, caps, 1024, 2048, sel[:0])
			if err := blk.GatherColumns(sel, nil, few, &dst); err != nil {
				b.Fatal(err)
			}
		})
		run("half of the ranks", func() {
			ranks := record.RangeSet{{From: 0, To: 32*8190 + 4095}}
			sel = blk.FilterSpan(record.Acq, ranks, 0, blk.Rows(), sel[:0])
		})
		run("last of each device", func() {
			spans := make([]Span, 0, 18)
			lo := blk.Rows() * (subRunsOfSeries - 1) / subRunsOfSeries &^ 7
			for mid := range int64(18) {
				_, end := blk.SearchMIDs(lo, blk.Rows(), blk.FindMIDs(mid, mid+1, 18))
				spans = append(spans, Span{uint32(end - 2), uint32(end)})
			}
			if err := blk.GatherColumns(nil, spans, 1<<record.Cap|1<<record.Acq, &dst); err != nil {
				b.Fatal(err)
			}
		})
		run("device", func() {
			m := blk.FindMIDs(9, 10, 18)
			spans := make([]Span, 0, 8)
			for i := range subRunsOfSeries {
				lo, hi := blk.Rows()*i/subRunsOfSeries&^7, blk.Rows()*(i+1)/subRunsOfSeries&^7
				if from, to := blk.SearchMIDs(lo, hi, m); from < to {
					spans = append(spans, Span{uint32(from), uint32(to)})
				}
			}
			if err := blk.GatherColumns(nil, spans, few, &dst); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkEncodeSeries is BenchmarkEncode for blocks of series.
func BenchmarkEncodeSeries(b *testing.B) {
	for name, jitter := range map[string]int64{"regular": 0, "jittered": 5000} {
		in := seriesBlocks(8, jitter)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w := &sealedWriter{file: nullFile{}}
				if _, err := w.write(in.runs()); err != nil {
					b.Fatal(err)
				}
			}
			perRow(b, in.Rows.Len())
		})
	}
}
