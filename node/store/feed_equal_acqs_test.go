package store

import (
	"bytes"
	"fmt"
	"maps"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// putShared puts rows at one acq below the horizon, that differ in all dimensions or in few.
func putShared(t *testing.T, s *Store, acqNs int64, rows, payload int) map[record.Key]bool {
	t.Helper()
	all := map[record.Key]bool{}
	for from := 0; from < rows; {
		b := &record.Batch{}
		for ; from < rows && b.Len() < record.MaxBatchRecords &&
			len(b.Data)+payload <= record.MaxBatchBytes; from++ {
			i := int64(from)
			k := record.Key{CID: int32(i % 3), MID: i % 7 << 40, MOID: int32(i % 2), CapNs: -i * i,
				AcqNs: acqNs}
			b.AppendStamped(k, bytes.Repeat([]byte{byte(i)}, payload))
			all[k] = true
		}
		res, err := s.PutBackdated(t.Context(), b)
		if err != nil || res.Stored != b.Len() {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	return all
}

// TestFeedInsideAnAcq: more rows have one acq than a slice holds, by their number and by their
// bytes. A feed brings all of them, in slices of the usual size that leave the acq open, and a
// reader that breaks off between two of them and goes on from there meets all.
func TestFeedInsideAnAcq(t *testing.T) {
	rounds.NotUnderRace(t, "a model in one goroutine")
	s := openTest(t, Options{Dir: t.TempDir(), Shards: 2})
	want := map[record.Key]bool{}
	maps.Copy(want, putShared(t, s, 5, 3, 10))
	maps.Copy(want, putShared(t, s, 10, 3*sliceRows/2, 0))
	maps.Copy(want, putShared(t, s, 11, 1, 10))
	maps.Copy(want, putShared(t, s, 20, 35, 1<<20))
	maps.Copy(want, putShared(t, s, 21, 3, 10))
	check := func() {
		t.Helper()
		got, open := map[record.Key]bool{}, map[int64]int{}
		f := feedOf(t, s, record.Box{}, 0)
		var slice Slice
		for more := true; more; {
			var err error
			if more, err = f.Read(t.Context(), &slice); err != nil {
				t.Fatal(err)
			}
			if n := slice.Rows.Len(); n > 2*sliceRows || len(slice.Rows.Data) > 2*sliceBytes {
				t.Errorf("a slice of %d rows and %d bytes", n, len(slice.Rows.Data))
			}
			for i := range slice.Rows.Len() {
				k := slice.Rows.Key(i)
				if got[k] {
					t.Fatalf("%+v came twice", k)
				}
				got[k] = true
			}
			if slice.IsOpen() {
				open[slice.ClosedNs]++
				rows, _ := readFeed(t, feedOf(t, s, record.Box{}, f.NextNs()), 1)
				if wantRows := len(want) - keysBelow(want, slice.ClosedNs); len(rows) != wantRows {
					t.Fatalf("%d rows from acq %d on, want %d", len(rows), f.NextNs(), wantRows)
				}
			}
		}
		if !maps.Equal(got, want) || open[10] == 0 || open[20] == 0 || len(open) != 2 {
			t.Errorf("%d rows, want %d; open slices %v", len(got), len(want), open)
		}
	}
	check()
	mustSeal(t, s)
	check()
}

// keysBelow counts the keys with a smaller acq.
func keysBelow(keys map[record.Key]bool, acqNs int64) (n int) {
	for k := range keys {
		if k.AcqNs < acqNs {
			n++
		}
	}
	return n
}

// TestFeedInsideRewinds: a slice inside of an acq that could not be handed on is read again, with
// what came before it.
func TestFeedInsideRewinds(t *testing.T) {
	rounds.NotUnderRace(t, "a model in one goroutine")
	s := openTest(t, Options{})
	want := putShared(t, s, 20, 40, 1<<20)
	f := feedOf(t, s, record.Box{}, 0)
	var slice Slice
	for !slice.IsOpen() {
		if _, err := f.Read(t.Context(), &slice); err != nil {
			t.Fatal(err)
		}
	}
	f.Rewind(20)
	if rows, _ := readFeed(t, f, 1); len(rows) != len(want) {
		t.Errorf("%d rows, want %d", len(rows), len(want))
	}
}

// TestPutBackdatedAgain: of rows that are put again, at one acq with many others, those that are
// there are known, and one with another payload is refused.
func TestPutBackdatedAgain(t *testing.T) {
	s := openTest(t, Options{})
	const rows = 3000
	put := func(from, to int, payload string) (PutBackdatedResult, error) {
		b := &record.Batch{}
		for i := from; i < to; i++ {
			b.AppendStamped(record.Key{CID: int32(i % 3), MID: int64(i), AcqNs: 7},
				fmt.Append(nil, payload, i))
		}
		return s.PutBackdated(t.Context(), b)
	}
	f := func(from, to int, stored, known int) {
		t.Helper()
		if res, err := put(from, to, "a"); err != nil || res.Stored != stored ||
			res.Repeated != known {
			t.Errorf("%d to %d: %+v, %v", from, to, res, err)
		}
	}
	f(0, rows, rows, 0)
	f(0, rows, 0, rows)
	f(rows-100, rows+200, 200, 100)
	f(rows-10, rows, 0, 10)
	if _, err := put(rows+199, rows+400, "b"); err == nil {
		t.Error("another payload was taken")
	}
	if n, _, err := s.Count(t.Context(), &record.Query{}); err != nil || n != rows+200 {
		t.Errorf("%d rows, %v", n, err)
	}
}
