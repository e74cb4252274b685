package index

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestHeadCells holds the series, the chunks and the rows of cells against the rows inserted.
func TestHeadCells(t *testing.T) {
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		h := NewHead(NewWatermarks())
		insert(rng, h, rows)
		for range 10 {
			x := box(t, rng, rows)
			below := rows.AcqNs[rng.IntN(rows.Len())] + rng.Int64N(2)
			newest := newestOf(rows)
			var cell HeadCell
			var before *Series
			var got []uint64
			for _, id := range h.Cells(x) {
				h.Cell(id, x, &cell)
				for _, s := range cell.Series {
					if before != nil && before.Compare(s.Series) >= 0 || !s.In(x) ||
						s.MaxCapNs != newest[s.Series] {
						t.Fatalf("%v after %v, newest is %d", s, before, newest[s.Series])
					}
					before = &s.Series
				}
				maxCap := int64(math.MinInt64)
				for i, c := range h.Chunks(id, 0, cell.Chunks, nil) {
					if c.BeforeNs != maxCap {
						t.Fatalf("chunks before %d reach %d, it says %d", i, maxCap, c.BeforeNs)
					}
					maxCap = max(maxCap, c.Caps.Max)
					for _, r := range h.ChunkRows(id, i, x, below, nil) {
						if r.Key.CapNs < c.Caps.Min || r.Key.CapNs > c.Caps.Max {
							t.Fatalf("%v lies outside its chunk", r.Key)
						}
						got = append(got, uint64(id)<<32|uint64(r.Row))
					}
				}
			}
			checkGathered(t, h, rows, x, below, got)
		}
	})
}

// checkGathered wants the rows at some places of a head to be those of a box.
func checkGathered(
	t *testing.T, h *Head, rows *record.Batch, x *record.Box, below int64, rowIDs []uint64,
) {
	t.Helper()
	var got record.Batch
	for from := 0; from < len(rowIDs); {
		n := h.Gather(rowIDs[from:], false, len(got.Data)+5, &got)
		if n == 0 {
			t.Fatal("nothing is gathered")
		}
		from += n
	}
	want := 0
	for i := range rows.Len() {
		if !x.Contains(rows.Key(i)) || rows.AcqNs[i] >= below {
			continue
		}
		want++
		at := slices.Index(got.AcqNs, rows.AcqNs[i])
		if at < 0 || got.Key(at) != rows.Key(i) ||
			string(got.Payload(at)) != string(rows.Payload(i)) {
			t.Fatalf("row %d, %v, is missing", i, rows.Key(i))
		}
	}
	if got.Len() != want {
		t.Fatalf("%d rows, want %d", got.Len(), want)
	}
}

// TestHeadLateRowsApart: rows that come late do not widen the chunks of the others.
func TestHeadLateRowsApart(t *testing.T) {
	const rows, every = 1000, 20
	h, b := NewHead(NewWatermarks()), new(record.Batch)
	for i := range int64(rows) {
		k := record.Key{MID: 5, CapNs: 1_000_000 + i, AcqNs: i}
		if i%every == every-1 {
			k.CapNs = i
		}
		b.AppendStamped(k, nil)
	}
	h.Insert(b)
	wide := 0
	var cell HeadCell
	for _, id := range h.Cells(&record.Box{}) {
		h.Cell(id, &record.Box{}, &cell)
		for _, c := range h.Chunks(id, 0, cell.Chunks, nil) {
			if c.Caps.Min < 1_000_000 {
				wide++
				if c.Caps.Max >= 1_000_000 {
					t.Errorf("chunk of caps %d to %d", c.Caps.Min, c.Caps.Max)
				}
			}
		}
	}
	if wide != 1 {
		t.Errorf("%d chunks hold the %d late rows", wide, rows/every)
	}
}
