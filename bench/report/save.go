package report

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
)

// Save writes the run as JSON, from which [Load] reads it.
func (r *Run) Save(path string) error {
	text, err := json.MarshalIndent(r.clean(), "", "\t")
	if err != nil {
		return fmt.Errorf("save run: %w", err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Load reads a run that was saved, or written by hand: it may lack times.
func Load(path string) (*Run, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(Run)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("load run %s: %w", path, err)
	}
	return r.clean(), nil
}

// clean returns a copy that is safe to show: zero in place of what is not a number, which JSON
// cannot say and no axis can hold, and one time per query and system.
func (r *Run) clean() *Run {
	out := *r
	out.Results = slices.Clone(r.Results)
	for i := range out.Results {
		x := &out.Results[i]
		x.Systems, x.Queries = slices.Clone(x.Systems), slices.Clone(x.Queries)
		for j := range x.Systems {
			s := &x.Systems[j]
			finite(&s.Ingest, &s.Settled, &s.Rested, &s.BytesPerRecord, &s.PeakMiB, &s.PeakOwnMiB)
			s.Put = s.Put.clean()
		}
		for j := range x.Queries {
			q := &x.Queries[j]
			finite(&q.Rows)
			times := make([]Time, len(x.Systems))
			copy(times, q.Times)
			for k := range times {
				times[k] = times[k].clean()
			}
			q.Times = times
		}
	}
	return &out
}

func (t Time) clean() Time {
	finite(&t.MedianUs, &t.MinUs, &t.MaxUs, &t.P90Us, &t.P95Us, &t.P99Us, &t.Blocks,
		&t.Examined,
		&t.Ratio.Median, &t.Ratio.Min, &t.Ratio.Max)
	t.SamplesUs = slices.DeleteFunc(slices.Clone(t.SamplesUs), func(us float64) bool {
		return us <= 0 || math.IsNaN(us) || math.IsInf(us, 0)
	})
	return t
}

func finite(values ...*float64) {
	for _, v := range values {
		if math.IsNaN(*v) || math.IsInf(*v, 0) || *v < 0 {
			*v = 0
		}
	}
}

// measured reports whether there is a time at all.
func (t Time) measured() bool { return t.Unsupported == "" && t.MedianUs > 0 }
