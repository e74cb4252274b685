package node

import (
	"bufio"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// putMany puts more rows at one acq than a frame holds, and one before and after it.
func putMany(t *testing.T, n *Node, acqNs int64) (rows int) {
	t.Helper()
	for _, acq := range []int64{acqNs - 1, acqNs + 1, acqNs, acqNs} {
		count := 1
		if acq == acqNs {
			count = wire.MaxRows * 3 / 4
		}
		b := &record.Batch{}
		for i := range count {
			b.AppendStamped(record.Key{CID: 1, MID: int64(rows + i), AcqNs: acq}, nil)
		}
		if _, err := n.PutBackdated(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		rows += count
	}
	return rows
}

// TestChangesOfManyAtOneAcq: a client gets each record once; the position is that of the acq until
// the last of it, and a reader that breaks off there and goes on meets all of them.
func TestChangesOfManyAtOneAcq(t *testing.T) {
	n := openTest(t, Options{Listen: "127.0.0.1:0"})
	const acq = 1000
	rows := putMany(t, n, acq)
	c := dial(t, n)
	met, open := map[record.Key]int{}, 0
	for b, err := range c.PastChanges(t.Context(), &record.Query{}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; b.Rows != nil && i < b.Rows.Len(); i++ {
			met[b.Rows.Key(i)]++
		}
		if b.Rows == nil || b.ClosedNs != acq || b.Rows.AcqNs[0] != acq {
			continue
		}
		open++
		if closed := b.ClosedBy(b.Rows.Len() - 1); closed != acq {
			t.Errorf("the last record of an open batch closes acq %d", closed)
		}
		left := 0
		for b, err := range c.PastChanges(t.Context(), &record.Query{}, b.ClosedNs) {
			if err != nil {
				t.Fatal(err)
			}
			if b.Rows != nil {
				left += b.Rows.Len()
			}
		}
		if left != rows-1 {
			t.Errorf("%d records from acq %d on, want %d", left, acq, rows-1)
		}
	}
	if len(met) != rows || slices.Max(slices.Collect(maps.Values(met))) != 1 || open == 0 {
		t.Errorf("%d records of %d, %d open batches", len(met), rows, open)
	}
	answer, err := http.Get("http://" + n.Addr().String() + "/v1/changes?format=sse&keys=1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	lines, position := 0, ""
	for scan := bufio.NewScanner(answer.Body); scan.Scan(); {
		if id, ok := strings.CutPrefix(scan.Text(), "id: "); ok {
			position = id
		}
		if strings.Contains(scan.Text(), `"mid":`) {
			lines++
			if position == "1001" && lines < rows-1 {
				t.Fatalf("the position after record %d of %d is %s", lines, rows, position)
			}
		}
	}
	if lines != rows {
		t.Errorf("%d lines, want %d", lines, rows)
	}
}

// TestMergedOpenSlices merges a source that has many records of one acq with one that has few: each
// record is handed on once, in slices as large as the source gave them, and the acq stays open for
// as long as there are more.
func TestMergedOpenSlices(t *testing.T) {
	slice := func(closedNs int64, mids []int64, acqs ...int64) *store.Slice {
		s := &store.Slice{ClosedNs: closedNs}
		for i, acq := range acqs {
			s.Rows.AppendStamped(record.Key{MID: mids[i], AcqNs: acq}, nil)
		}
		return s
	}
	mids := func(from int64) []int64 { return []int64{from, from + 1, from + 2} }
	many, few := newFeedBuffer(nil, 0), newFeedBuffer(nil, 0)
	var wg sync.WaitGroup
	send := func(a *feedBuffer, all ...*store.Slice) {
		wg.Go(func() {
			defer close(a.slices)
			for _, s := range all {
				a.slices <- s
			}
		})
	}
	send(many, slice(5, mids(0), 3, 4), slice(5, mids(10), 5, 5, 5), slice(5, mids(20), 5, 5, 5),
		slice(5, mids(30), 5, 5, 5), slice(6, mids(40), 5), slice(20, mids(50), 7))
	send(few, slice(4, mids(100), 3), slice(9, mids(110), 5, 8), slice(20, mids(120), 10))
	met := map[int64]int{}
	last, open := int64(0), 0
	closed, err := mergeChanges(t.Context(), []*feedBuffer{many, few}, 0, 0, new(demand),
		func(s *store.Slice) error {
			for i, acq := range s.Rows.AcqNs {
				met[s.Rows.MID[i]]++
				if acq < last {
					t.Errorf("acq %d after %d", acq, last)
				}
				last = acq
			}
			if s.IsOpen() {
				open++
			}
			if s.Rows.Len() > 4 {
				t.Errorf("a slice of %d records", s.Rows.Len())
			}
			return nil
		})
	wg.Wait()
	if err != nil || closed != 20 || len(met) != 17 || open != 3 ||
		slices.Max(slices.Collect(maps.Values(met))) != 1 {
		t.Errorf("closed %d, %d records, %d open slices, %v", closed, len(met), open, err)
	}
}
