package store

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/scan"
	"github.com/pentad-db/pentad/sdk/record"
)

// diffRowsVariable says how many rows the store of BenchmarkDiff holds.
const diffRowsVariable = "PENTAD_DIFF_ROWS"

// BenchmarkDiff asks what changed after 10,000 readings of a large store were corrected, scattered
// over all devices and times, or those of ten devices; "asof" is the count that one of the two
// states takes. "erased" is after an erase of one device, "gone" after one of everything, "arrived"
// of all that came in the last hundredth of the rows.
func BenchmarkDiff(b *testing.B) {
	s := openTest(b, Options{})
	rows, hundredth := diffFill(b, s)
	loaded := horizonOf(b, s)
	correct := func(step int) int64 {
		var batch record.Batch
		for i := range 10_000 {
			r := i * step % rows
			batch.Append(record.Key{CID: int32(r % 4), MID: int64(r % benchDevices),
				MOID: int32(r % 5), CapNs: int64(r/benchDevices) * int64(time.Minute)},
				[]byte("0123456789abcdef"))
		}
		mustPut(b, s, &batch, WriterSeq{})
		if err := s.Seal(b.Context()); err != nil {
			b.Fatal(err)
		}
		return horizonOf(b, s)
	}
	erase := func(box record.Box) int64 {
		if _, err := s.Erase(b.Context(), box); err != nil {
			b.Fatal(err)
		}
		return horizonOf(b, s)
	}
	scattered := correct(rows/10_000 + 7)
	together := correct(benchDevices / 10)
	erased := erase(record.Box{record.MID: {record.At(77)}})
	gone := erase(record.Box{})
	ask := func(name string, fromNs, toNs int64) {
		b.Run(name, func(b *testing.B) {
			var stats scan.Stats
			for b.Loop() {
				var err error
				stats, err = s.Diff(b.Context(), &record.Diff{FromNs: fromNs, ToNs: toNs},
					func(*record.Differences) error { return nil })
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(stats.Rows), "differences")
			b.ReportMetric(float64(stats.BlocksScanned), "blocks")
		})
	}
	ask("nothing", erased-1, erased)
	ask("scattered", loaded, scattered)
	ask("together", scattered, together)
	ask("erased", together, erased)
	ask("arrived", hundredth, loaded)
	ask("gone", erased, gone)
	b.Run("asof", func(b *testing.B) {
		for b.Loop() {
			_, _, err := s.Count(b.Context(), &record.Query{View: record.ViewAsOf,
				AsOfAcqNs: scattered})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// diffFill stores the rows, and returns the moment before the last hundredth of them.
func diffFill(b *testing.B, s *Store) (rows int, hundredth int64) {
	b.Helper()
	rows = benchRows
	if text := os.Getenv(diffRowsVariable); text != "" {
		var err error
		if rows, err = strconv.Atoi(text); err != nil {
			b.Fatalf("%s: %v", diffRowsVariable, err)
		}
	}
	var batch record.Batch
	for i := range rows / benchBatch {
		if i == rows/benchBatch*99/100 {
			hundredth = horizonOf(b, s)
		}
		benchFill(&batch, i)
		mustPut(b, s, &batch, WriterSeq{})
	}
	if err := s.WaitForMerges(b.Context()); err != nil {
		b.Fatal(err)
	}
	return rows, hundredth
}

func horizonOf(b *testing.B, s *Store) int64 {
	b.Helper()
	h, err := s.ExtendHorizon(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return h
}
