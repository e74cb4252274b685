package store

import (
	"encoding/binary"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestSupersededRowsOfRotAreForgotten looks for superseded rows in blocks that rotted after they
// were verified, and are well again later: the answers are right once blocks are verified again.
func TestSupersededRowsOfRotAreForgotten(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes that another goroutine reads")
	rng := randomSource(t)
	var nowNs atomic.Int64
	s := openTest(t, Options{Index: index.Options{BlockRows: 64}, mergeRetry: time.Hour,
		blockNow: func() time.Time { return time.Unix(1e9, nowNs.Load()) }})
	const readings = 4000
	rows := &record.Batch{}
	for i := range readings {
		rows.Append(loadedKey(i%7, i/7), []byte("12345678"))
	}
	mustPut(t, s, rows, WriterSeq{})
	mustSeal(t, s)
	latest := &record.Query{View: record.ViewLatest}
	count := func() uint64 {
		t.Helper()
		n, _, err := s.Count(t.Context(), latest)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	correct := func(from, every int) {
		rows.Reset()
		for i := from; i < readings; i += every {
			rows.Append(loadedKey(i%7, i/7), []byte("corrects"))
		}
		mustPut(t, s, rows, WriterSeq{})
	}
	wrong := 0
	for range 5 {
		correct(rng.IntN(40), 40) // a reading of each block, so that all are verified
		count()
		restore := rotAllKeys(t, s)
		for range 3 {
			correct(rng.IntN(400), 400)
			if count() != readings {
				wrong++
			}
		}
		restore()
		nowNs.Add(int64(segment.VerifyAfter))
		for range 2 {
			if n := count(); n != readings {
				t.Fatalf("%d readings of %d", n, readings)
			}
		}
		if rows := scanRows(t, s, latest); len(rows) != readings {
			t.Fatalf("%d rows of %d", len(rows), readings)
		}
	}
	if wrong == 0 {
		t.Error("no answer met the rot")
	}
}

// rotAllKeys sets the columns of all blocks to zero, and returns what brings them back.
func rotAllKeys(t *testing.T, s *Store) (restore func()) {
	t.Helper()
	now := s.allShards[0].Pin()
	defer now.Unpin()
	path := now.Sealed[0].File.Path()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(at uint64, src []byte) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		if _, err := f.WriteAt(src, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range now.Sealed[0].Index.Blocks() {
		block := before[now.Sealed[0].Index.Block(uint32(i)).Offset:]
		columns := uint64(binary.LittleEndian.Uint16(block[14:]))
		end := uint64(binary.LittleEndian.Uint32(block[4:])) - 4
		write(now.Sealed[0].Index.Block(uint32(i)).Offset+columns, make([]byte, end-columns))
	}
	return func() { write(0, before) }
}
