package store

import (
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/record"
)

// rankBytes are what the rank tables of a store take, which has a number of rows.
func rankBytes(t *testing.T, s *Store, wantRows int) (bytes int) {
	t.Helper()
	rows := 0
	for _, sh := range s.allShards {
		for _, seg := range sh.State.Load().Sealed {
			bytes += len(seg.File.Section(layout.SectionRanks))
			rows += seg.Index.Rows()
		}
	}
	if rows != wantRows {
		t.Fatalf("%d rows are sealed, want %d", rows, wantRows)
	}
	return bytes
}

// TestRanksAfterPurge: what is left of a tenant that was purged from batches of two is a few bits
// for each of its rows, in files and memory.
func TestRanksAfterPurge(t *testing.T) {
	rounds.NotUnderRace(t, "it counts bytes of ranks")
	const batches, rows = 30, 2000
	rng := rand.New(rand.NewPCG(1, 1))
	opt := Options{Dir: t.TempDir()}
	mixed, alone := openTest(t, opt), openTest(t, Options{Dir: t.TempDir()})
	gone := 0
	for i := range batches {
		var both, one record.Batch
		for k := range rows {
			key := record.Key{CID: rng.Int32N(2), MID: int64(k), CapNs: int64(i)}
			both.Append(key, []byte("12345678"))
			if key.CID == 0 {
				one.Append(key, []byte("12345678"))
			} else {
				gone++
			}
		}
		mustPut(t, mixed, &both, WriterSeq{})
		mustPut(t, alone, &one, WriterSeq{})
	}
	mustSeal(t, mixed)
	mustSeal(t, alone)
	before := rankBytes(t, mixed, batches*rows)
	mustPurge(t, mixed, boxOf(record.CID, 1, 2))
	mustSettle(t, mixed)
	never := rankBytes(t, alone, batches*rows-gone)
	mixed = reopen(t, mixed, opt)
	left := rankBytes(t, mixed, batches*rows-gone)
	t.Logf("%d bytes before, %d after %d of %d rows were purged, %d had they never been", before,
		left, gone, batches*rows, never)
	if left > never+gone/3 {
		t.Errorf("%d bytes of ranks are left of %d rows, %d without the purged ones", left,
			batches*rows-gone, never)
	}
}
