package meters

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/sdk/record"
)

func rows(t *testing.T, c Config) (all record.Batch, acqs []int64) {
	t.Helper()
	var b record.Batch
	for s := c.NewStream(); s.Next(&b); {
		acqs = append(acqs, b.AcqNs[0])
		for i := range b.Len() {
			all.AppendStamped(b.Key(i), b.Payload(i))
		}
	}
	return all, acqs
}

// TestStreamShape holds the workload against its description.
func TestStreamShape(t *testing.T) {
	c := Sized(400_000)
	all, acqs := rows(t, c)
	n := all.Len()
	base := c.Devices * c.Slots
	if n < base*98/100 || n > base*102/100 {
		t.Errorf("%d rows of %d devices and %d slots", n, c.Devices, c.Slots)
	}
	if !slices.IsSorted(acqs) || len(acqs) != (n+workload.BatchRows-1)/workload.BatchRows {
		t.Errorf("%d batches, sorted: %v", len(acqs), slices.IsSorted(acqs))
	}
	late, corrected := 0, 0
	seen := map[record.Key]int{}
	for i := range n {
		key := all.Key(i)
		if key.AcqNs-key.CapNs > 2*slotNs+arrivalNs { // small fleets fill a batch in many slots
			late++
		}
		if key.AcqNs < key.CapNs {
			t.Fatalf("row %d: acquired before it was captured", i)
		}
		key.AcqNs = 0
		seen[key]++
		if binary.LittleEndian.Uint64(all.Payload(i)[8:]) == statusCorrected {
			corrected++
			if seen[key] != 2 {
				t.Fatalf("row %d corrects what has come %d times", i, seen[key]-1)
			}
		}
	}
	if share := float64(corrected) / float64(n); share < 0.005 || share > 0.008 {
		t.Errorf("%.4f of the rows are corrections", share)
	}
	again, _ := rows(t, c)
	if !slices.Equal(again.Data, all.Data) || !slices.Equal(again.MID, all.MID) {
		t.Error("the same seed gives other rows")
	}
}

// TestOracle holds the oracle against the plainest loop.
func TestOracle(t *testing.T) {
	c := Sized(100_000)
	all, acqs := rows(t, c)
	queries := c.Queries(acqs)
	answers, err := workload.Answers(c.Workload().Phases, queries)
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range queries {
		for j := range q.Boxes {
			box := q.Boxes[j]
			if err := box.Normalize(); err != nil {
				t.Fatal(err)
			}
			keys := map[record.Key]bool{}
			want := uint64(0)
			for r := range all.Len() {
				key := all.Key(r)
				if !box.Box.Contains(key) {
					continue
				}
				key.AcqNs = 0
				if box.View == record.ViewLatest && keys[key] {
					continue
				}
				keys[key] = true
				want++
			}
			if answers[i][j].Rows != want {
				t.Errorf("%s, box %d: %d rows, want %d", q, j, answers[i][j].Rows, want)
			}
		}
	}
}
