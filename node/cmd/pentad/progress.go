package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
)

// logEvery is the distance of progress lines where stderr is not a terminal: seldom enough for a
// log, often enough to see that a job is alive.
const logEvery = 5 * time.Second

// progress shows how far a long job is: a bar on a terminal, a line now and then elsewhere,
// nothing with --quiet. It starts no goroutine: it draws when it is told of progress.
type progress struct {
	app          *app
	what         string
	total, done  int64 // bytes or records; total is -1 when it is not known
	bar          *progressbar.ProgressBar
	start, shown time.Time
}

// newProgress begins a job of total bytes (records, when that is what is counted), -1 if that is
// not known.
func (a *app) newProgress(what string, total int64, records bool) *progress {
	p := &progress{app: a, what: what, total: total, start: a.now(), shown: a.now()}
	if a.stderrTerminal && !a.quiet && total > 0 {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(a.stderr),
			progressbar.OptionSetDescription(what),
			progressbar.OptionShowBytes(!records),
			progressbar.OptionSetWidth(24),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionEnableColorCodes(!a.noColor),
		)
	}
	return p
}

// add tells of more done, and of the records stored so far.
func (p *progress) add(more, records int64) {
	p.done += more
	now := p.app.now()
	seconds := now.Sub(p.start).Seconds()
	rate := int64(float64(records) / max(seconds, 1e-3))
	if p.bar != nil {
		if now.Sub(p.shown) >= time.Second {
			p.bar.Describe(fmt.Sprintf("%s  %s records  %s/s", p.what, output.Thousands(records),
				output.Thousands(rate)))
			p.shown = now
		}
		_ = p.bar.Add64(more) // a bar that cannot be drawn must not end the job
		return
	}
	if p.app.quiet || now.Sub(p.shown) < logEvery {
		return
	}
	p.shown = now
	share := ""
	if p.done > 0 && p.done <= p.total { // parts of a Parquet file are read more than once
		rest := float64(p.total-p.done) / float64(p.done)
		left := time.Duration(seconds * rest * float64(time.Second))
		share = fmt.Sprintf(", %d %%, about %s left", 100*p.done/p.total, output.Duration(left))
	}
	p.app.note("%s: %s records, %s/s%s", p.what, output.Thousands(records), output.Thousands(rate),
		share)
}

// close takes the bar away.
func (p *progress) close() {
	if p.bar != nil {
		_ = p.bar.Clear() // see add
	}
}

// progressReader tells of every read.
type progressReader struct {
	in       io.Reader
	progress *progress
	records  func() int64
}

func (r *progressReader) Read(buf []byte) (int, error) {
	n, err := r.in.Read(buf)
	r.progress.add(int64(n), r.records())
	return n, err
}
