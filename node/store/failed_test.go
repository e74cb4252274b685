package store

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/record"
)

// A group whose sync failed is on disk all the same, and what was there before is sealed: no
// segment claims the group, and a retry after the restart finds its rows.
func TestFailedGroupIsNotTakenForSealed(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Shards: 1, Now: leapingClock()}
	s := openTest(t, opt)
	mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{ID: [16]byte{1}, Seq: 1})
	if err := s.log.Close(); err != nil { // every append fails from now on
		t.Fatal(err)
	}
	b, w := batchOf(record.Key{MID: 2}), WriterSeq{ID: [16]byte{1}, Seq: 2}
	if _, err := s.Put(t.Context(), b, w); err == nil {
		t.Fatal("a put without a log succeeded")
	}
	if err := s.Seal(t.Context()); err == nil {
		t.Fatal("a log that failed was deleted")
	}
	for s.Stats().Segments == 0 {
		runtime.Gosched()
	}
	_ = s.Close() // says that the log failed

	leaveAppend(t, opt.Dir, b, w, 2)
	s = openTest(t, opt)
	mustPut(t, s, b, w)
	if rows := scanRows(t, s, &record.Query{}); len(rows) != 2 {
		t.Fatalf("%d rows after the retry, want 2", len(rows))
	}
}

// leaveAppend appends to the log of a closed store what a commit would have.
func leaveAppend(t *testing.T, dir string, b *record.Batch, w WriterSeq, lsn uint64) {
	t.Helper()
	log, _, err := wal.Open(filepath.Join(dir, layout.LogDir), wal.Options{},
		func(uint64, wal.Entry) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	acq := later()
	data := segment.AppendRowsEntry(nil, &segment.RowsHeader{Writer: w.ID, Seq: w.Seq,
		FirstAcqNs: acq, BatchFirstAcqNs: acq, BatchRecords: uint32(b.Len()), BatchEntries: 1},
		b, nil)
	_, err = log.Append([]wal.Entry{{Term: 1, LSN: lsn, Kind: layout.EntryRows,
		Data: data}})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestUnsyncedHeadsAreNotSealed: once the log has failed to sync rows that are in a head, no
// segment gets them, and no scan sees them.
func TestUnsyncedHeadsAreNotSealed(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir(), Shards: 1, Now: leapingClock(), idleSealRows: 1})
	mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{})
	r := &putRequest{rows: 1, done: make(chan struct{})}
	s.prepare(r, batchOf(record.Key{MID: 2}))
	err := s.onCommitter(t.Context(), func() {
		s.stamp(r) // as commit does, whose sync then fails
		s.insert([]*putRequest{r})
		s.headsUnsynced = true
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.log.Close(); err != nil { // every append fails from now on
		t.Fatal(err)
	}
	if err := s.Seal(t.Context()); err == nil {
		t.Error("a seal without a log succeeded")
	}
	if s.rotateIdle() {
		t.Error("an idle store hands an unsynced head to the sealer")
	}
	state := s.shards[0].State.Load()
	if n := state.Head.Rows(); n != 2 || len(state.Immutable) > 0 || len(state.Sealed) > 0 {
		t.Errorf("%d rows in the head, %d immutable heads, %d segments", n, len(state.Immutable),
			len(state.Sealed))
	}
	if rows := scanRows(t, s, &record.Query{}); len(rows) != 1 {
		t.Errorf("a scan sees %d rows", len(rows))
	}
	_ = s.Close() // says that the log failed
}
