package node

import (
	"bufio"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
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
	rounds.NotUnderRace(t, "its work is that of other feeds, with more rows")
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
