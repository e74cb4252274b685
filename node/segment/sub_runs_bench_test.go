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

// meterQuery asks one block of meters after the other.
type meterQuery struct {
	file    *File
	offsets []uint64
	sizes   []uint32
	block   Block
	spans   []Span
	sel     []uint32
	rows    record.Batch
}

// device finds n devices in all sub-runs of a block.
func (q *meterQuery) device(i, n int) {
	const subRows = maxBlockRows / maxSubRuns
	q.spans, q.sel = q.spans[:0], nil
	first := int64(i*37%300)*4 + 4e9
	m := q.block.FindMIDs(first, first+4*int64(n), 4e9+1600)
	for lo := 0; lo < maxBlockRows; lo += subRows {
		if from, to := q.block.SearchMIDs(lo, lo+subRows, m); from < to {
			q.spans = append(q.spans, Span{uint32(from), uint32(to)})
		}
	}
}

// slot chooses rows as far apart as those of a quarter of an hour.
func (q *meterQuery) slot(i int) {
	q.sel = q.sel[:0]
	lo := uint32(i%maxSubRuns) * maxBlockRows / maxSubRuns
	for at := lo; at < lo+maxBlockRows/maxSubRuns; at += 13 {
		q.sel = append(q.sel, at)
	}
}

// BenchmarkMeters asks blocks of meters what queries do, with a table of devices and without.
func BenchmarkMeters(b *testing.B) {
	const blocks = 16
	for _, form := range []string{"table", "plain"} {
		q := &meterQuery{file: mustSeal(b, meterBlocks(blocks, form == "plain"))}
		q.file.clock = NewVerifyClock(time.Now)
		var err error
		if q.offsets, q.sizes, err = q.file.Locate(); err != nil {
			b.Fatal(err)
		}
		run := func(name string, rows int, columns Columns, choose func(i int)) {
			b.Run(name+"/"+form, func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					k := i % blocks
					if err := q.file.Block(k, q.offsets[k], q.sizes[k], &q.block); err != nil {
						b.Fatal(err)
					}
					choose(i)
					q.rows.Reset()
					if err := q.block.GatherColumns(q.sel, q.spans, columns, &q.rows); err != nil {
						b.Fatal(err)
					}
				}
				perRow(b, rows)
			})
		}
		for d, name := range []string{"cid", "mid", "moid", "cap", "rank", "payload"} {
			columns := Columns(1) << d
			run("device-"+name, 20, columns, func(i int) { q.device(i, 1) })
			run("hundred-"+name, 2000, columns, func(i int) { q.device(i, 100) })
			run("slot-"+name, 79, columns, q.slot)
			run("all-"+name, maxBlockRows, columns, func(int) {
				q.sel, q.spans = nil, append(q.spans[:0], Span{0, maxBlockRows})
			})
		}
	}
}
