package meters

import (
	"encoding/binary"
	"slices"
	"testing"

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
	if !slices.IsSorted(acqs) || len(acqs) != (n+BatchRows-1)/BatchRows {
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
	o, err := NewOracle(queries)
	if err != nil {
		t.Fatal(err)
	}
	var b record.Batch
	for s := c.NewStream(); s.Next(&b); {
		o.Add(&b)
	}
	answers := o.Answers()
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

// TestAnswerTellsRowsApart changes one thing at a time.
func TestAnswerTellsRowsApart(t *testing.T) {
	acqs := []int64{1000, 1000 + BatchRows}
	base := record.Record{Key: record.Key{CID: 1, MID: 2, MOID: 3, CapNs: 4, AcqNs: 1005},
		Payload: make([]byte, 16)}
	sum := func(change func(*record.Record)) Answer {
		r := base
		r.Payload = slices.Clone(base.Payload)
		change(&r)
		var b record.Batch
		b.AppendStamped(r.Key, r.Payload)
		var a Answer
		a.Add(&b, acqs)
		return a
	}
	want := sum(func(*record.Record) {})
	if got := sum(func(r *record.Record) { r.AcqNs = 1009 }); got != want {
		t.Error("another stamp of the same batch is another answer")
	}
	for i, change := range []func(*record.Record){
		func(r *record.Record) { r.CID = 2 }, func(r *record.Record) { r.MID = 3 },
		func(r *record.Record) { r.MOID = 4 }, func(r *record.Record) { r.CapNs = 5 },
		func(r *record.Record) { r.Payload[15] = 1 }, func(r *record.Record) { r.AcqNs = 999 },
		func(r *record.Record) { r.AcqNs = 1000 + BatchRows },
		func(r *record.Record) { r.AcqNs = 1000 + 3*BatchRows },
	} {
		if sum(change) == want {
			t.Errorf("change %d is not seen", i)
		}
	}
}
