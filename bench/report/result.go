// Package report turns what a run measured into a table for terminals, a page for browsers, which
// needs no network, and plots.
//
// It measures nothing. Its main type is [Run].
package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pentad-db/pentad/bench/figure"
)

// Run is what one run measured.
type Run struct {
	Machine string        `json:"machine"`          // processor, cores, versions
	Commit  string        `json:"commit,omitempty"` // of what was measured
	Load    string        `json:"load,omitempty"`   // load average at the start
	LoadEnd string        `json:"load_end"`         // and at the end
	When    time.Time     `json:"when"`
	Took    time.Duration `json:"took_ns"`
	Command string        `json:"command"`
	Source  string        `json:"source,omitempty"` // of figures that no command wrote
	Results []Result      `json:"results"`
	Figures figure.List   `json:"figures,omitempty"` // of commands that compare no systems
}

// Result is a phase of a workload in several systems. The first system is the one that the others
// are compared with.
type Result struct {
	Workload string   `json:"workload"`
	Phase    string   `json:"phase"` // empty when there is one only
	About    string   `json:"about"`
	Records  int64    `json:"records"`
	Series   int      `json:"series"`
	Systems  []System `json:"systems"`
	Queries  []Query  `json:"queries"`
	LeftOut  []string `json:"left_out"` // systems that were not measured, and why
}

// System is one system and how it took the load.
type System struct {
	Name            string  `json:"name"`
	Version         string  `json:"version"`
	About           string  `json:"about"`            // schema and settings
	Durability      string  `json:"durability"`       // what a put waits for
	DurabilityClass string  `json:"durability_class"` // "synced", "written" or "buffered"
	Ingest          float64 `json:"ingest"`           // M records/s, acknowledged
	Settled         float64 `json:"settled"`          // M records/s, until it was ready for queries
	Rested          float64 `json:"rested"`           // M records/s, until at rest; 0: as Settled
	BytesPerRecord  float64 `json:"bytes_per_record"`
	Put             Time    `json:"put"`          // of a batch
	PeakMiB         float64 `json:"peak_mib"`     // memory under load, at most; 0 when unknown
	PeakOwnMiB      float64 `json:"peak_own_mib"` // the same without mapped files
}

// Query is one query and its times, by system.
type Query struct {
	Name  string  `json:"name"`
	About string  `json:"about"`
	Count bool    `json:"count"` // only the number of rows was asked for
	Rows  float64 `json:"rows"`  // mean over the boxes
	Times []Time  `json:"times"`
}

// Time summarises repeated measurements of one system. Unsupported says why there are none.
type Time struct {
	MedianUs    float64   `json:"median_us"`
	MinUs       float64   `json:"min_us"`
	MaxUs       float64   `json:"max_us"`
	P90Us       float64   `json:"p90_us"`
	P95Us       float64   `json:"p95_us"`
	P99Us       float64   `json:"p99_us"`
	Runs        int       `json:"runs"`
	SamplesUs   []float64 `json:"samples_us,omitempty"` // ascending; a sample of them when many
	Ratio       Ratio     `json:"ratio"`
	ToTwin      float64   `json:"to_twin,omitempty"`  // ratio to the same, asked with ids
	Blocks      float64   `json:"blocks,omitempty"`   // opened per answer, median over the boxes
	Examined    float64   `json:"examined,omitempty"` // rows of these
	Unsupported string    `json:"unsupported,omitempty"`
}

// Ratio is how many times as long as the first system, pair by pair of runs that followed one
// another.
type Ratio struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// maxSamples is how many samples a summary keeps.
const maxSamples = 200

// Summarise summarises runs, in microseconds.
func Summarise(us []float64) Time {
	if len(us) == 0 {
		return Time{}
	}
	sorted := slices.Sorted(slices.Values(us))
	at := func(share float64) float64 { return sorted[int(share*float64(len(sorted)-1)+0.5)] }
	t := Time{MedianUs: sorted[len(sorted)/2], MinUs: sorted[0], MaxUs: sorted[len(sorted)-1],
		P90Us: at(0.9), P95Us: at(0.95), P99Us: at(0.99), Runs: len(sorted)}
	samples := min(len(sorted), maxSamples)
	for i := range samples {
		t.SamplesUs = append(t.SamplesUs, sorted[i*(len(sorted)-1)/max(1, samples-1)])
	}
	return t
}

// SummariseRatios summarises the ratios of pairs.
func SummariseRatios(ratios []float64) Ratio {
	if len(ratios) == 0 {
		return Ratio{}
	}
	sorted := slices.Sorted(slices.Values(ratios))
	return Ratio{sorted[len(sorted)/2], sorted[0], sorted[len(sorted)-1]}
}

// label is the name, and the year of a version that is not the latest: its version ends with it.
func (s *System) label() string {
	if _, year, ok := strings.Cut(s.Version, versionYear); ok {
		return s.Name + " (" + year + ")"
	}
	return s.Name
}

// versionYear is between a version and its year, where the system says that.
const versionYear = ", of "

// Title names the workload and phase.
func (r *Result) Title() string {
	if r.Phase == "" {
		return r.Workload
	}
	return r.Workload + ", " + r.Phase
}

// Duration writes microseconds in the unit that suits.
func Duration(us float64) string {
	switch {
	case math.IsNaN(us) || us == 0:
		return "-"
	case us < 999.5: // more would be written as 1e+03
		return fmt.Sprintf("%.3g us", us)
	case us < 999.5e3:
		return fmt.Sprintf("%.3g ms", us/1e3)
	default:
		return fmt.Sprintf("%.3g s", us/1e6)
	}
}

// Times writes a ratio as people say it.
func Times(ratio float64) string {
	switch {
	case math.IsNaN(ratio) || ratio == 0:
		return "-"
	case ratio >= 100:
		return fmt.Sprintf("%.0fx", ratio)
	case ratio >= 10:
		return fmt.Sprintf("%.1fx", ratio)
	default:
		return fmt.Sprintf("%.2fx", ratio)
	}
}
