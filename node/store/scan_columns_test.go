package store

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestScanColumns: the parts that are asked for are those of a scan of everything, row by row, in
// blocks inside of the box and at its edges, with short and long series, in heads, beside
// tombstones and erased rows and in all views.
func TestScanColumns(t *testing.T) {
	rounds.NotUnderRace(t, "a model in one goroutine")
	rng := randomSource(t)
	s := storeOfDevices(t, rng)
	bySeries := map[record.View]int{}
	for range rounds.Of(100, 40, 40) {
		q := &record.Query{View: record.View(rng.IntN(2)),
			Aggregate: record.PluginCall{Name: "in-turn"}}
		long := rng.IntN(3) == 0
		q.Box = boxOfDevices(rng, long)
		var want []modelRow // in the order of the scan, which is always the same
		_, err := s.Scan(t.Context(), q, func(int) (Sink, error) {
			return func(b *record.Batch) error {
				for i := range b.Len() {
					want = append(want, modelRowOf(b, i))
				}
				return nil
			}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		at, front := 0, rng.IntN(30)
		parts := segment.Columns(rng.IntN(int(segment.AllColumns) + 1)).PayloadPrefix(uint32(front))
		if long || rng.IntN(2) == 0 {
			parts |= segment.SeriesRuns
		}
		_, err = s.ScanColumns(t.Context(), q, parts, func(int) (Sink, error) {
			return func(b *record.Batch) error {
				if err := b.CheckShape(); err != nil {
					return err
				}
				if len(b.Series) > 0 {
					bySeries[q.View]++
					for i := range b.Len() {
						samePart(t, parts&^segment.SeriesRuns, front, want[at+i], b, i)
					}
					b.FillKeys()
				}
				for i := range b.Len() {
					if at == len(want) {
						t.Fatalf("%+v, parts %b: more than %d rows", q.Box, parts, at)
					}
					samePart(t, parts.WithoutRuns(), front, want[at], b, i)
					at++
				}
				return nil
			}, nil
		})
		if err != nil || at != len(want) {
			t.Fatalf("%+v, parts %b: %d rows, %v; want %d", q.Box, parts, at, err, len(want))
		}
	}
	if bySeries[record.ViewAll] == 0 || bySeries[record.ViewLatest] == 0 {
		t.Errorf("batches with series by view: %v", bySeries)
	}
}

// storeOfDevices returns a store with rows of random sizes in two segments and a head.
func storeOfDevices(t *testing.T, rng *rand.Rand) *Store {
	t.Helper()
	s := openTest(t, Options{Workers: 1})
	put := func(rows int, devices int64, sizes, more int) {
		mustPut(t, s, rowsOfDevices(rng, rows, devices, sizes, more), WriterSeq{})
	}
	put(20_000, 3, 24, 1)
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(30_000, 300, 24, 1)
	put(5_000, 300, 8, 9)
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(3_000, 300, 24, 3)
	if _, err := s.Erase(t.Context(), record.Box{record.MID: {{From: 40, To: 45}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

// rowsOfDevices makes rows of some sizes: if they are of a few devices, these are others than the
// rest, have one row at a time, and no tombstones.
func rowsOfDevices(
	rng *rand.Rand, rows int, devices int64, sizes, more int,
) *record.Batch {
	var b record.Batch
	for i := range rows {
		k := record.Key{CID: rng.Int32N(3), MID: rng.Int64N(devices), MOID: rng.Int32N(2),
			CapNs: rng.Int64N(1000)}
		if devices < 10 {
			k.MID, k.CapNs = 1000+k.MID, k.CapNs+int64(i)<<10
		} else if rng.IntN(20) == 0 {
			b.AppendTomb(k)
			continue
		}
		b.Append(k, bytes.Repeat([]byte{byte(rng.IntN(9))}, sizes+rng.IntN(more)))
	}
	return &b
}

// boxOfDevices returns a box of devices with long series, or of any.
func boxOfDevices(rng *rand.Rand, long bool) (box record.Box) {
	if long {
		box[record.MID] = record.RangeSet{{From: 1000, To: 1001 + rng.Int64N(3)}}
		return box
	}
	for _, d := range []record.Dim{record.MID, record.Cap} {
		if rng.IntN(2) == 0 {
			from := rng.Int64N(300)
			box[d] = record.RangeSet{{From: from, To: from + 1 + rng.Int64N(500)}}
		}
	}
	return box
}

func samePart(
	t *testing.T, parts segment.Columns, front int, want modelRow, b *record.Batch, i int,
) {
	t.Helper()
	k := b.Key(i)
	for d := range record.Dim(record.NumDims) {
		if parts>>d&1 != 0 && k.Part(d) != want.key.Part(d) {
			t.Fatalf("parts %b: %v of row %d is %d, want %d", parts, d, i, k.Part(d),
				want.key.Part(d))
		}
	}
	if parts&segment.Payloads == 0 {
		return
	}
	if front == 0 {
		front = len(want.payload)
	}
	got := string(b.Payload(i))
	if len(got) < min(front, len(want.payload)) || !strings.HasPrefix(want.payload, got) {
		t.Fatalf("parts %b: payload %d is %x, want %d bytes of %x", parts, i, got, front,
			want.payload)
	}
}
