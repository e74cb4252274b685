package store

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/sdk/record"
)

// later is a clock an hour ahead, so that opening a crashed store has no lease to wait for.
func later() int64 { return time.Now().Add(time.Hour).UnixNano() }

// fewer is a number of rounds: all in make test-long, half of them, with -short a fifth.
func fewer(all int) int { return rounds.Of(all, (all+3)/4, all/5) }

// The log is cut at some bytes of its last 4 KiB, in make test-long at every one: the store opens
// with whole batches, a prefix of what was put, and takes new rows.
func TestLogCutAnywhere(t *testing.T) {
	rounds.NotUnderRace(t, "it cuts a log at many places in one goroutine")
	src := t.TempDir()
	s := openTest(t, Options{Dir: src, Shards: 4})
	rng := randomSource(t)
	sh := shape{cids: 2, mids: 300, moids: 2, caps: 100}
	ends := []int{0} // rows after each batch
	for range 30 {
		b := sh.batch(rng, 1+rng.IntN(4), time.Now().UnixNano())
		mustPut(t, s, b, WriterSeq{})
		ends = append(ends, ends[len(ends)-1]+b.Len())
	}
	crashed := t.TempDir()
	copyDir(t, src, crashed)
	logs, err := filepath.Glob(filepath.Join(crashed, layout.LogDir, "*"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("log files %v, %v", logs, err)
	}
	whole, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for cut := max(0, len(whole)-4096); cut <= len(whole); cut++ {
		if rng.IntN(rounds.Of(1, 10, 20)) > 0 {
			continue
		}
		if err := os.WriteFile(logs[0], whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		seen[rowsAfterCut(t, crashed, cut)] = true
	}
	for rows := range seen {
		found := false
		for _, end := range ends {
			found = found || end == rows
		}
		if !found {
			t.Errorf("%d rows after a cut: a batch is half there", rows)
		}
	}
	if len(seen) < 5 {
		t.Errorf("cuts gave only %d different states", len(seen))
	}
}

func rowsAfterCut(t *testing.T, dir string, cut int) int {
	t.Helper()
	s, _, err := Open(t.Context(), Options{Dir: dir, Now: later})
	if err != nil {
		t.Fatalf("cut at %d: %v", cut, err)
	}
	rows := int(s.Stats().Rows)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// One bit is flipped at many places of a sealed segment: the answer is right, or an error names
// the file.
func TestSealedSegmentBent(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	dir := t.TempDir()
	rng := randomSource(t)
	sh := shape{cids: 2, mids: 30, moids: 2, caps: 100}
	s := openTest(t, Options{Dir: dir, Shards: 1, Now: later})
	m := &model{}
	for range 5 {
		b := sh.batch(rng, 100, time.Now().UnixNano())
		m.add(b, splitByShard(b, 1), mustPut(t, s, b, WriterSeq{}))
	}
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	name := s.segmentPath(1)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	q := &record.Query{View: record.ViewLatest}
	want := m.query(q)
	damaged := 0
	for range fewer(600) {
		bit := rng.IntN(8 * len(whole))
		whole[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(name, whole, 0o644); err != nil {
			t.Fatal(err)
		}
		if !bentAnswer(t, dir, q, want) {
			damaged++
		}
		whole[bit/8] ^= 1 << (bit % 8)
	}
	if damaged == 0 {
		t.Error("no flipped bit was noticed")
	}
}

// bentAnswer reports whether the store answered; a wrong answer or a nameless error fails.
func bentAnswer(t *testing.T, dir string, q *record.Query, want []modelRow) bool {
	t.Helper()
	s, _, err := Open(t.Context(), Options{Dir: dir, Now: later})
	if err == nil {
		var rows []modelRow
		_, err = s.Scan(t.Context(), q, func(int) (Sink, error) {
			return func(b *record.Batch) error {
				for i := range b.Len() {
					rows = append(rows, modelRowOf(b, i))
				}
				return nil
			}, nil
		})
		if closeErr := s.Close(); closeErr != nil {
			t.Fatal(closeErr)
		}
		if err == nil {
			sortRows(rows)
			compare(t, "corrupted segment", rows, want)
			return true
		}
	}
	var damage *durable.CorruptError
	if !errors.As(err, &damage) || filepath.Base(damage.File) != "00000001.seg" {
		t.Fatalf("error does not name the segment: %v", err)
	}
	return false
}

// What went missing is noticed. Without the manifest no one knows which segments are live: nothing
// is deleted. Without the log or WRITERS acknowledged rows or answers would be lost.
func TestMissingFilesAreDamage(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Shards: 1}
	s := openTest(t, opt)
	mustPut(t, s, batchOf(record.Key{MID: 7}), WriterSeq{ID: [16]byte{1}, Seq: 1})
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	sealed := filepath.Base(s.segmentPath(1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(opt.Dir, layout.LogDir, "*"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("log files %v, %v", logs, err)
	}
	log := filepath.Join(layout.LogDir, filepath.Base(logs[0]))
	for _, name := range []string{layout.ManifestFile, layout.WritersFile, sealed, log} {
		dir := t.TempDir()
		copyDir(t, opt.Dir, dir)
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first refusal must not hide the damage from the second
			s, _, err := Open(t.Context(), Options{Dir: dir, Shards: 1, Now: later})
			if err == nil {
				_ = s.Close()
			}
			var damage *durable.CorruptError
			if !errors.As(err, &damage) {
				t.Fatalf("without %s: %v", name, err)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, sealed)); err != nil && name != sealed {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestDirectoryOfAnotherSegment opens a segment whose checksums are right and whose directory tells
// of other rows.
func TestDirectoryOfAnotherSegment(t *testing.T) {
	many, few := &record.Batch{}, &record.Batch{}
	for i := range int64(100) {
		many.AppendStamped(record.Key{MID: i, AcqNs: i + 1}, nil)
		if i < 50 {
			few.AppendStamped(record.Key{MID: i, AcqNs: i + 1}, nil)
		}
	}
	whole, wrong := new(index.Layout), new(index.Layout)
	index.NewClusterer(index.Options{}).Cluster(many, whole)
	index.NewClusterer(index.Options{}).Cluster(few, wrong)
	meta := manifest.Segment{ID: 1, Rows: 100}
	text, err := json.Marshal(meta)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "00000001.seg")
	run := &segment.RowRun{Rows: many, Order: whole.Order, Keys: &whole.Keys,
		BlockEnds: whole.BlockEnds, Flags: make([]uint64, 2)}
	_, err = segment.WriteRuns(path, &segment.RunsInput{
		Runs: func(add func(*segment.RowRun) error) error { return add(run) }, Meta: text,
		Sections: func(offsets []uint64, sizes []uint32) ([]segment.Section, error) {
			idx := index.Build(few, wrong, make([]uint64, 2), offsets, sizes)
			return []segment.Section{
				{ID: layout.SectionDirectory, Data: idx.AppendBlockDirectory(nil)},
				{ID: layout.SectionPostings, Data: idx.AppendPostings(nil)},
				{ID: layout.SectionRanks, Data: idx.AppendRanks(nil)},
			}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := shards.Open(path, meta, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sealed.File.Close()
	seg := &blocks.PlannedSegment{Segment: sealed}
	var damage *durable.CorruptError
	if _, err := new(blocks.Reader).Open(seg, index.Candidate{}); !errors.As(err, &damage) {
		t.Errorf("a block of other rows: %v", err)
	}
	if err := seg.RanksToAcqs([]int64{49}); err != nil {
		t.Error(err)
	}
	if err := seg.RanksToAcqs([]int64{50}); !errors.As(err, &damage) || damage.File != path {
		t.Errorf("a rank beyond the rows: %v", err)
	}
}
