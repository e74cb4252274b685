package store

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/sdk/record"
)

// correctedStore has versions everywhere: each reading was put three times, and some of it is in
// segments, some in the head.
func correctedStore(t *testing.T, opt Options) *Store {
	t.Helper()
	s := openTest(t, opt)
	for i := range 3 {
		for device := range int64(30) {
			b := &record.Batch{}
			for r := range int64(100) {
				b.Append(record.Key{CID: int32(device % 2), MID: device * 256, MOID: int32(r % 3),
					CapNs: r * int64(time.Minute)}, []byte{byte(i)})
			}
			mustPut(t, s, b, WriterSeq{})
		}
		if i < 2 {
			if err := s.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// TestPartitions: with little space a scan gives the same rows, each once, and what it says of them
// and of the blocks is true.
func TestPartitions(t *testing.T) {
	rounds.NotUnderRace(t, "TestModelLong resolves versions in pieces, too")
	opt := Options{Dir: t.TempDir(), Shards: 2, Index: index.Options{BlockRows: 128}}
	s := correctedStore(t, opt)
	q := record.Query{View: record.ViewLatest}
	whole := scanRows(t, s, &q)
	if len(whole) != 3000 {
		t.Fatalf("%d rows", len(whole))
	}
	for _, limit := range []int{1, 7, 100, 1000} {
		s.scans.Access.MaxReadings = limit
		compare(t, "in partitions", scanRows(t, s, &q), whole)
		stats, err := s.Scan(t.Context(), &q, func(int) (Sink, error) {
			return func(*record.Batch) error { return nil }, nil
		})
		if err != nil || stats.Segments != 4 || stats.Rows != 3000 ||
			stats.BlocksScanned*128 < stats.RowsExamined {
			t.Errorf("space for %d: %+v, %v", limit, stats, err)
		}
	}
}

// TestPartitionsInOrder: what an aggregate sees, and in which order, does not change from one time
// to the next.
func TestPartitionsInOrder(t *testing.T) {
	s := correctedStore(t, Options{Shards: 2, Workers: 3, maxReadings: 200,
		Index: index.Options{BlockRows: 128}})
	q := record.Query{View: record.ViewLatest, Aggregate: record.PluginCall{Name: "sum"}}
	ask := func() [][]record.Key {
		seen := make([][]record.Key, 3)
		workers := 0
		_, err := s.Scan(t.Context(), &q, func(worker int) (Sink, error) {
			workers++
			return func(b *record.Batch) error {
				for i := range b.Len() {
					seen[worker] = append(seen[worker], b.Key(i))
				}
				return nil
			}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return seen[:workers]
	}
	first := ask()
	if len(first) < 2 {
		t.Fatalf("%d workers", len(first))
	}
	for range 5 {
		if !slices.EqualFunc(ask(), first, slices.Equal) {
			t.Fatal("the order of rows changes")
		}
	}
}

// mergedBeneath scans a store in partitions and, when the first rows come, has all its segments
// merged into one; then it calls after with what had been open. It returns how many rows came.
func mergedBeneath(t *testing.T, after func(old []*os.File)) (rows int, paths []string, err error) {
	t.Helper()
	s := correctedStore(t, Options{Dir: t.TempDir(), Shards: 1, Workers: 1, maxReadings: 200,
		Index: index.Options{BlockRows: 128}})
	mustSeal(t, s)
	var old []*os.File
	for _, path := range segmentFiles(t, s.opt.Dir) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		old, paths = append(old, f), append(paths, path)
	}
	stats, err := s.Scan(t.Context(), &record.Query{View: record.ViewLatest},
		func(int) (Sink, error) {
			return func(b *record.Batch) error {
				if rows == 0 {
					mustPut(t, s, batchOf(record.Key{MID: 1 << 20}), WriterSeq{})
					if err := s.MergeIdle(t.Context()); err != nil {
						t.Error(err)
					}
					if st := s.Stats(); st.Segments != 1 {
						t.Errorf("%d segments are left", st.Segments)
					}
					after(old)
				}
				rows += b.Len()
				return nil
			}, nil
		})
	if err == nil && stats.Rows != uint64(rows) {
		t.Errorf("%d rows, %+v", rows, stats)
	}
	return rows, paths, err
}

// TestPartitionsDuringMerge: partitions that come after a merge are read from what the scan began
// with.
func TestPartitionsDuringMerge(t *testing.T) {
	rows, _, err := mergedBeneath(t, func([]*os.File) {})
	if err != nil || rows != 3000 {
		t.Fatalf("%d rows, %v", rows, err)
	}
}

// TestPartitionsOfDamageDuringMerge: what the disk does not give out is damage of its file, also
// when a merge has replaced the file and only the scan still has it.
func TestPartitionsOfDamageDuringMerge(t *testing.T) {
	_, paths, err := mergedBeneath(t, func(old []*os.File) {
		for _, f := range old {
			if err := f.Truncate(0); err != nil {
				t.Error(err)
			}
		}
	})
	var damage *durable.CorruptError
	if !errors.As(err, &damage) || !slices.Contains(paths, damage.File) {
		t.Fatalf("%v, want damage in one of %q", err, paths)
	}
}
