package load

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// TestHistogram compares with all values, sorted.
func TestHistogram(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	h := newHistogram()
	var all []time.Duration
	total := time.Duration(0)
	for range 50_000 {
		d := time.Duration(random.ExpFloat64() * float64(3*time.Millisecond))
		h.add(d)
		all = append(all, d)
		total += d
	}
	slices.Sort(all)
	l := h.latencies()
	f := func(name string, got, want time.Duration) {
		t.Helper()
		if diff := max(got-want, want-got); diff > want/500+time.Microsecond {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	f("mean", l.Mean, total/50_000)
	f("p50", l.P50, all[25_000])
	f("p90", l.P90, all[45_000])
	f("p99", l.P99, all[49_500])
	f("p99.9", l.P999, all[49_950])
	if l.Max != all[49_999] || l.Count != 50_000 {
		t.Errorf("max %s, want %s; %d values", l.Max, all[49_999], l.Count)
	}
}

// TestPercentilesOfFew has 1 to n milliseconds, so that a percentile is its own rank.
func TestPercentilesOfFew(t *testing.T) {
	f := func(n int, p50, p90, p99, p999 time.Duration) {
		t.Helper()
		h := newHistogram()
		for i := range n {
			h.add(time.Duration(i+1) * time.Millisecond)
		}
		l := h.latencies()
		for i, got := range []time.Duration{l.P50, l.P90, l.P99, l.P999} {
			want := []time.Duration{p50, p90, p99, p999}[i] * time.Millisecond
			if got < want || got > want+want/500 {
				t.Errorf("of %d: %s, want %s", n, got, want)
			}
		}
	}
	f(1, 1, 1, 1, 1)
	f(2, 1, 2, 2, 2)
	f(3, 2, 3, 3, 3)
	f(10, 5, 9, 10, 10)
	f(11, 6, 10, 11, 11)
	f(52, 26, 47, 52, 52) // 51 of 52 are 98 %
	f(100, 50, 90, 99, 100)
	f(101, 51, 91, 100, 101)
	f(501, 251, 451, 496, 501)
	f(1000, 500, 900, 990, 999)
	f(1001, 501, 901, 991, 1000)
	f(7000, 3500, 6300, 6930, 6993)
}

func TestHistogramEdges(t *testing.T) {
	h := newHistogram()
	if l := h.latencies(); l != (Latencies{}) {
		t.Errorf("of nothing: %+v", l)
	}
	h.add(-time.Second) // a clock that was set
	h.add(0)
	h.add(3 * time.Hour)
	l := h.latencies()
	if l.Count != 3 || l.Max != 3*time.Hour || l.Mean != time.Hour || l.P999 < time.Hour {
		t.Errorf("%+v", l)
	}
	if size := h.counts.ByteSize(); size > 200_000 {
		t.Errorf("a histogram has %d bytes", size)
	}
	h.reset()
	if l := h.latencies(); l != (Latencies{}) {
		t.Errorf("after reset: %+v", l)
	}
}

// TestReport adds up kinds.
func TestReport(t *testing.T) {
	r := newRecorder([]string{"a", "b", "c"})
	for i := range 100 {
		d := time.Duration(i+1) * time.Millisecond
		r.begin(0, d)
		r.success(i%2, Answer{Records: 1, Counted: 2, PayloadBytes: 3}, d, 2*d, d)
	}
	r.begin(0, 0)
	r.failure(1, "busy", errBusy, 0)
	r.retry(1)
	r.failure(1, "busy", errBusy, 0)
	r.lost(1)
	r.begin(0, 0)
	r.left()
	out := r.report(time.Minute)
	if len(out.Kinds) != 3 || out.Duration != time.Minute || out.MaxLag != 100*time.Millisecond {
		t.Fatalf("%+v", out)
	}
	if b := out.Kinds[1]; b.Requests != 51 || b.Failed != 1 || b.Retries != 1 || b.Records != 50 ||
		b.Latency.Max != 200*time.Millisecond || b.Service.Max != 100*time.Millisecond {
		t.Errorf("%+v", b)
	}
	all := out.All
	if all.Requests != 101 || all.Failed != 1 || all.Records != 100 || all.Counted != 200 ||
		all.PayloadBytes != 300 || all.Latency.Count != 100 ||
		all.Latency.Max != 200*time.Millisecond ||
		!reflect.DeepEqual(all.Errors, map[string]int64{"busy": 2}) {
		t.Errorf("%+v", all)
	}
	if c := out.Kinds[2]; c.Requests != 0 || c.Latency.Count != 0 {
		t.Errorf("%+v", c)
	}
}

// TestProgressWindows has each second speak for itself.
func TestProgressWindows(t *testing.T) {
	r := newRecorder([]string{"a"})
	r.begin(0, 0)
	r.success(0, Answer{Records: 10}, 0, time.Second, time.Second)
	if p := r.progress(time.Second, 0); p.Requests != 1 || p.Rate != 10 || p.P99 != time.Second {
		t.Errorf("%+v", p)
	}
	if p := r.progress(2*time.Second, time.Second); !p.Idle || p.Rate != 0 || p.P99 != 0 ||
		p.Records != 10 || p.Lag != time.Second {
		t.Errorf("%+v", p)
	}
}

// A request that begins long after one that failed is not late; once it fails, too, nothing
// succeeded for all of that time.
func TestQuietBetweenRequests(t *testing.T) {
	r := newRecorder([]string{"put"})
	f := func(now, want time.Duration) {
		t.Helper()
		if got, _ := r.quiet(now); got != want {
			t.Errorf("at %v nothing succeeded for %v, want %v", now, got, want)
		}
	}
	r.begin(0, 0)
	f(2*time.Second, 2*time.Second)
	r.failure(0, "busy", errBusy, 3*time.Second)
	r.lost(0)
	f(50*time.Second, 3*time.Second)
	r.begin(100*time.Second, 0)
	f(100*time.Second, 3*time.Second)
	f(104*time.Second, 7*time.Second)
	r.failure(0, "busy", errBusy, 105*time.Second)
	r.lost(0)
	f(200*time.Second, 105*time.Second)
	r.begin(300*time.Second, 0)
	r.success(0, Answer{}, 301*time.Second, 1, 1)
	f(400*time.Second, 0)
}
