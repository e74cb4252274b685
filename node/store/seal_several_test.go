package store

import (
	"os"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/background"
	"github.com/pentad-db/pentad/sdk/record"
)

// Heads that wait are sealed at the same time and become live in order, so what is a new version in
// one of a reading in another stays one. Where one cannot be written, those behind it wait for it.
func TestSealSeveralHeads(t *testing.T) {
	const rows, heads = 300, 4
	limit := background.NewLimit(heads-1, 1)
	s := openTest(t, Options{SealRows: rows, Now: leapingClock(), Background: limit,
		retainEvery: time.Hour})
	for range cap(limit.Seals) {
		limit.Seals <- struct{}{}
	}
	m := &model{}
	for version := range heads {
		b := &record.Batch{}
		for i := range int64(rows) {
			b.Append(record.Key{CID: int32(i % 3), MID: i % 50 << 8, CapNs: i % 7},
				[]byte{byte(version)})
		}
		res := mustPut(t, s, b, WriterSeq{})
		m.add(b, splitByShard(b, len(s.shards)), res)
	}
	inTheWay := s.segmentPath(s.nextID.Load() + heads - 2)
	if err := os.MkdirAll(inTheWay+"/file", 0o755); err != nil {
		t.Fatal(err)
	}
	for range cap(limit.Seals) {
		<-limit.Seals
	}
	for tries := 0; s.Seal(t.Context()) != nil; tries++ {
		if tries == 2 {
			t.Fatal("a number is in the way for ever")
		}
	}
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitForMerges(t.Context()); err != nil {
		t.Fatal(err)
	}
	st := s.Stats()
	if n := len(segmentFiles(t, s.opt.Dir)); st.HeadRows != 0 || st.Seals != heads ||
		n != st.Segments {
		t.Errorf("%d files of %d segments, %+v", n, st.Segments, st)
	}
	for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
		q := &record.Query{View: view}
		compare(t, "sealed", scanRows(t, s, q), m.query(q))
	}
}
