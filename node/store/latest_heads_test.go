package store

import (
	"maps"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestLatestOfHeads loads devices one after the other, corrects and deletes readings, and counts
// and reads the latest ones all the time: which clears false flags in heads while rows come.
func TestLatestOfHeads(t *testing.T) {
	rng := randomSource(t)
	s := openTest(t, Options{Shards: 1, HeadBytes: 1 << 19, Index: index.Options{BlockRows: 256}})
	var asking sync.WaitGroup
	over := make(chan struct{})
	asking.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			q := latest()
			if _, _, err := s.Count(t.Context(), &q); err != nil {
				t.Error(err)
				return
			}
		}
	})
	model := map[record.Key]byte{} // 0: deleted
	put := func(b *record.Batch, k record.Key, payload byte) {
		if model[k] = payload; payload == 0 {
			b.AppendTomb(k)
			return
		}
		b.Append(k, []byte{payload})
	}
	device := int64(0)
	steps := fewer(80)
	for step := range steps {
		b := &record.Batch{}
		switch rng.IntN(4) {
		case 0, 1:
			for range 20 {
				device++
				for i := range 50 + rng.Int64N(50) {
					put(b, record.Key{MID: device * 100, CapNs: i}, 1)
				}
			}
		case 2:
			for range 1 + rng.IntN(60) {
				payload := byte(1 + rng.IntN(3))
				if step > steps/2 {
					payload %= 3
				}
				put(b, record.Key{MID: rng.Int64N(device+2) * 100, CapNs: rng.Int64N(120)}, payload)
			}
		default:
			mustSeal(t, s)
			continue
		}
		mustPut(t, s, b, WriterSeq{})
		q := latest()
		if rng.IntN(2) == 0 {
			from := rng.Int64N(device + 1)
			q.Box = boxOf(record.MID, from*100, (from+1+rng.Int64N(50))*100)
		}
		if rng.IntN(2) == 0 {
			from := rng.Int64N(100)
			q.Box[record.Cap] = record.RangeSet{{From: from, To: from + 1 + rng.Int64N(40)}}
		}
		checkLatest(t, s, &q, model)
	}
	close(over)
	asking.Wait()
}

// TestDeletedBeforeItCame: a tombstone that is the only version of its reading counts for none.
func TestDeletedBeforeItCame(t *testing.T) {
	s := openTest(t, Options{Shards: 1})
	b := &record.Batch{}
	b.AppendTomb(record.Key{MID: 1, CapNs: 5})
	b.Append(record.Key{MID: 2, CapNs: 5}, []byte{1})
	mustPut(t, s, b, WriterSeq{})
	q := latest()
	model := map[record.Key]byte{{MID: 2, CapNs: 5}: 1}
	checkLatest(t, s, &q, model)
	mustSeal(t, s)
	checkLatest(t, s, &q, model)
	q.View = record.ViewAll
	if n, _, err := s.Count(t.Context(), &q); err != nil || n != 2 {
		t.Errorf("%d versions, %v; want 2", n, err)
	}
}

// TestFewCorrectionsOfAHead counts the readings of a head, of which few have several versions.
func TestFewCorrectionsOfAHead(t *testing.T) {
	s := openTest(t, Options{Shards: 1})
	model := map[record.Key]byte{}
	for version := range byte(3) {
		b := &record.Batch{}
		for i := range int64(500) {
			if k := (record.Key{MID: i / 50, CapNs: i % 50}); version == 0 || i%100 == 7 {
				b.Append(k, []byte{version + 1})
				model[k] = version + 1
			}
		}
		mustPut(t, s, b, WriterSeq{})
	}
	q := latest()
	checkLatest(t, s, &q, model)
	q.Box = boxOf(record.MID, 2, 7)
	q.Box[record.Cap] = record.RangeSet{{From: 7, To: 20}}
	checkLatest(t, s, &q, model)
}

// checkLatest counts and reads what a query of the latest state finds.
func checkLatest(t *testing.T, s *Store, q *record.Query, model map[record.Key]byte) {
	t.Helper()
	want := map[record.Key]byte{}
	for k, payload := range model {
		if payload != 0 && q.Box.Contains(k) {
			want[k] = payload
		}
	}
	if n, _, err := s.Count(t.Context(), q); err != nil || n != uint64(len(want)) {
		t.Fatalf("%d readings, %v; want %d", n, err, len(want))
	}
	var mu sync.Mutex
	got := map[record.Key]byte{}
	if _, err := s.Scan(t.Context(), q, func(int) (Sink, error) {
		return func(b *record.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			for i := range b.Len() {
				k := b.Key(i)
				k.AcqNs = 0
				got[k] = b.Payload(i)[0]
			}
			return nil
		}, nil
	}); err != nil || !maps.Equal(got, want) {
		t.Fatalf("%d readings read, %v; want %d", len(got), err, len(want))
	}
}

// TestCorrectionsAcrossSubRuns: newer versions are searched device by device, and rows of a block
// are in order of cap first.
func TestCorrectionsAcrossSubRuns(t *testing.T) {
	s := openTest(t, Options{Shards: 1})
	var b record.Batch
	for c := range int64(16) {
		for d := range int64(32) {
			b.Append(record.Key{CID: 1, MID: d, CapNs: c * 1e10}, []byte("old"))
		}
	}
	mustPut(t, s, &b, WriterSeq{})
	mustSeal(t, s)
	q := record.Query{View: record.ViewLatest}
	count := func() {
		t.Helper()
		if n, _, err := s.Count(t.Context(), &q); err != nil || n != 512 {
			t.Fatalf("%d readings, %v", n, err)
		}
	}
	count()
	b.Reset()
	for d := range int64(32) {
		c := int64(2) // of the second sub-run
		if 8 <= d && d < 24 {
			c = 0
		}
		b.Append(record.Key{CID: 1, MID: d, CapNs: c * 1e10}, []byte("new"))
	}
	mustPut(t, s, &b, WriterSeq{})
	count()
}
