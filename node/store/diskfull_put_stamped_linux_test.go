package store

import (
	"errors"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/sdk/record"
)

// A batch that brings its acqs and finds no space may come again, with the same.
func TestPutStampedOnAFullDisk(t *testing.T) {
	if !inProcess(t) {
		return
	}
	d := sizeLimit(t)
	s := openTest(t, Options{Dir: d.dir})
	b := &record.Batch{}
	for i := range int64(100) {
		b.AppendStamped(record.Key{CID: 1, MID: i, AcqNs: 1000 + 2*i}, make([]byte, 1000))
	}
	d.fill()
	for range 2 {
		floor, err := s.PutStamped(t.Context(), b)
		if !errors.Is(err, durable.ErrNoSpace) || floor > 1000 {
			t.Fatalf("floor %d, %v", floor, err)
		}
		if s.Stats().Rows != 0 {
			t.Fatal("it is stored even so")
		}
	}
	d.free()
	if floor, err := s.PutStamped(t.Context(), b); err != nil || floor != 1000+2*99+1 {
		t.Fatalf("floor %d, %v", floor, err)
	}
	if rows := scanRows(t, s, &record.Query{}); len(rows) != 100 || rows[99].key.AcqNs != 1198 {
		t.Errorf("%d rows", len(rows))
	}
}

// A batch from below that finds no space is not there, and may come again.
func TestPutBackdatedOnAFullDisk(t *testing.T) {
	if !inProcess(t) {
		return
	}
	d := sizeLimit(t)
	opt := Options{Dir: d.dir, Shards: 2}
	s := openTest(t, opt)
	b := &record.Batch{}
	for i := range int64(100) {
		b.AppendStamped(record.Key{CID: 1, MID: i << 8, AcqNs: 1000 - i%3}, make([]byte, 1000))
	}
	if _, err := s.ExtendHorizon(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.fill()
	for range 2 {
		res, err := s.PutBackdated(t.Context(), b)
		if !errors.Is(err, durable.ErrNoSpace) || res != (PutBackdatedResult{}) {
			t.Fatalf("%+v, %v", res, err)
		}
		if s.Stats().Rows != 0 {
			t.Fatal("it is stored even so")
		}
	}
	d.free()
	if res, err := s.PutBackdated(t.Context(), b); err != nil || res.Stored != 100 {
		t.Fatalf("%+v, %v", res, err)
	}
	everywhere(t, s, opt, func(s *Store) {
		t.Helper()
		if rows := scanRows(t, s, &record.Query{}); len(rows) != 100 {
			t.Errorf("%d rows", len(rows))
		}
	})
}
