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
// with none or one in a hundred corrected, in the view of all versions and in the latest: all of it
// sealed, all of it in a head, or only the corrections in a head. With puts, there is one before
// each query, which is not measured: a hundred rows, of which one or all correct a reading. These
// want -benchtime=200x.
func BenchmarkLatestCount(b *testing.B) {
	for _, c := range []struct {
		every          int
		readings, rest string // where they are
		corrections    int    // of each put
	}{
		{0, "sealed", "none", 0},
		{0, "head", "none", 0},
		{100, "sealed", "sealed", 0},
		{100, "head", "head", 0},
		{100, "head", "head", 1},
		{100, "head", "head", 100},
		{100, "sealed", "head", 0},
		{100, "sealed", "head", 1},
		{100, "sealed", "head", 100},
	} {
		l := &loaded{s: openTest(b, Options{SealRows: 1 << 24, idleAfter: time.Hour})}
		for d := range countedDevices {
			l.put(b, d*countedReadings, (d+1)*countedReadings, 1)
		}
		l.readings = countedDevices * countedReadings
		if c.readings == "sealed" {
			l.seal(b)
		}
		if c.every > 0 {
			l.put(b, 0, countedDevices*countedReadings, c.every)
		}
		if c.rest == "sealed" {
			l.seal(b)
		}
		for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
			name := fmt.Sprintf("readings=%s/corrections=%s/put=%d/view=%d", c.readings, c.rest,
				c.corrections, view)
			q := record.Query{View: view}
			b.Run(name+"/count", func(b *testing.B) { l.count(b, &q, c.corrections) })
			b.Run(name+"/scan", func(b *testing.B) { l.scan(b, &q, c.corrections) })
		}
	}
}

// loaded is a store of a number of readings.
type loaded struct {
	s        *Store
	readings int
	puts     int
}

func (l *loaded) seal(b *testing.B) {
	if err := l.s.Seal(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func (l *loaded) count(b *testing.B, q *record.Query, corrections int) {
	began := time.Now()
	if _, _, err := l.s.Count(b.Context(), q); err != nil {
		b.Fatal(err)
	}
	first := time.Since(began)
	defer func() { b.ReportMetric(float64(first.Nanoseconds()), "ns/first") }()
	for b.Loop() {
		l.putBetween(b, corrections)
		n, _, err := l.s.Count(b.Context(), q)
		if err != nil || q.View == record.ViewLatest && int(n) != l.readings {
			b.Fatalf("%d rows of %d, %v", n, l.readings, err)
		}
	}
}

func (l *loaded) scan(b *testing.B, q *record.Query, corrections int) {
	for b.Loop() {
		l.putBetween(b, corrections)
		stats, err := l.s.Scan(b.Context(), q, func(int) (Sink, error) {
			return func(*record.Batch) error { return nil }, nil
		})
		if err != nil || q.View == record.ViewLatest && int(stats.Rows) != l.readings {
			b.Fatalf("%d rows of %d, %v", stats.Rows, l.readings, err)
		}
	}
}

// putBetween puts a hundred rows, of which some are corrections, unless none are to be.
func (l *loaded) putBetween(b *testing.B, corrections int) {
	if corrections == 0 {
		return
	}
	b.StopTimer()
	defer b.StartTimer()
	l.puts++
	rows := &record.Batch{}
	for i := range 100 {
		reading := (l.puts*100 + i) * 7919
		device, capHours := reading%countedDevices, reading/countedDevices%countedReadings
		if i >= corrections {
			capHours = countedReadings + l.puts
			device = i
			l.readings++
		}
		rows.Append(loadedKey(device, capHours), []byte("12345678"))
	}
	mustPut(b, l.s, rows, WriterSeq{})
}

// put puts every n-th reading of some.
func (l *loaded) put(b *testing.B, from, to, every int) {
	b.Helper()
	rows := &record.Batch{}
	for i := from; i < to; i += every {
		rows.Append(loadedKey(i/countedReadings, i%countedReadings), []byte("12345678"))
	}
	mustPut(b, l.s, rows, WriterSeq{})
}

func loadedKey(device, capHours int) record.Key {
	return record.Key{CID: 1, MID: int64(device) << 8, MOID: 1,
		CapNs: int64(capHours) * int64(time.Hour)}
}
