package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

// confinedStore is a store of several segments of two shards, with rows in heads, and its model.
func confinedStore(t *testing.T, opt Options) (*Store, *model) {
	t.Helper()
	rng := randomSource(t)
	opt.Shards, opt.Now, opt.Index = 2, leapingClock(), index.Options{BlockRows: 64}
	s := openTest(t, opt)
	m := &model{}
	sh := shape{cids: 2, mids: 50, moids: 2, caps: 300, varied: true}
	for range 4 {
		b := sh.batch(rng, 400, time.Now().UnixNano())
		w := WriterSeq{ID: [16]byte{1}, Seq: uint64(len(m.rows))}
		m.add(b, splitByShard(b, 2), mustPut(t, s, b, w))
		if len(m.rows) < 1500 {
			if err := s.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s, m
}

// askBent asks a store of which a file may be damaged: the answer is right, or an error that
// names a file of the store.
func askBent(t *testing.T, s *Store, q *record.Query, m *model) (answered bool) {
	t.Helper()
	var rows []modelRow
	_, err := s.Scan(t.Context(), q, func(int) (Sink, error) {
		return func(b *record.Batch) error {
			for i := range b.Len() {
				rows = append(rows, modelRowOf(b, i))
			}
			return nil
		}, nil
	})
	if err == nil {
		sortRows(rows)
		compare(t, "beside damage", rows, m.query(q))
		return true
	}
	var damage *durable.CorruptError
	if !errors.As(err, &damage) || filepath.Dir(damage.File) != s.opt.Dir {
		t.Fatalf("error without file: %v", err)
	}
	return false
}

// Bits are flipped at random places of every kind of file. The store opens or says which file is
// damaged; what it answers is right. No flipped bit of the log passes for a torn write.
func TestBentFilesNeverLie(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	rng := randomSource(t)
	s, m := confinedStore(t, Options{Dir: t.TempDir(), Workers: 1})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	sh := shape{cids: 2, mids: 50, moids: 2, caps: 300}
	opened, answers, refused := 0, 0, 0
	for _, path := range filesOf(t, s.opt.Dir) {
		name, err := filepath.Rel(s.opt.Dir, path)
		if err != nil {
			t.Fatal(err)
		}
		for range max(12, fewer(25)) { // with 5, none may happen to open
			dir := t.TempDir()
			copyDir(t, s.opt.Dir, dir)
			flipBit(t, filepath.Join(dir, name), rng.Int())
			corrupted, report, err := Open(t.Context(),
				Options{Dir: dir, Now: leapingClock(), Workers: 1})
			var damage *durable.CorruptError
			if err != nil {
				if !errors.As(err, &damage) || damage.File != filepath.Join(dir, name) {
					t.Fatalf("%s: %v", name, err)
				}
				refused++
				continue
			}
			opened++
			if report.Log.TornFile != "" {
				t.Fatalf("%s: %+v", name, report.Log)
			}
			for range 5 {
				if askBent(t, corrupted, sh.query(rng, m), m) {
					answers++
				}
			}
			_ = corrupted.Close()
		}
	}
	if opened == 0 || answers == 0 || refused == 0 {
		t.Errorf("%d opened, %d answers, %d refused", opened, answers, refused)
	}
}

func flipBit(t *testing.T, path string, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[at/8%len(data)] ^= 1 << (at % 8)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// The file of a segment is cut while queries read it, as a failing disk would: queries that touch
// it name it, others are answered, and puts, seals and merges of other segments go on.
func TestUnreadablePagesAreConfined(t *testing.T) {
	for _, workers := range []int{1, 4} {
		s, m := confinedStore(t, Options{Workers: workers})
		lost := s.shards[1].State.Load().Sealed[0]
		if err := os.Truncate(lost.File.Path(), 0); err != nil {
			t.Fatal(err)
		}
		var damage *durable.CorruptError
		_, err := s.Scan(t.Context(), &record.Query{}, func(int) (Sink, error) {
			return func(*record.Batch) error { return nil }, nil
		})
		if !errors.As(err, &damage) || damage.File != lost.File.Path() {
			t.Fatalf("a scan of a segment that is cut: %v", err)
		}
		q := &record.Query{}
		q.Box[record.Acq] = record.RangeSet{{From: lost.Meta.LastAcqNs + 1, To: record.Acq.Max()}}
		compare(t, "what came later", scanRows(t, s, q), m.query(q))
		b := batchOf(record.Key{MID: 1}, record.Key{MID: 64000})
		m.add(b, splitByShard(b, 2), mustPut(t, s, b, WriterSeq{}))
		q.View = record.ViewAll
		compare(t, "after a put", scanRows(t, s, q), m.query(q))
		report, err := s.Verify(t.Context(), check.Options{})
		if err != nil || report.Damages == 0 || report.Segments < 4 {
			t.Fatalf("%+v, %v", report, err)
		}
		if !slices.ContainsFunc(report.Damage, func(d api.Damage) bool {
			return d.File == lost.File.Path()
		}) {
			t.Errorf("%+v", report)
		}
	}
}
