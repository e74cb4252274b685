package segment

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// meterBlocks are blocks of meters that are read in turn: 400 devices, each of which sends every 75
// minutes, up to 5 s late, in eight sub-runs. Plain ones are of two quantities, and so have no
// table of devices.
func meterBlocks(blocks int, plain bool) *SealedInput {
	rng := rand.New(rand.NewPCG(1, 1))
	const devices = 400
	in := &SealedInput{Rows: &record.Batch{}}
	type row struct {
		key   record.Key
		value float64
	}
	for range blocks {
		var rows []row
		for slot := 0; len(rows) < maxBlockRows; slot++ {
			for d := range int64(devices) {
				if int(d)%5 != slot%5 || len(rows) == maxBlockRows || rng.IntN(33) == 0 {
					continue
				}
				k := record.Key{CID: 1, MID: 4e9 + 4*d + d%3, MOID: 2,
					CapNs: int64(slot)*int64(15*time.Minute) + rng.Int64N(5000)*1e6}
				rows = append(rows, row{k, math.Round(rng.Float64()*4000) / 1000})
			}
		}
		if plain {
			rows[len(rows)-1].key.MOID = 3
		}
		first := uint32(in.Rows.Len())
		for _, r := range rows {
			in.Rows.Append(r.key, appendWords(nil, math.Float64bits(r.value), 0))
			in.Order = append(in.Order, uint32(in.Rows.Len()-1))
		}
		order := in.Order[first:]
		for from := 0; from < len(order); from += maxBlockRows / maxSubRuns {
			slices.SortFunc(order[from:from+maxBlockRows/maxSubRuns], func(x, y uint32) int {
				a, b := in.Rows.Key(int(x)), in.Rows.Key(int(y))
				return cmp.Or(compareReadings(a, b), cmp.Compare(x, y))
			})
		}
		in.BlockEnds = append(in.BlockEnds, uint32(in.Rows.Len()))
	}
	return in
}

// BenchmarkMeters asks blocks of meters what queries do, of a table of devices and without one.
func BenchmarkMeters(b *testing.B) {
	const blocks, subRows = 16, maxBlockRows / maxSubRuns
	for _, form := range []string{"table", "plain"} {
		s := mustSeal(b, meterBlocks(blocks, form == "plain"))
		offsets, sizes, err := s.Locate()
		if err != nil {
			b.Fatal(err)
		}
		s.clock = NewVerifyClock(time.Now)
		var blk Block
		var dst record.Batch
		var spans []Span
		var sel []uint32
		run := func(name string, rows int, ask func(i int)) {
			b.Run(name+"/"+form, func(b *testing.B) {
				i := 0
				for b.Loop() {
					k := i % blocks
					if err := s.Block(k, offsets[k], sizes[k], &blk); err != nil {
						b.Fatal(err)
					}
					ask(i)
					i++
				}
				perRow(b, rows)
			})
		}
		gather := func(columns Columns) {
			dst.Reset()
			var err error
			if spans != nil {
				err = blk.GatherColumns(nil, spans, columns, &dst)
			} else {
				err = blk.GatherColumns(sel, nil, columns, &dst)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		devices := func(i, n int) {
			spans = spans[:0]
			first := int64(i*37%300)*4 + 4e9
			m := blk.FindMIDs(first, first+4*int64(n), 4e9+1600)
			for lo := 0; lo < maxBlockRows; lo += subRows {
				if from, to := blk.SearchMIDs(lo, lo+subRows, m); from < to {
					spans = append(spans, Span{uint32(from), uint32(to)})
				}
			}
		}
		slot := func(i int) {
			at := i % 8 * subRows
			from := int64(i%96) * int64(15*time.Minute)
			for at = 0; at < maxBlockRows; at += subRows {
				if blk.key(record.Cap, at) <= from && (at+subRows == maxBlockRows ||
					blk.key(record.Cap, at+subRows) > from) {
					break
				}
			}
			at = min(at, maxBlockRows-subRows)
			sel = blk.FilterSpan(record.Cap,
				record.RangeSet{{From: from, To: from + int64(time.Minute)}}, at, at+subRows, sel[:0])
		}
		run("open", 1, func(int) {})
		run("search", 8, func(i int) { devices(i, 1) })
		for d, name := range []string{"cid", "mid", "moid", "cap", "rank", "payload"} {
			columns := Columns(1) << d
			run("device-"+name, 20, func(i int) { devices(i, 1); gather(columns) })
		}
		for d, name := range []string{"cid", "mid", "moid", "cap", "rank", "payload"} {
			columns := Columns(1) << d
			run("hundred-"+name, 2000, func(i int) {
				devices(i, 100)
				sel = sel[:0]
				for _, s := range spans {
					sel = appendSpan(sel, int(s.Lo), int(s.Hi))
				}
				spans = nil
				gather(columns)
			})
		}
		slots := make([][]Span, 8*blocks)
		for i := range slots {
			if err := s.Block(i%blocks, offsets[i%blocks], sizes[i%blocks], &blk); err != nil {
				b.Fatal(err)
			}
			slot(i)
			for _, at := range sel {
				slots[i] = append(slots[i], Span{at, at + 1})
			}
		}
		for d, name := range []string{"cid", "mid", "moid", "cap", "rank", "payload"} {
			columns := Columns(1) << d
			run("slot-"+name, 80, func(i int) {
				sel, spans = sel[:0], nil
				for _, s := range slots[i%len(slots)] {
					sel = append(sel, s.Lo)
				}
				gather(columns)
			})
			run("slotspans-"+name, 80, func(i int) {
				spans = slots[i%len(slots)]
				gather(columns)
			})
		}
		for d, name := range []string{"cid", "mid", "moid", "cap", "rank", "payload"} {
			columns := Columns(1) << d
			run("all-"+name, maxBlockRows, func(i int) {
				spans = append(spans[:0], Span{0, maxBlockRows})
				gather(columns)
			})
		}
	}
}
