package results

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pentad-db/pentad/bench/report"
)

const (
	tableBegin = "<!-- make bench-results writes this table -->\n"
	tableEnd   = "<!-- end of the table -->\n"
	own        = "pentad"
)

// readmeQueries are those of the standard workload in the table of the README. Q3 and Q10 are left
// out, as they are like Q8 and Q9.
func readmeQueries() []string { return []string{"Q1", "Q2", "Q4", "Q5", "Q6", "Q7", "Q8", "Q9"} }

// Readme returns the text of a README with its table written from a run.
func Readme(text []byte, run *report.Run) ([]byte, error) {
	before, rest, ok := bytes.Cut(text, []byte(tableBegin))
	if !ok {
		return nil, fmt.Errorf("README: no line %q", strings.TrimSpace(tableBegin))
	}
	_, after, ok := bytes.Cut(rest, []byte(tableEnd))
	if !ok {
		return nil, fmt.Errorf("README: no line %q", strings.TrimSpace(tableEnd))
	}
	table, err := readmeTable(run)
	if err != nil {
		return nil, err
	}
	return slices.Concat(before, []byte(tableBegin), table, []byte(tableEnd), after), nil
}

func readmeTable(run *report.Run) ([]byte, error) {
	if len(run.Results) == 0 || len(run.Results[0].Systems) == 0 ||
		run.Results[0].Systems[0].Name != own {
		return nil, errors.New("README: the run has no result that begins with " + own)
	}
	r := &run.Results[0]
	var out bytes.Buffer
	fmt.Fprintf(&out, "| %.0f million records, %s, commit %s | pentad | best of the others |\n",
		float64(r.Records)/1e6, run.When.UTC().Format(time.DateOnly), run.Commit)
	out.WriteString("|---|---:|---:|\n")
	row(&out, r, "ingest until ready for queries, M records/s", "%.2f",
		func(s report.System) float64 { return s.Settled },
		func(a, b float64) bool { return a > b })
	row(&out, r, "bytes on disk per record", "%.1f",
		func(s report.System) float64 { return s.BytesPerRecord },
		func(a, b float64) bool { return a < b })
	for _, q := range r.Queries {
		if slices.Contains(readmeQueries(), q.Name) {
			fmt.Fprintf(&out, "| %s: %s | %s | %s |\n", q.Name, q.About,
				report.Duration(q.Times[0].MedianUs), bestTime(r, q))
		}
	}
	return out.Bytes(), nil
}

// row writes a value of the first system, and that of the other which is best.
func row(out *bytes.Buffer, r *report.Result, label, format string,
	value func(report.System) float64, better func(a, b float64) bool,
) {
	best, name := 0.0, ""
	for _, s := range r.Systems[1:] {
		if v := value(s); other(s.Name) && v > 0 && (name == "" || better(v, best)) {
			best, name = v, s.Name
		}
	}
	fmt.Fprintf(out, "| %s | "+format+" | ", label, value(r.Systems[0]))
	if name == "" {
		out.WriteString("- |\n")
		return
	}
	fmt.Fprintf(out, format+" (%s) |\n", best, name)
}

// bestTime is the least ratio of another system.
func bestTime(r *report.Result, q report.Query) string {
	best, name := 0.0, ""
	for i, s := range r.Systems {
		if v := q.Times[i].Ratio.Median; other(s.Name) && v > 0 && (name == "" || v < best) {
			best, name = v, s.Name
		}
	}
	if name == "" {
		return "-"
	}
	return report.Times(best) + " (" + name + ")"
}

// other reports whether a system is not pentad in one of its forms.
func other(name string) bool { return name != own && !strings.HasPrefix(name, own+"-") }
