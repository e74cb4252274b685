package load

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms count from 1 us to 1 h with 3 digits, in 197 KB each; what took longer counts as an
// hour, and its maximum is exact all the same.
const (
	minTracked   = time.Microsecond
	maxTracked   = time.Hour
	trackedDigit = 3
)

// histogram counts latencies.
type histogram struct {
	counts  *hdrhistogram.Histogram
	sum     float64 // ns
	longest time.Duration
}

func newHistogram() *histogram {
	return &histogram{counts: hdrhistogram.New(int64(minTracked), int64(maxTracked), trackedDigit)}
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.sum += float64(d)
	h.longest = max(h.longest, d)
	if err := h.counts.RecordValue(int64(min(d, maxTracked))); err != nil {
		panic("BUG: a latency within the limits: " + err.Error())
	}
}

func (h *histogram) merge(other *histogram) {
	h.sum += other.sum
	h.longest = max(h.longest, other.longest)
	if n := h.counts.Merge(other.counts); n > 0 {
		panic(fmt.Sprintf("BUG: %d latencies lost between equal histograms", n))
	}
}

func (h *histogram) reset() {
	h.counts.Reset()
	h.sum, h.longest = 0, 0
}

// at returns a percentile: the least value that this share of all do not exceed. Of 60 values
// 59 are not yet 99 %, so that the 99th percentile is the greatest.
func (h *histogram) at(percent float64) time.Duration {
	n := float64(h.counts.TotalCount())
	if n == 0 {
		return 0
	}
	// The library rounds ranks to the nearest, which may be too low; it is asked for a whole one.
	// Products of whole ranks may come out a little above them.
	rank := max(1, math.Ceil(percent/100*n-1e-6))
	// The end of a bucket may lie above everything that fell into it.
	return min(time.Duration(h.counts.ValueAtPercentile(100*rank/n)), h.longest)
}

// Latencies is how long answers took.
type Latencies struct {
	Count                          int64 // of answers; with 0 the rest says nothing
	Mean, P50, P90, P99, P999, Max time.Duration
}

func (h *histogram) latencies() Latencies {
	l := Latencies{Count: h.counts.TotalCount()}
	if l.Count == 0 {
		return l
	}
	l.Mean = time.Duration(math.Round(h.sum / float64(l.Count)))
	l.P50, l.P90, l.P99, l.P999 = h.at(50), h.at(90), h.at(99), h.at(99.9)
	l.Max = h.longest
	return l
}

// Summary is what came of the requests of one kind, or of all.
type Summary struct {
	Kind         string
	Requests     int64            // that ended, well or not
	Failed       int64            // that did not succeed in the end
	Retries      int64            // sent once more
	Errors       map[string]int64 // of single attempts, by name
	Records      int64            // that travelled
	Counted      int64            // that the node only counted
	PayloadBytes int64
	Latency      Latencies // from when a request was due until its good answer
	Service      Latencies // from when it was sent
}

// Report is the outcome of a run.
type Report struct {
	Duration time.Duration
	Kinds    []Summary
	All      Summary
	MaxLag   time.Duration // how long after it was due a request was sent, at most
}

// Progress is a run at one time; what is said of the last second counts from the report before.
type Progress struct {
	Elapsed           time.Duration
	Requests, Records int64   // good ones so far, and what travelled with them
	RequestRate, Rate float64 // of requests and records per second, in the last second
	P50, P99          time.Duration
	Idle              bool // nothing was answered in the last second, so P50 and P99 are 0
	Errors            int64
	Lag               time.Duration
}

// recorder counts what happens in a run. Its methods may be called from many goroutines.
type recorder struct {
	mu     sync.Mutex // guards all below
	kinds  []kindCounts
	maxLag time.Duration

	window        *histogram // since the last progress
	windowRecords int64
	windowStart   time.Duration
	good, records int64
	errors        int64
	inFlight      int
	failing       bool          // the last request to end failed
	failedAt      time.Duration // the last failure
	quietSince    time.Duration // the last success, or the first request that waits for one
	unasked       time.Duration // how long after a failure those in flight were begun
	lastErr       error
}

type kindCounts struct {
	Summary
	latency, service *histogram
}

func newRecorder(kinds []string) *recorder {
	r := &recorder{window: newHistogram()}
	for _, name := range kinds {
		r.kinds = append(r.kinds, kindCounts{Summary{Kind: name, Errors: map[string]int64{}},
			newHistogram(), newHistogram()})
	}
	return r
}

func (r *recorder) begin(now, lag time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.inFlight == 0 && !r.failing:
		r.quietSince, r.unasked = now, 0
	case r.inFlight == 0:
		r.unasked = now - r.failedAt
	}
	r.inFlight++
	r.maxLag = max(r.maxLag, lag)
}

func (r *recorder) success(kind int, a Answer, now, latency, service time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := &r.kinds[kind]
	k.Requests++
	k.Records += a.Records
	k.Counted += a.Counted
	k.PayloadBytes += a.PayloadBytes
	k.latency.add(latency)
	k.service.add(service)
	r.window.add(latency)
	r.windowRecords += a.Records
	r.good++
	r.records += a.Records
	r.inFlight--
	r.failing, r.quietSince, r.unasked, r.lastErr = false, now, 0, nil
}

// failure counts an attempt that failed; the request may be tried again.
func (r *recorder) failure(kind int, name string, err error, now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds[kind].Errors[name]++
	r.errors++
	if err != nil {
		r.lastErr = err
	}
	r.failing, r.failedAt = true, now
}

func (r *recorder) retry(kind int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds[kind].Retries++
}

// lost counts a request that is not tried again.
func (r *recorder) lost(kind int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds[kind].Requests++
	r.kinds[kind].Failed++
	r.inFlight--
}

// left forgets a request that was not finished when the run ended.
func (r *recorder) left() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight--
}

// quiet returns for how long nothing succeeded although something was asked, and the last error.
func (r *recorder) quiet(now time.Duration) (time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.inFlight == 0 && !r.failing:
		return 0, nil
	case r.inFlight == 0: // no request has been sent since
		return r.failedAt - r.quietSince, r.lastErr
	}
	// A request that has just begun, long after one that failed, is not late for that.
	return now - r.quietSince - r.unasked, r.lastErr
}

// progress returns the state and begins the next window.
func (r *recorder) progress(now, lag time.Duration) Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	seconds := max((now - r.windowStart).Seconds(), 1e-9)
	n := r.window.counts.TotalCount()
	p := Progress{Elapsed: now, Requests: r.good, Records: r.records, Errors: r.errors, Lag: lag,
		RequestRate: float64(n) / seconds, Rate: float64(r.windowRecords) / seconds,
		P50: r.window.at(50), P99: r.window.at(99), Idle: n == 0}
	r.window.reset()
	r.windowRecords, r.windowStart = 0, now
	return p
}

func (r *recorder) report(took time.Duration) Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := Report{Duration: took, MaxLag: r.maxLag}
	all := kindCounts{Summary{Kind: "all", Errors: map[string]int64{}}, newHistogram(),
		newHistogram()}
	for i := range r.kinds {
		k := &r.kinds[i]
		k.Latency, k.Service = k.latency.latencies(), k.service.latencies()
		out.Kinds = append(out.Kinds, k.Summary)
		all.Requests += k.Requests
		all.Failed += k.Failed
		all.Retries += k.Retries
		all.Records += k.Records
		all.Counted += k.Counted
		all.PayloadBytes += k.PayloadBytes
		for name, n := range k.Errors {
			all.Errors[name] += n
		}
		all.latency.merge(k.latency)
		all.service.merge(k.service)
	}
	all.Latency, all.Service = all.latency.latencies(), all.service.latencies()
	out.All = all.Summary
	return out
}
