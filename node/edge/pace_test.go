package edge

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestPace cuts where records, bytes or the rate say so, never within an acq, and changes its size
// by how long batches take.
func TestPace(t *testing.T) {
	rows := func(n, size int, acq func(int) int64) *record.Batch {
		b := new(record.Batch)
		for i := range n {
			b.AppendStamped(record.Key{AcqNs: acq(i)}, make([]byte, size))
		}
		return b
	}
	each := func(i int) int64 { return int64(i) }
	f := func(p pace, b *record.Batch, from, want int) {
		t.Helper()
		if got := p.end(b, from); got != want {
			t.Errorf("%+v: from %d to %d, want %d", p, from, got, want)
		}
	}
	f(pace{most: 10}, rows(30, 1, each), 0, 10)
	f(pace{most: 10}, rows(30, 1, each), 25, 30)
	f(pace{most: 9000}, rows(3000, 1, each), 0, firstRecords)
	f(pace{most: 9000, records: 2000}, rows(3000, 1, each), 500, 2500)
	f(pace{most: 10}, rows(30, 1, func(i int) int64 { return int64(i / 4) }), 0, 12)
	f(pace{most: 10}, rows(30, 1, func(int) int64 { return 7 }), 0, 30)
	f(pace{most: 10}, rows(5, batchBytes, each), 2, 3)
	f(pace{most: 10}, rows(5, batchBytes/2-keyBytes, each), 0, 2)
	f(pace{most: 9000, rate: 1}, rows(900, 1<<10-keyBytes, each), 0, 64)

	synctest.Test(t, func(t *testing.T) {
		p := pace{most: 5000, records: 1000}
		sent := func(records int, took time.Duration, want int) {
			t.Helper()
			err := p.sent(t.Context(), &batch{Records: records, Bytes: 1000}, took)
			if err != nil || p.records != want {
				t.Fatalf("%d records in %v: then %d, want %d, %v", records, took, p.records, want,
					err)
			}
		}
		sent(999, time.Millisecond, 1000)
		sent(1000, time.Millisecond, 2000)
		sent(2000, 2*time.Second, 2000)
		sent(2000, time.Millisecond, 4000)
		sent(4000, time.Millisecond, 5000)
		sent(5000, 6*time.Second, 2500)
		for range 20 {
			sent(5000, time.Minute, max(leastRecords, p.records/2))
		}
		p.rate = 100
		began := time.Now()
		for range 6 {
			sent(1, 0, p.records)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("6,000 bytes at 100 a second took %v", took)
		}
	})
}

// TestBackOff doubles up to the longest pause, and is drawn around it.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, err := newUpstream([]string{"x:1"})
		if err != nil {
			t.Fatal(err)
		}
		w := backOff{most: time.Second}
		for i := range 20 {
			want := min(firstBackOff<<min(i, 10), time.Second)
			began := time.Now()
			if err := w.sleep(t.Context(), 0, u); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < want/2 || took > want+1 {
				t.Fatalf("pause %d took %v, want up to %v", i, took, want)
			}
		}
		began := time.Now()
		if err := w.sleep(t.Context(), time.Hour, u); err != nil || time.Since(began) < time.Hour {
			t.Errorf("told to wait for an hour, it waited %v, %v", time.Since(began), err)
		}
	})
}
