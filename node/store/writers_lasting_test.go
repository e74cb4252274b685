package store

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestLastingWriter: a writer that lasts gets its answer after months, from the log and from
// WRITERS, and only the answer to its newest batch; another is forgotten.
func TestLastingWriter(t *testing.T) {
	now := int64(time.Hour)
	opt := Options{Dir: t.TempDir(), Now: func() int64 { return now }}
	s := openTest(t, opt)
	lasting, other := [16]byte{'e', 'd', 'g', 'e', 1}, [16]byte{'e', 'd', 'g', 1}
	put := func(id [16]byte, seq uint64) (PutResult, error) {
		b := &record.Batch{}
		b.Append(record.Key{MID: int64(seq)}, []byte{byte(seq)})
		return s.Put(t.Context(), b, WriterSeq{ID: id, Seq: seq})
	}
	first := map[[16]byte]PutResult{}
	for _, id := range [][16]byte{lasting, other} {
		for seq := range uint64(3) {
			res, err := put(id, seq+1)
			if err != nil || res.Duplicate {
				t.Fatalf("batch %d: %+v, %v", seq+1, res, err)
			}
			first[id] = res
		}
	}
	again := func(what string) {
		t.Helper()
		res, err := put(lasting, 3)
		if want := first[lasting]; err != nil || !res.Duplicate ||
			res.FirstAcqNs != want.FirstAcqNs {
			t.Fatalf("%s: %+v, %v, want the answer %+v", what, res, err, want)
		}
		if _, err := put(lasting, 2); !errors.Is(err, ErrSequenceTooOld) {
			t.Fatalf("%s: an older batch: %v", what, err)
		}
	}
	again("at once")
	if res, err := put(other, 2); err != nil || !res.Duplicate {
		t.Fatalf("another writer's older batch: %+v, %v", res, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	now += 90 * int64(24*time.Hour) // while nothing looks at it
	s = openTest(t, opt)
	again("from the log, after months")
	if err := s.WaitForMerges(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.writers.expire(now)
	again("after others were forgotten")
	if res, err := put(other, 3); err != nil || res.Duplicate {
		t.Fatalf("a writer that was silent for months is known: %+v, %v", res, err)
	}
	if err := s.writers.save(opt.Dir); err != nil {
		t.Fatal(err)
	}
	s.writers = newWriters()
	if err := s.writers.load(opt.Dir); err != nil {
		t.Fatal(err)
	}
	again("from its file")
	if res, err := put(lasting, 7); err != nil || res.Duplicate {
		t.Fatalf("a new batch: %+v, %v", res, err)
	}
}

// Edges are never forgotten, so their number is bounded, apart from that of other writers: neither
// takes the room of the other. Who is known is told its answer whatever came since.
func TestManyLastingWriters(t *testing.T) {
	table := newWriters()
	add := func(mark string, number int) WriterSeq {
		id := WriterSeq{Seq: 1}
		copy(id.ID[:], mark)
		binary.LittleEndian.PutUint64(id.ID[8:], uint64(number))
		return id
	}
	for i := range maxLasting {
		id := add(record.LastingMark, i)
		if known, err := table.decide(id, 1); known != nil || err != nil {
			t.Fatalf("edge %d: %v, %v", i, known, err)
		}
		table.recordInOrder(id, answer{seq: 1, first: 1, records: 1})
	}
	file := table.encode(math.MaxInt64)
	if perEdge := len(file) / maxLasting; perEdge > 56 {
		t.Errorf("%d bytes of the file for each edge", perEdge)
	}
	var err error
	again := newWriters()
	if again.byID, err = parseWriters(file); err != nil {
		t.Fatal(err)
	}
	again.lasting = len(again.byID)
	one := add(record.LastingMark, maxLasting)
	for _, table := range []*writers{table, again} {
		if _, err := table.decide(one, 2+10*writerIdleNs); !errors.Is(err, ErrTooManyWriters) {
			t.Errorf("one edge more: %v", err)
		}
		if _, _, err := table.admit(&putRequest{writer: one}); !errors.Is(err,
			ErrTooManyWriters) {
			t.Errorf("one edge more: %v", err)
		}
		old := add(record.LastingMark, 0)
		if known, err := table.decide(old, 2+10*writerIdleNs); known == nil || err != nil {
			t.Errorf("an edge that comes back: %v, %v", known, err)
		}
		if _, err := table.decide(add("else", 0), 2); err != nil {
			t.Errorf("another writer: %v", err)
		}
	}
}
