package index

import (
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// The space of a small head doubles, and ends with a row group.
func TestCapacityOfSmallHeads(t *testing.T) {
	var b record.Batch
	for i := range int64(600) {
		b.Append(record.Key{CID: 1, MID: i, MOID: 1, CapNs: i}, []byte("payload"))
	}
	b.AcqNs = make([]int64, b.Len())
	var rows appendedRows
	grown, last := 0, 0
	for range rowGroupRows/b.Len() - 1 {
		rows.append(&b, 0)
		r := &rows.groups[0].rows
		if capacity := cap(r.MID); capacity != last {
			if last > 0 && capacity < min(2*last, rowGroupRows) {
				t.Errorf("with %d rows, space for %d becomes space for %d", r.Len(), last, capacity)
			}
			grown, last = grown+1, capacity
		}
	}
	if grown > 8 || last > rowGroupRows+rowGroupRows/8 {
		t.Errorf("space was made %d times, at last for %d rows", grown, last)
	}
}
