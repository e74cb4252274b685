package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	countedDevices  = 300
	countedReadings = 8192
)

// BenchmarkLatestCount counts and scans 2.4 million readings that were loaded device by device,
// with none or one in a hundred corrected, in the view of all versions and in the latest.
func BenchmarkLatestCount(b *testing.B) {
	for _, every := range []int{0, 100} {
		for _, sealed := range []bool{false, true} {
			s := openTest(b, Options{})
			for d := range countedDevices {
				putReadings(b, s, d*countedReadings, (d+1)*countedReadings, 1)
			}
			if every > 0 {
				putReadings(b, s, 0, countedDevices*countedReadings, every)
			}
			if sealed {
				if err := s.Seal(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
				name := fmt.Sprintf("corrected=1:%d/sealed=%v/view=%d", every, sealed, view)
				q := record.Query{View: view}
				b.Run(name+"/count", func(b *testing.B) { countReadings(b, s, &q) })
				b.Run(name+"/scan", func(b *testing.B) {
					for b.Loop() {
						_, err := s.Scan(b.Context(), &q, func(int) (Sink, error) {
							return func(*record.Batch) error { return nil }, nil
						})
						if err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

func countReadings(b *testing.B, s *Store, q *record.Query) {
	const readings = countedDevices * countedReadings
	began := time.Now()
	if _, _, err := s.Count(b.Context(), q); err != nil {
		b.Fatal(err)
	}
	first := time.Since(began)
	defer func() { b.ReportMetric(float64(first.Nanoseconds()), "ns/first") }()
	for b.Loop() {
		n, _, err := s.Count(b.Context(), q)
		if err != nil || q.View == record.ViewLatest && n != readings {
			b.Fatalf("%d rows, %v", n, err)
		}
	}
}

// putReadings puts every n-th reading of some.
func putReadings(b *testing.B, s *Store, from, to, every int) {
	b.Helper()
	rows := &record.Batch{}
	for i := from; i < to; i += every {
		rows.Append(record.Key{CID: 1, MID: int64(i/countedReadings) << 8, MOID: 1,
			CapNs: int64(i%countedReadings) * int64(time.Hour)}, []byte("12345678"))
	}
	mustPut(b, s, rows, WriterSeq{})
}
