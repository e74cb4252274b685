package load

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// caps yields one record per cap, with its position as mid, and then an error, if there is one.
func caps(err error, caps ...int64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		payload := make([]byte, 8)
		for i, c := range caps {
			payload[0] = byte(i)
			if !yield(record.Record{Key: record.Key{MID: int64(i), CapNs: c}, Payload: payload},
				nil) {
				return
			}
		}
		if err != nil {
			yield(record.Record{}, err)
		}
	}
}

// TestReplayTiming replays, as a story of what was taken when.
func TestReplayTiming(t *testing.T) {
	const second = int64(time.Second)
	f := func(opt ReplayOptions, records iter.Seq2[record.Record, error], want string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			r := NewReplay(records, opt)
			clock := StartClock()
			got := ""
			for {
				task, ok := r.Next(t.Context(), clock)
				if !ok {
					break
				}
				for i := range task.Batch.Len() {
					if task.Batch.Payload(i)[0] != byte(task.Batch.MID[i]) {
						t.Errorf("record %d has the payload of another", task.Batch.MID[i])
					}
				}
				got += fmt.Sprintf("%s: %v due %s; ", clock.Elapsed(), task.Batch.MID, task.DueAt)
			}
			if err := r.Close(); err != nil {
				got += err.Error()
			}
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	all := ReplayOptions{Speed: 1, BatchRecords: 100, BatchBytes: 100}
	f(all, caps(nil), "")
	f(all, caps(nil, 7), "0s: [0] due 0s; ")
	f(all, caps(nil, 0, 0, second, 3*second), "0s: [0 1] due 0s; 1s: [2] due 1s; 3s: [3] due 3s; ")
	f(all, caps(nil, -second, 5*second, 2*second, 6*second), // the third came late
		"0s: [0] due 0s; 6s: [1 2] due 6s; 7s: [3] due 7s; ")
	f(all, caps(errBusy, 0, second), "0s: [0] due 0s; 1s: [1] due 1s; busy")
	f(ReplayOptions{Speed: 60, BatchRecords: 2, BatchBytes: 100}, caps(nil, 0, 0, 0, 60*second),
		"0s: [0 1] due 0s; 0s: [2] due 0s; 1s: [3] due 1s; ")
	f(ReplayOptions{Speed: 0.5, BatchRecords: 9, BatchBytes: 16}, caps(nil, 0, 0, 0, second),
		"0s: [0 1] due 0s; 0s: [2] due 0s; 2s: [3] due 2s; ")
	f(ReplayOptions{BatchRecords: 2, BatchBytes: 100}, caps(nil, 0, 9*second, 5, 7),
		"0s: [0 1] due 0s; 0s: [2 3] due 0s; ")
	f(ReplayOptions{Speed: 1e12, BatchRecords: 9, BatchBytes: 100}, caps(nil, math.MinInt64,
		math.MaxInt64-1), "0s: [0] due 0s; 18.446744ms: [1] due 18.446744ms; ")
}

// TestReplayLag replays through a node that is slower than the file.
func TestReplayLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []int64
		for i := range int64(10) {
			at = append(at, i*int64(time.Second))
		}
		r := run(Schedule{}, 1, func(ctx context.Context, i int64, _ int) error {
			if i == 2 {
				return after(ctx, 5*time.Second)
			}
			return after(ctx, time.Millisecond)
		})
		replay := NewReplay(caps(nil, at...), ReplayOptions{Speed: 1, BatchRecords: 100,
			BatchBytes: 1000})
		r.Source = replay
		var lags []time.Duration
		r.Tell = func(p Progress) { lags = append(lags, p.Lag) }
		report, err := r.Do(t.Context())
		if closeErr := replay.Close(); err != nil || closeErr != nil {
			t.Fatal(err, closeErr)
		}
		// Batches: 0, 1, 2 (slow), 3 to 7 when it is done, 8, 9.
		if report.All.Requests != 6 || report.MaxLag < 4*time.Second ||
			report.All.Latency.Max < 5*time.Second || report.Duration < 9*time.Second {
			t.Errorf("%+v", report)
		}
		if slices.Max(lags) < 3*time.Second || lags[len(lags)-1] != 0 {
			t.Errorf("lags %v", lags)
		}
	})
}

// TestReplayEnds stops waiting when the run ends.
func TestReplayEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(Schedule{}, 3, func(context.Context, int64, int) error { return nil })
		replay := NewReplay(caps(nil, 0, int64(time.Hour)), ReplayOptions{Speed: 1,
			BatchRecords: 1, BatchBytes: 1})
		r.Source = replay
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		report, err := r.Do(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || report.Duration != time.Minute ||
			report.All.Requests != 1 || replay.Close() != nil {
			t.Errorf("%v, %+v", err, report)
		}
	})
}

func TestSorted(t *testing.T) {
	f := func(want []int64, at ...int64) {
		t.Helper()
		sorted, err := Sorted(caps(nil, at...))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // it can be read again
			var got []int64
			for rec := range sorted.All() {
				got = append(got, rec.MID)
				if rec.Payload[0] != byte(rec.MID) {
					t.Errorf("record %d has the payload of another", rec.MID)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v: order %v, want %v", at, got, want)
			}
		}
	}
	f(nil)
	span := func(speed float64, want time.Duration, at ...int64) {
		t.Helper()
		sorted, err := Sorted(caps(nil, at...))
		if err != nil || sorted.Len() != len(at) || sorted.Takes(speed) != want {
			t.Errorf("%v: %v, %d records, %s", at, err, sorted.Len(), sorted.Takes(speed))
		}
	}
	span(1, 0)
	span(1, 0, 7)
	span(60, time.Minute, int64(time.Hour), 5, 0)
	span(1, math.MaxInt64, math.MaxInt64-1, math.MinInt64)
	f([]int64{0, 1, 2}, 1, 1, 1)
	f([]int64{2, 1, 0}, 3, 2, -1)
	f([]int64{1, 3, 0, 2}, 5, -5, 5, -5)
	if _, err := Sorted(caps(errBusy, 1)); !errors.Is(err, errBusy) {
		t.Error(err)
	}
}
