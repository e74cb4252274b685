package store

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	benchDevices = 2000
	benchBatch   = 10_000
	benchRows    = 1_000_000
)

// benchFill makes the i-th batch: a reading of every device each minute, arriving as it is
// captured.
func benchFill(b *record.Batch, i int) (arrivalNs int64) {
	b.Reset()
	payload := make([]byte, 16)
	for r := i * benchBatch; r < (i+1)*benchBatch; r++ {
		payload[0] = byte(r)
		arrivalNs = int64(r/benchDevices) * int64(time.Minute)
		b.Append(record.Key{CID: int32(r % 4), MID: int64(r % benchDevices), MOID: int32(r % 5),
			CapNs: arrivalNs}, payload)
	}
	return arrivalNs
}

// benchStore is a store with a million sealed rows.
func benchStore(b *testing.B) *Store {
	b.Helper()
	clock := new(atomic.Int64)
	s := openTest(b, Options{Now: clock.Load})
	var batch record.Batch
	for i := range benchRows / benchBatch {
		clock.Store(benchFill(&batch, i) + int64(time.Second))
		mustPut(b, s, &batch, WriterSeq{})
	}
	if err := s.Seal(b.Context()); err != nil {
		b.Fatal(err)
	}
	return s
}

func perRow(b *testing.B, rows uint64) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
}

// BenchmarkPut is a durable put of a batch, with all sealing that it causes.
func BenchmarkPut(b *testing.B) {
	clock := new(atomic.Int64)
	s := openTest(b, Options{Now: clock.Load})
	var batch record.Batch
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		b.StopTimer()
		clock.Store(benchFill(&batch, i) + int64(time.Second))
		i++
		b.StartTimer()
		mustPut(b, s, &batch, WriterSeq{})
	}
	perRow(b, benchBatch)
}

// BenchmarkScan asks for rows by device, by time, by acq and by all five parts.
func BenchmarkScan(b *testing.B) {
	s := benchStore(b)
	hour := int64(time.Hour)
	for _, ask := range []struct {
		name string
		view record.View
		box  record.Box
	}{
		{"device", record.ViewAll, record.Box{record.CID: {record.At(3)},
			record.MID: {record.At(1003)}}},
		{"device latest", record.ViewLatest, record.Box{record.CID: {record.At(3)},
			record.MID: {record.At(1003)}}},
		{"minute", record.ViewAll, record.Box{
			record.Cap: {{From: 4 * hour, To: 4*hour + 1}}}},
		{"acq", record.ViewAll, record.Box{record.Acq: {{From: 4 * hour, To: 4*hour + hour/12}}}},
		{"corner", record.ViewAll, record.Box{record.CID: {record.At(3)},
			record.MID: {{From: 500, To: 1000}}, record.MOID: {record.At(3)},
			record.Cap: {{From: 2 * hour, To: 4 * hour}},
			record.Acq: {{From: 3 * hour, To: 5 * hour}}}},
	} {
		b.Run(ask.name, func(b *testing.B) {
			q := record.Query{Box: ask.box, View: ask.view}
			if err := q.Normalize(); err != nil {
				b.Fatal(err)
			}
			rows := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				stats, err := s.Scan(b.Context(), &q, func(int) (Sink, error) {
					return func(*record.Batch) error { return nil }, nil
				})
				if err != nil || stats.Rows == 0 {
					b.Fatalf("%d rows, %v", stats.Rows, err)
				}
				rows = stats.Rows
			}
			perRow(b, rows)
		})
	}
}

// BenchmarkCount counts half the devices of half the time.
func BenchmarkCount(b *testing.B) {
	s := benchStore(b)
	q := record.Query{Box: record.Box{record.MID: {{From: 500, To: 1500}},
		record.Cap: {{From: 2 * int64(time.Hour), To: 6 * int64(time.Hour)}}}}
	if err := q.Normalize(); err != nil {
		b.Fatal(err)
	}
	rows := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if rows, _, err = s.Count(b.Context(), &q); err != nil || rows == 0 {
			b.Fatalf("%d rows, %v", rows, err)
		}
	}
	perRow(b, rows)
}

// BenchmarkLast asks for the newest readings of 4,000 of 50,000 devices, of which one in a hundred
// ended long ago: with everything sealed, and with the newest readings in a head.
func BenchmarkLast(b *testing.B) {
	const devices, rounds = 50_000, 40
	clock := new(atomic.Int64)
	s := openTest(b, Options{Now: clock.Load})
	put := func(round int) {
		for from := 0; from < devices; from += benchBatch {
			batch := &record.Batch{}
			capNs := int64(round) * int64(15*time.Minute)
			for d := from; d < from+benchBatch; d++ {
				if d%100 != 7 || round < rounds/4 {
					batch.Append(record.Key{CID: 1, MOID: 1, MID: int64(d),
						CapNs: capNs + int64(d*7919%5000)*int64(time.Millisecond)},
						make([]byte, 16))
				}
			}
			clock.Store(capNs + int64(10*time.Second))
			mustPut(b, s, batch, WriterSeq{})
		}
	}
	for round := range rounds {
		put(round)
		if round%8 == 7 {
			if err := s.Seal(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := s.WaitForMerges(b.Context()); err != nil {
		b.Fatal(err)
	}
	ask := func(name string, last uint32) {
		b.Run(name, func(b *testing.B) {
			q := record.Query{View: record.ViewLatest, Last: last,
				Box: record.Box{record.MID: {{From: 20_000, To: 24_000}}}}
			var stats ScanStats
			b.ReportAllocs()
			for b.Loop() {
				var err error
				stats, err = s.Scan(b.Context(), &q, func(int) (Sink, error) {
					return func(*record.Batch) error { return nil }, nil
				})
				if err != nil || stats.Rows != 4000*uint64(last) {
					b.Fatalf("%d rows, %v", stats.Rows, err)
				}
			}
			b.ReportMetric(float64(stats.BlocksScanned), "blocks")
			b.ReportMetric(float64(stats.Segments), "segments")
		})
	}
	ask("sealed 1", 1)
	ask("sealed 5", 5)
	put(rounds)
	put(rounds + 1)
	ask("head 1", 1)
	ask("head 5", 5)
}

// BenchmarkLastOfHead asks for the newest reading of one sensor, and of a hundred, that have a
// million in a head.
func BenchmarkLastOfHead(b *testing.B) {
	const sensors, readings = 100, 10_000
	clock := new(atomic.Int64)
	s := openTest(b, Options{Now: clock.Load})
	for from := 0; from < readings; from += 100 {
		batch := &record.Batch{}
		for r := from; r < from+100; r++ {
			for d := range sensors {
				batch.Append(record.Key{CID: 1, MOID: 1, MID: int64(d),
					CapNs: int64(r) * int64(10*time.Second)}, make([]byte, 8))
			}
		}
		clock.Store(int64(from+100) * int64(10*time.Second))
		mustPut(b, s, batch, WriterSeq{})
	}
	for _, devices := range []int64{1, sensors} {
		b.Run(fmt.Sprint(devices), func(b *testing.B) {
			q := record.Query{View: record.ViewLatest, Last: 1,
				Box: record.Box{record.MID: {{From: 0, To: devices}}}}
			b.ReportAllocs()
			for b.Loop() {
				stats, err := s.Scan(b.Context(), &q, func(int) (Sink, error) {
					return func(*record.Batch) error { return nil }, nil
				})
				if err != nil || stats.Rows != uint64(devices) || stats.HeadRows != stats.Rows {
					b.Fatalf("%d rows, %d of heads, %v", stats.Rows, stats.HeadRows, err)
				}
			}
		})
	}
}
