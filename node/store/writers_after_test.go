package store

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestPutAfter: a batch is stored behind the one that it names and no other, also after a start,
// and a writer has one such batch under way.
func TestPutAfter(t *testing.T) {
	opt := Options{Dir: t.TempDir()}
	s := openTest(t, opt)
	id := [16]byte{'e', 'd', 'g', 'e', 1}
	put := func(seq, previous uint64) (PutResult, error) {
		b := &record.Batch{}
		b.Append(record.Key{MID: int64(seq)}, []byte{byte(seq)})
		return s.PutAfter(t.Context(), b, WriterSeq{ID: id, Seq: seq}, previous)
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
	isGap(s.Follows(id, 5), 0)
	if err := s.Follows(id, 0); err != nil {
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
	isGap(s.Follows(id, 25), 30)
	_, known, err := s.writers.Admit(WriterSeq{id, 40}, new(uint64), &putRequest{})
	if known != nil {
		t.Fatal("it is under way")
	}
	isGap(err, 30)
	at := uint64(30)
	first := WriterSeq{id, 40}
	if _, _, err := s.writers.Admit(first, &at, &putRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := put(41, 30); !errors.Is(err, ErrOverloaded) {
		t.Fatalf("a second one is under way: %v", err)
	}
	s.writers.Abandon(first)
	if _, err := put(41, 30); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := &record.Batch{}
	b.Append(record.Key{}, nil)
	_, _ = s.PutAfter(ctx, b, WriterSeq{id, 50}, 41) // stored or not
	if _, err := put(50, 41); err != nil {
		t.Fatalf("after one that was given up: %v", err)
	}
}

// TestRepairForgetsWriters: a repair that cut the log up to an acq leaves out of WRITERS the edges
// whose newest batch may have been cut, and makes no such file.
func TestRepairForgetsWriters(t *testing.T) {
	dir := t.TempDir()
	r := &repair{dir: dir, manifest: &manifest.Manifest{ClockNs: 150}, heldNs: 100}
	if err := r.forgetWriters(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, layout.WritersFile)); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a file is made: %v", err)
	}
	table := writers.New[putRequest]()
	kept, cut := WriterSeq{[16]byte{'e', 'd', 'g', 'e', 0}, 1},
		WriterSeq{[16]byte{'e', 'd', 'g', 'e', 1}, 1}
	table.Record(kept, writers.Answer{Seq: 1, FirstNs: 149, Records: 1})
	table.Record(cut, writers.Answer{Seq: 1, FirstNs: 150, Records: 1})
	if err := table.Save(dir); err != nil {
		t.Fatal(err)
	}
	again := writers.New[putRequest]()
	if err := cmp.Or(r.forgetWriters(), again.Load(dir)); err != nil {
		t.Fatal(err)
	}
	if again.Count() != 1 || again.Follows(kept.ID, 1) != nil {
		t.Errorf("%d are known", again.Count())
	}
}
