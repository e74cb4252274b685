package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/sdk/record"
)

// BenchmarkEvents asks for some rows of a device, in the latest view, beside so many erases, each
// of an hour of another device, and beside as many of which every one concerns a thing that is
// not there.
func BenchmarkEvents(b *testing.B) {
	s := benchStore(b)
	q := record.Query{View: record.ViewLatest, Box: record.Box{record.CID: {record.At(3)},
		record.MID: {record.At(1003)},
		record.Cap: {{From: 0, To: int64(30 * time.Minute)}}}}
	if err := q.Normalize(); err != nil {
		b.Fatal(err)
	}
	for _, count := range []int{0, 100, 1000, 10_000} {
		for _, kind := range []string{"devices", "times"} {
			b.Run(fmt.Sprintf("%s %d", kind, count), func(b *testing.B) {
				setEvents(s, count, func(i int) (box record.Box) {
					if kind == "devices" {
						box[record.CID] = record.RangeSet{record.At(int64(i % 4))}
						box[record.MID] = record.RangeSet{record.At(int64(i%1000 + 1004))}
					}
					from := int64(time.Hour) * int64(1+i%8)
					box[record.Cap] = record.RangeSet{{From: from, To: from + int64(time.Hour)}}
					return box
				})
				b.ReportAllocs()
				for b.Loop() {
					stats, err := s.Scan(b.Context(), &q, func(int) (Sink, error) {
						return func(*record.Batch) error { return nil }, nil
					})
					if err != nil || stats.Rows == 0 {
						b.Fatalf("%d rows, %v", stats.Rows, err)
					}
				}
			})
		}
	}
}

// setEvents makes erases those of a store, without its files.
func setEvents(s *Store, count int, box func(i int) record.Box) {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	s.manifest.Events = nil
	acq := s.oracle.NextNs()
	for i := range count {
		s.manifest.Events = append(s.manifest.Events, event.Event{AcqNs: acq - int64(count-i),
			Kind: event.Erase, Box: box(i)})
	}
	s.publishTombstones()
}

// BenchmarkPublishEvents is what an event costs beside its lines on disk, when there are as many as
// there may be.
func BenchmarkPublishEvents(b *testing.B) {
	s := openTest(b, Options{})
	setEvents(s, manifest.MaxEvents, func(i int) record.Box {
		return record.Box{record.CID: {record.At(int64(i % 4))}, record.MID: {record.At(int64(i))}}
	})
	for b.Loop() {
		s.manifestMu.Lock()
		s.publishTombstones()
		s.manifestMu.Unlock()
	}
}
