package results

import (
	"bufio"
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/report"
)

// Keep saves a run in a folder of results, without the samples that only plots need.
func (m Measurement) Keep(run *report.Run, folder string) error {
	for i := range run.Results {
		r := &run.Results[i]
		for j := range r.Systems {
			r.Systems[j].Put.SamplesUs = nil
		}
		for j := range r.Queries {
			for k := range r.Queries[j].Times {
				r.Queries[j].Times[k].SamplesUs = nil
			}
		}
	}
	return run.Save(m.Path(folder))
}

// Measured reports whether the folder has the result of this command and commit. A tree with
// changes has no commit to compare.
func (m Measurement) Measured(folder, commit string) bool {
	run, err := report.Load(m.Path(folder))
	return err == nil && run.Commit == commit && run.Command == m.Command() && run.Source == "" &&
		!strings.HasSuffix(commit, "-dirty")
}

// ParseBenchmarks reads what go test -bench prints: each value with its unit becomes a figure.
func ParseBenchmarks(text []byte) (figure.List, error) {
	var out figure.List
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > 0 { // the number of processors
			name = name[:i]
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, err
			}
			out.Add(name, value, fields[i+1])
		}
	}
	if len(out) == 0 {
		return nil, errors.New("go test printed no benchmark")
	}
	return out, lines.Err()
}
