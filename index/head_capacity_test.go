package index

import (
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// The space of a small head doubles, and ends with a piece.
func TestCapacityOfSmallHeads(t *testing.T) {
	var b record.Batch
	for i := range int64(600) {
		b.Append(record.Key{CID: 1, MID: i, MOID: 1, CapNs: i}, []byte("payload"))
	}
	b.AcqNs = make([]int64, b.Len())
	var rows arrivals
	grown, last := 0, 0
	for range pieceRows/b.Len() - 1 {
		rows.append(&b, 0)
		r := &rows.pieces[0].rows
		if capacity := cap(r.MID); capacity != last {
			if last > 0 && capacity < min(2*last, pieceRows) {
				t.Errorf("with %d rows, room for %d becomes room for %d", r.Len(), last, capacity)
			}
			grown, last = grown+1, capacity
		}
	}
	if grown > 8 || last > pieceRows+pieceRows/8 {
		t.Errorf("room was made %d times, at last for %d rows", grown, last)
	}
}
