package store

import (
	"context"
	"errors"
	"testing"

	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestPutAfter: a batch is stored behind the one that it names and no other, also after a start,
// and a writer has one such batch in flight.
func TestPutAfter(t *testing.T) {
	opt := Options{Dir: t.TempDir()}
	s := openTest(t, opt)
	w := record.Writer{ID: [16]byte{1}, Persistent: true}
	batch := func(seq uint64) WriterSeq { return WriterSeq{ID: w.ID, Seq: seq, Persistent: true} }
	put := func(seq, previous uint64) (PutResult, error) {
		b := &record.Batch{}
		b.Append(record.Key{MID: int64(seq)}, []byte{byte(seq)})
		return s.PutAfter(t.Context(), b, batch(seq), previous)
	}
	isGap := func(err error, newest uint64) {
		t.Helper()
		var gap *writers.GapError
		if !errors.As(err, &gap) || gap.Newest != newest {
			t.Fatalf("%v; the newest is %d", err, newest)
		}
	}
	_, err := put(10, 5)
	isGap(err, 0)
	isGap(s.Follows(w, 5), 0)
	if err := s.Follows(w, 0); err != nil {
		t.Fatal(err)
	}
	for _, seq := range [][2]uint64{{10, 0}, {25, 10}, {30, 25}} {
		if res, err := put(seq[0], seq[1]); err != nil || res.Duplicate {
			t.Fatalf("batch %d: %+v, %v", seq[0], res, err)
		}
	}
	for _, seq := range [][2]uint64{{25, 10}, {31, 25}, {31, 31}, {1, 0}} {
		_, err = put(seq[0], seq[1])
		isGap(err, 30)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, opt)
	if res, err := put(30, 25); err != nil || !res.Duplicate {
		t.Fatalf("the newest again: %+v, %v", res, err)
	}
	isGap(s.Follows(w, 25), 30)
	_, known, err := s.writers.Admit(batch(40), new(uint64), &putRequest{})
	if known != nil {
		t.Fatal("it is in progress")
	}
	isGap(err, 30)
	at := uint64(30)
	first := batch(40)
	if _, _, err := s.writers.Admit(first, &at, &putRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := put(41, 30); !errors.Is(err, ErrOverloaded) {
		t.Fatalf("a second one is in progress: %v", err)
	}
	s.writers.Abandon(first)
	if _, err := put(41, 30); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := &record.Batch{}
	b.Append(record.Key{}, nil)
	_, _ = s.PutAfter(ctx, b, batch(50), 41) // stored or not
	if _, err := put(50, 41); err != nil {
		t.Fatalf("after one that was given up: %v", err)
	}
}
