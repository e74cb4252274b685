package store

import (
	"errors"
	"testing"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// A batch that brings its acqs and finds no room may come again, with the same.
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
		if !errors.Is(err, segment.ErrNoSpace) || floor > 1000 {
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
