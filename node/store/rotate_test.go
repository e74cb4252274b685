package store

import (
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// Heads that are together at their budget are sealed, also when none is full by itself.
func TestFullHeadsAreSealed(t *testing.T) {
	opt := Options{Dir: t.TempDir(), HeadBytes: 64 << 10, Shards: 8, PutWait: time.Minute}
	rng := randomSource(t)
	sh := shape{cids: 2, mids: 5000, moids: 2, caps: 100}
	s := openTest(t, opt)
	for range 20 {
		mustPut(t, s, sh.batch(rng, 200, 0), WriterSeq{})
	}
}

// So are heads that a crash left full.
func TestFullHeadsAreSealedAfterOpen(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Shards: 8}
	rng := randomSource(t)
	sh := shape{cids: 2, mids: 5000, moids: 2, caps: 100}
	s := openTest(t, opt)
	for range 20 {
		mustPut(t, s, sh.batch(rng, 200, 0), WriterSeq{})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opt.HeadBytes, opt.PutWait = 64<<10, time.Minute
	s = openTest(t, opt)
	mustPut(t, s, sh.batch(rng, 200, 0), WriterSeq{})
}

// Recovery divides what it replays as it was divided before the crash, and no head gets larger than
// one may be.
func TestReplayRotatesFullHeads(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Shards: 1}
	rng := randomSource(t)
	sh := shape{cids: 2, mids: 50, moids: 2, caps: 100}
	s := openTest(t, opt)
	m := &model{}
	for range 30 {
		b := sh.batch(rng, 200, 0)
		m.add(b, splitByShard(b, 1), mustPut(t, s, b, WriterSeq{}))
	}
	opt.SealRows = 1000
	s = crashAndReopen(t, s, &opt)
	defer func() { _ = s.Close() }()
	for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
		q := &record.Query{View: view}
		compare(t, "replayed", scanRows(t, s, q), m.query(q))
	}
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Seals != 6 || st.HeadRows != 0 {
		t.Fatalf("6000 rows were sealed in %d heads, %d are left", st.Seals, st.HeadRows)
	}
	q := &record.Query{View: record.ViewLatest}
	compare(t, "sealed", scanRows(t, s, q), m.query(q))
}
