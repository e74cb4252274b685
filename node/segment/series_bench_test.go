package segment

import (
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
		offsets, sizes, err := s.Locate()
		if err != nil {
			b.Fatal(err)
		}
		var q seriesQuery
		for _, ask := range seriesQueries {
			b.Run(clock.name+"/"+ask.name, func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					at := i % len(offsets)
					if err := s.Block(at, offsets[at], sizes[at], &q.b); err != nil {
						b.Fatal(err)
					}
					q.out.Reset()
					if err := ask.do(&q); err != nil {
						b.Fatal(err)
					}
					i++
				}
			})
		}
	}
}

// seriesQuery is what one looks at, and memory for what it finds.
type seriesQuery struct {
	b     Block
	sel   []uint32
	spans []Span
	out   record.Batch
}

const timesAndValues = 1<<record.MID | 1<<record.Cap | Payloads

var seriesQueries = []struct {
	name string
	do   func(q *seriesQuery) error
}{
	{"open", func(*seriesQuery) error { return nil }},
	{"all", func(q *seriesQuery) error { return q.gather(0, q.b.Rows(), AllColumns) }},
	{"values", func(q *seriesQuery) error { return q.gather(0, q.b.Rows(), timesAndValues) }},
	{"some values", func(q *seriesQuery) error { return q.gather(1024, 2048, timesAndValues) }},
	{"half of the caps", func(q *seriesQuery) error {
		q.halfOfCaps(0, q.b.Rows())
		return nil
	}},
	{"caps and rows", func(q *seriesQuery) error {
		q.halfOfCaps(1024, 2048)
		return q.b.GatherColumns(q.sel, nil, timesAndValues, &q.out)
	}},
	{"half of the ranks", func(q *seriesQuery) error {
		ranks := record.RangeSet{{From: 0, To: 32*8190 + 4095}}
		q.sel = q.b.FilterSpan(record.Acq, ranks, 0, q.b.Rows(), q.sel[:0])
		return nil
	}},
	{"last of each device", func(q *seriesQuery) error {
		q.spans = q.spans[:0]
		lo := q.b.Rows() * (subRunsOfSeries - 1) / subRunsOfSeries &^ 7
		for mid := range int64(18) {
			_, end := q.b.SearchMIDs(lo, q.b.Rows(), q.b.FindMIDs(mid, mid+1, 18))
			q.spans = append(q.spans, Span{uint32(end - 2), uint32(end)})
		}
		return q.b.GatherColumns(nil, q.spans, 1<<record.Cap|1<<record.Acq, &q.out)
	}},
	{"device", func(q *seriesQuery) error {
		m := q.b.FindMIDs(9, 10, 18)
		q.spans = q.spans[:0]
		for i := range subRunsOfSeries {
			lo, hi := q.b.Rows()*i/subRunsOfSeries&^7, q.b.Rows()*(i+1)/subRunsOfSeries&^7
			if from, to := q.b.SearchMIDs(lo, hi, m); from < to {
				q.spans = append(q.spans, Span{uint32(from), uint32(to)})
			}
		}
		return q.b.GatherColumns(nil, q.spans, timesAndValues, &q.out)
	}},
}

func (q *seriesQuery) gather(lo, hi int, columns Columns) error {
	q.spans = append(q.spans[:0], Span{uint32(lo), uint32(hi)})
	return q.b.GatherColumns(nil, q.spans, columns, &q.out)
}

func (q *seriesQuery) halfOfCaps(lo, hi int) {
	caps := record.RangeSet{{From: 1.7e18, To: 1.7e18 + 32*455*10e9 + 2275e9}}
	q.sel = q.b.FilterSpan(record.Cap, caps, lo, hi, q.sel[:0])
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
