package store

import (
	"errors"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestPersistentWriter: a persistent writer gets its answer after months, from the log and from
// WRITERS, and only the answer to its newest batch; another is forgotten, whatever its id is: that
// of the persistent one, or one that begins as edges did once.
func TestPersistentWriter(t *testing.T) {
	now := int64(time.Hour)
	opt := Options{Dir: t.TempDir(), Now: func() int64 { return now }}
	s := openTest(t, opt)
	persistent := record.Writer{ID: [16]byte{7}, Persistent: true}
	others := []record.Writer{{ID: [16]byte{7}}, {ID: [16]byte{'e', 'd', 'g', 'e', 1}}}
	put := func(w record.Writer, seq uint64) (PutResult, error) {
		b := &record.Batch{}
		b.Append(record.Key{MID: int64(seq)}, []byte{byte(seq)})
		return s.Put(t.Context(), b, WriterSeq{ID: w.ID, Seq: seq, Persistent: w.Persistent})
	}
	first := map[record.Writer]PutResult{}
	for _, w := range append(others, persistent) {
		for seq := range uint64(3) {
			res, err := put(w, seq+1)
			if err != nil || res.Duplicate {
				t.Fatalf("batch %d: %+v, %v", seq+1, res, err)
			}
			first[w] = res
		}
	}
	again := func(what string) {
		t.Helper()
		res, err := put(persistent, 3)
		if want := first[persistent]; err != nil || !res.Duplicate ||
			res.FirstAcqNs != want.FirstAcqNs {
			t.Fatalf("%s: %+v, %v, want the answer %+v", what, res, err, want)
		}
		if _, err := put(persistent, 2); !errors.Is(err, writers.ErrTooOld) {
			t.Fatalf("%s: an older batch: %v", what, err)
		}
	}
	again("at once")
	for _, w := range others {
		if res, err := put(w, 2); err != nil || !res.Duplicate {
			t.Fatalf("another writer's older batch: %+v, %v", res, err)
		}
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
	for _, w := range others {
		if res, err := put(w, 3); err != nil || res.Duplicate {
			t.Fatalf("a writer that was silent for months is known: %+v, %v", res, err)
		}
	}
	if err := s.writers.Save(opt.Dir); err != nil {
		t.Fatal(err)
	}
	s.writers = writers.New[putRequest]()
	if err := s.writers.Load(opt.Dir); err != nil {
		t.Fatal(err)
	}
	again("from its file")
	if res, err := put(persistent, 7); err != nil || res.Duplicate {
		t.Fatalf("a new batch: %+v, %v", res, err)
	}
}
