package index

import (
	"errors"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestScanLargePayloads: a batch stays near the bound of payload bytes, whichever way rows are
// found, and none is lost where a batch ends inside a chunk.
func TestScanLargePayloads(t *testing.T) {
	const rows, size = 90, 300 << 10
	h := NewHead(NewWatermarks())
	b := new(record.Batch)
	payload := make([]byte, size)
	for i := range rows {
		payload[0], payload[size-1] = byte(i), byte(i)
		b.AppendStamped(record.Key{MID: int64(i % 3), CapNs: int64(i), AcqNs: 1000 + int64(i)},
			payload[:size-i])
	}
	h.Insert(b)
	f := func(name string, x record.Box, want, most int) {
		t.Helper()
		got, batches := 0, 0
		err := h.Scan(&x, record.Acq.Max(), false, func(b *record.Batch, _ []uint64) error {
			batches++
			if len(b.Data) >= scanBytes+size {
				t.Errorf("%s: a batch of %d bytes", name, len(b.Data))
			}
			for i := range b.Len() {
				p, id := b.Payload(i), b.CapNs[i]
				if len(p) != size-int(id) || p[0] != byte(id) {
					t.Errorf("%s: row %d has another's payload", name, id)
				}
				got++
			}
			return nil
		})
		if err != nil || got != want || batches > most {
			t.Errorf("%s: %d rows in %d batches, want %d, %v", name, got, batches, want, err)
		}
	}
	f("all", record.Box{}, rows, 5)
	f("device", record.Box{record.CID: {record.At(0)}, record.MOID: {record.At(0)},
		record.MID: {record.At(1)}}, rows/3, 2)
	f("one", record.Box{record.Acq: {record.At(1007)}}, 1, 1)
}

// TestScanStopsByArrival: an error of emit ends a scan that goes by arrival, too.
func TestScanStopsByArrival(t *testing.T) {
	h, b := NewHead(NewWatermarks()), new(record.Batch)
	for i := range 100_000 {
		b.AppendStamped(record.Key{CapNs: int64(i), AcqNs: int64(i)}, nil)
	}
	h.Insert(b)
	enough, calls, rows := errors.New("enough"), 0, 0
	x := record.Box{record.Acq: {{From: 50_000, To: 60_000}}}
	err := h.Scan(&x, record.Acq.Max(), true, func(b *record.Batch, _ []uint64) error {
		calls, rows = calls+1, rows+b.Len()
		if calls == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || calls != 2 || rows != 2*scanRows {
		t.Errorf("%d calls with %d rows, %v", calls, rows, err)
	}
}
