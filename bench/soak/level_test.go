package soak

import (
	"maps"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

func TestFigures(t *testing.T) {
	f := func(name string, grows bool, grow func(s *Sample, more float64)) {
		t.Helper()
		var r Report
		for i := range 30 {
			s := Sample{AnonBytes: 1, Goroutines: 1, Rows: 1, SealedRows: 1, IndexBytes: 1}
			grow(&s, float64(i)/30)
			r.Samples = append(r.Samples, s)
		}
		for _, figure := range r.Figures() {
			if figure.Name != name+", last third / middle third" {
				continue
			}
			if figure.Holds == nil || *figure.Holds == grows {
				t.Errorf("%+v", figure)
			}
			return
		}
		t.Errorf("no figure of %s", name)
	}
	f("memory without mapped files", false, func(*Sample, float64) {})
	f("memory without mapped files", true, func(s *Sample, more float64) { s.AnonBytes += more })
	f("goroutines", true, func(s *Sample, more float64) { s.Goroutines += more })
	f("index per record", false, func(s *Sample, more float64) {
		s.IndexBytes += more
		s.SealedRows += more
	})
	f("index per record", true, func(s *Sample, more float64) { s.IndexBytes += more })
}

func TestLeft(t *testing.T) {
	f := func(after Sample, want string) {
		t.Helper()
		r := Report{Before: Sample{Goroutines: 50, Descriptors: 60}, After: after}
		if err := r.Left(); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", after, err, want)
		}
	}
	short := Report{After: Sample{Goroutines: leftGoroutines + idleWorkers}, Short: true}
	if err := short.Left(); err != nil {
		t.Error(err)
	}
	if short.After.Goroutines++; short.Left() == nil {
		t.Error("a short soak may leave any number of goroutines")
	}
	f(Sample{Goroutines: 50 + leftGoroutines, Descriptors: 60 + leftDescriptors}, "")
	f(Sample{Goroutines: 51 + leftGoroutines, Descriptors: 60}, "goroutines more")
	f(Sample{Goroutines: 50, Descriptors: 61 + leftDescriptors}, "descriptors more")
}

func TestParseMetrics(t *testing.T) {
	got, err := parseMetrics(strings.NewReader("# HELP a b\n# TYPE a gauge\na 1\n" +
		"b{c=\"d e\"} 2\ngo_goroutines 1.5e+01\n"))
	want := map[string]float64{"a": 1, "go_goroutines": 15}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if _, err := parseMetrics(strings.NewReader("a b\n")); err == nil {
		t.Error("a metric may be no number")
	}
}

// TestReader wants a follower to notice what comes twice, or from elsewhere.
func TestReader(t *testing.T) {
	f := func(good bool, cid int32, acqs ...int64) {
		t.Helper()
		r := reader{t: &tenant{cid: 11}}
		b := &record.Batch{}
		for _, acq := range acqs {
			b.AppendStamped(record.Key{CID: cid, AcqNs: acq}, nil)
		}
		err := r.take(client.ChangeBatch{Rows: b.Head(1), ClosedNs: acqs[0] + 1})
		if err == nil && len(acqs) > 1 {
			rest := &record.Batch{}
			rest.AppendRows(b, 1, b.Len())
			err = r.take(client.ChangeBatch{Rows: rest, ClosedNs: acqs[len(acqs)-1] + 1})
		}
		if (err == nil) != good {
			t.Errorf("tenant %d, acqs %v: %v", cid, acqs, err)
		}
		if good && r.records != int64(len(acqs)) {
			t.Errorf("%d records of %d", r.records, len(acqs))
		}
	}
	f(true, 11, 1, 2, 3)
	f(false, 12, 1)
	f(false, 11, 1, 1)
	f(false, 11, 2, 1)
	f(false, 11, 1, 3, 2)
}
