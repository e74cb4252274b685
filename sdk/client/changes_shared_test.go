package client

import (
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestChangesOfSharedAcqs: the position between records that share an acq lies before them.
func TestChangesOfSharedAcqs(t *testing.T) {
	b := ChangeBatch{Rows: &record.Batch{}}
	for mid, acq := range []int64{4, 5, 5, 5, 8} {
		b.Rows.AppendStamped(record.Key{MID: int64(mid), AcqNs: acq}, nil)
	}
	var closed []int64
	b.each(func(ch Change, err error) bool {
		closed = append(closed, ch.ClosedNs)
		return err == nil
	})
	if want := []int64{5, 5, 5, 6, 9}; !slices.Equal(closed, want) {
		t.Errorf("positions %d, want %d", closed, want)
	}
}
