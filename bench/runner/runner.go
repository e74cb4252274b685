// Package runner measures systems beside one another on a workload: it loads each by itself, asks
// all in turn, and compares every answer with the oracle's.
//
// It knows no system and no workload. What was measured is in a journal, so that an interrupted run
// goes on where it stopped. Its main type is [Runner].
package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pentad-db/pentad/bench/journal"
	"github.com/pentad-db/pentad/bench/report"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
)

// Runner runs one workload.
type Runner struct {
	Out      io.Writer // what happens, a line each
	Dir      string    // the data; it is kept, and opened again by the next run
	Journal  *journal.Journal
	Workload *workload.Workload
	Kinds    []system.Kind
	Budget   time.Duration // per query and system; three boxes at least are asked
	// Passes is how often all queries are gone through, each time with a share of the budget, so
	// that a noisy minute touches a part of each figure and not all of one. Default 1. The journal
	// has the queries when the last pass has.
	Passes int
	// Growing says that records are put meanwhile: a timed answer may have more rows than the
	// oracle's, never fewer, and answers that are bounded to the oracle's records are compared.
	Growing bool

	survey  *workload.Survey
	running []running
	leftOut []string
}

// running is a system that is being measured.
type running struct {
	kind system.Kind
	db   system.System // nil while closed
}

func (r *Runner) say(format string, args ...any) { fmt.Fprintf(r.Out, format+"\n", args...) }

// Run measures and returns a result per phase.
func (r *Runner) Run(ctx context.Context) (results []report.Result, err error) {
	r.say("\n%s: %s", r.Workload.Name, r.Workload.About)
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return nil, err
	}
	// Servers that run as users of their own look in, whatever the umask says.
	if err := os.Chmod(r.Dir, 0o755); err != nil {
		return nil, err
	}
	r.survey = r.Workload.NewSurvey()
	for _, k := range r.Kinds {
		r.running = append(r.running, running{kind: k})
	}
	defer func() { err = errors.Join(err, r.closeAll()) }()
	for i := range r.Workload.Phases {
		result, err := r.phase(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Workload.Name, err)
		}
		results = append(results, result)
	}
	return results, nil
}

func (r *Runner) phase(ctx context.Context, i int) (result report.Result, err error) {
	phase := r.Workload.Phases[i]
	before := r.survey.Shape.Records
	if err := r.survey.Add(phase); err != nil {
		return result, err
	}
	if i == len(r.Workload.Phases)-1 {
		r.survey.End()
	}
	shape := r.survey.Shape
	result = report.Result{Workload: r.Workload.Name, Phase: phase.Name, About: r.Workload.About,
		Records: shape.Records - before, Series: shape.Series}
	r.say("%s%d records, %d series", title(phase), result.Records, shape.Series)
	var still []running
	for _, x := range r.running {
		loaded, err := r.load(ctx, x.kind, i)
		reason, ok := leaves(err)
		switch {
		case ok:
			r.say("%-16s left out: %s", x.kind.Name, reason)
			r.leftOut = append(r.leftOut, x.kind.Name+": "+reason)
			// For this run: what was asked so far has no times of it.
			if err := r.Journal.Record(r.step("leave out", i, x.kind.Name), reason); err != nil {
				return result, err
			}
		case err != nil:
			return result, fmt.Errorf("%s: %w", x.kind.Name, err)
		default:
			still = append(still, x)
			result.Systems = append(result.Systems, loaded)
		}
	}
	r.running = still
	result.LeftOut = slices.Clone(r.leftOut)
	if len(still) == 0 {
		return result, errors.New("no system is left")
	}
	result.Queries, err = r.queries(ctx, i)
	return result, errors.Join(err, r.closeAll())
}

// Ask asks the queries of a workload of one phase of systems that are open and loaded already, one
// of each kind. They stay open.
func (r *Runner) Ask(
	ctx context.Context, survey *workload.Survey, open []system.System,
) ([]report.Query, error) {
	r.survey = survey
	for i, k := range r.Kinds {
		r.running = append(r.running, running{kind: k, db: open[i]})
	}
	return r.queries(ctx, 0)
}

// AskKnown asks queries whose answers are known of systems that are open and loaded already, one of
// each kind. They stay open; nothing comes from the journal or goes there.
func (r *Runner) AskKnown(
	ctx context.Context, survey *workload.Survey, open []system.System, queries []workload.Query,
	want [][]workload.Answer,
) (out []report.Query, err error) {
	r.survey = survey
	for i, k := range r.Kinds {
		r.running = append(r.running, running{kind: k, db: open[i]})
	}
	return out, r.passes(ctx, queries, want, func(_ int, q report.Query) error {
		out = append(out, q)
		return nil
	})
}

func title(p workload.Phase) string {
	if p.Name == "" {
		return ""
	}
	return p.Name + ": "
}

// leaves reports whether an error means that a system does not take part, and why.
func leaves(err error) (string, bool) {
	if missing := system.MissingError(""); errors.As(err, &missing) {
		return missing.Error(), true
	}
	if unsupported := system.UnsupportedError(""); errors.As(err, &unsupported) {
		return unsupported.Error(), true
	}
	return "", false
}

func (r *Runner) folder(k system.Kind) string { return filepath.Join(r.Dir, k.Name) }

func (r *Runner) closeAll() error {
	var errs []error
	for i := range r.running {
		if db := r.running[i].db; db != nil {
			r.running[i].db = nil
			if err := db.Close(); err != nil {
				errs = append(errs, fmt.Errorf("%s: close: %w", r.running[i].kind.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// openAll opens what is closed.
func (r *Runner) openAll(ctx context.Context) error {
	for i := range r.running {
		x := &r.running[i]
		if x.db != nil {
			continue
		}
		db, err := x.kind.Open(ctx, r.folder(x.kind), r.survey.Shape)
		if err != nil {
			return fmt.Errorf("%s: open: %w", x.kind.Name, err)
		}
		x.db = db
	}
	return nil
}
