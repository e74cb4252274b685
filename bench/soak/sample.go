package soak

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/bench/process"
)

// Sample is what a node takes at a moment.
type Sample struct {
	Seconds     float64 `json:"seconds"`    // since the sampler was made
	AnonBytes   float64 `json:"anon_bytes"` // resident, without mapped files
	HeapBytes   float64 `json:"heap_bytes"` // of Go, in use
	Goroutines  float64 `json:"goroutines"`
	Descriptors float64 `json:"descriptors"`
	Threads     float64 `json:"threads"`

	Rows         float64 `json:"rows"`
	SealedRows   float64 `json:"sealed_rows"`
	Segments     float64 `json:"segments"`
	SegmentBytes float64 `json:"segment_bytes"`
	IndexBytes   float64 `json:"index_bytes"`
	LogBytes     float64 `json:"log_bytes"`
	DirBytes     float64 `json:"dir_bytes"`   // without snapshots
	SpillFiles   float64 `json:"spill_files"` // of answers that are being ordered
	Modules      float64 `json:"modules"`
	Instances    float64 `json:"instances"`
	Versions     float64 `json:"versions"` // of plugins that were uploaded
	Writers      float64 `json:"writers"`
	Purged       float64 `json:"purged"` // rows so far
}

// String says the most of it in a line.
func (s Sample) String() string {
	const mib = 1 << 20
	return fmt.Sprintf("%4.0f s: %.0f MiB own, heap %.0f, %.0f goroutines, %.0f descriptors, "+
		"%.2f M rows, %.0f segments, %.1f B/row, index %.2f B/row, log %.0f MiB, files %.0f MiB",
		s.Seconds, s.AnonBytes/mib, s.HeapBytes/mib, s.Goroutines, s.Descriptors, s.Rows/1e6,
		s.Segments, s.perRow(s.SegmentBytes), s.perRow(s.IndexBytes), s.LogBytes/mib,
		s.DirBytes/mib)
}

// perRow divides by the sealed rows.
func (s Sample) perRow(bytes float64) float64 { return bytes / max(s.SealedRows, 1) }

// sampler looks at a node.
type sampler struct {
	addr  string
	pid   int
	dir   string
	web   *http.Client
	began time.Time
}

func (p *sampler) take(ctx context.Context) (s Sample, err error) {
	if p.began.IsZero() {
		p.began = time.Now()
	}
	s.Seconds = time.Since(p.began).Seconds()
	memory, err := process.Memory(p.pid)
	if err != nil {
		return s, err
	}
	s.AnonBytes = float64(memory.Anon)
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
	if err != nil {
		return s, err
	}
	s.Descriptors = float64(len(open))
	m, err := p.metrics(ctx)
	if err != nil {
		return s, err
	}
	s.HeapBytes, s.Goroutines = m["go_memstats_heap_inuse_bytes"], m["go_goroutines"]
	s.Threads = m["go_threads"]
	s.Rows = m["pentad_store_rows"]
	s.SealedRows = s.Rows - m["pentad_store_head_rows"]
	s.Segments, s.SegmentBytes = m["pentad_store_segments"], m["pentad_store_segment_bytes"]
	s.IndexBytes, s.LogBytes = m["pentad_store_index_bytes"], m["pentad_store_log_bytes"]
	s.Modules, s.Instances = m["pentad_wasmhost_modules"], m["pentad_wasmhost_instances"]
	s.Versions, s.Writers = m["pentad_node_plugin_versions"], m["pentad_store_writers"]
	s.Purged = m["pentad_store_purged_rows_total"]
	return s, p.files(&s)
}

// metrics reads those without labels.
func (p *sampler) metrics(ctx context.Context) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.addr+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := p.web.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/metrics: %s", resp.Status)
	}
	return parseMetrics(resp.Body)
}

func parseMetrics(r io.Reader) (map[string]float64, error) {
	m := map[string]float64{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, text, ok := strings.Cut(lines.Text(), " ")
		if !ok || name == "#" || strings.Contains(name, "{") {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("/metrics: %s: %w", name, err)
		}
		m[name] = v
	}
	return m, lines.Err()
}

// files adds up what lies in the directory, which changes meanwhile.
func (p *sampler) files(s *Sample) error {
	return filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "snapshots":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		s.DirBytes += float64(info.Size())
		if filepath.Base(filepath.Dir(path)) == "spill" {
			s.SpillFiles++
		}
		return nil
	})
}
