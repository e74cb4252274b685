package store

import (
	"errors"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/writers"
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
		if _, err := put(lasting, 2); !errors.Is(err, writers.ErrTooOld) {
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
	s.writers.Expire(now)
	again("after others were forgotten")
	if res, err := put(other, 3); err != nil || res.Duplicate {
		t.Fatalf("a writer that was silent for months is known: %+v, %v", res, err)
	}
	if err := s.writers.Save(opt.Dir); err != nil {
		t.Fatal(err)
	}
	s.writers = writers.New[putRequest]()
	if err := s.writers.Load(opt.Dir); err != nil {
		t.Fatal(err)
	}
	again("from its file")
	if res, err := put(lasting, 7); err != nil || res.Duplicate {
		t.Fatalf("a new batch: %+v, %v", res, err)
	}
}
