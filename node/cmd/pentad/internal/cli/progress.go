package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
)

// LogEvery is the distance of progress lines where stderr is not a terminal: seldom enough for a
// log, often enough to see that a job is alive.
const LogEvery = 5 * time.Second

// Progress shows how far a long job is: a bar on a terminal, a line now and then elsewhere,
// nothing with --quiet. It starts no goroutine: it draws when it is told of progress.
type Progress struct {
	app          *App
	what         string
	total, done  int64 // bytes or records; total is -1 when it is not known
	bar          *progressbar.ProgressBar
	start, shown time.Time
}

// NewProgress begins a job of total bytes (records, when that is what is counted), -1 if that is
// not known.
func (a *App) NewProgress(what string, total int64, records bool) *Progress {
	p := &Progress{app: a, what: what, total: total, start: a.Now(), shown: a.Now()}
	if a.StderrTerminal && !a.Quiet && total > 0 {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(a.Stderr),
			progressbar.OptionSetDescription(what),
			progressbar.OptionShowBytes(!records),
			progressbar.OptionSetWidth(24),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionEnableColorCodes(!a.NoColor),
		)
	}
	return p
}

// Add tells of more done, and of the records stored so far.
func (p *Progress) Add(more, records int64) {
	p.done += more
	now := p.app.Now()
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
	if p.app.Quiet || now.Sub(p.shown) < LogEvery {
		return
	}
	p.shown = now
	share := ""
	if p.done > 0 && p.done <= p.total { // parts of a Parquet file are read more than once
		rest := float64(p.total-p.done) / float64(p.done)
		left := time.Duration(seconds * rest * float64(time.Second))
		share = fmt.Sprintf(", %d %%, about %s left", 100*p.done/p.total, output.Duration(left))
	}
	p.app.Note("%s: %s records, %s/s%s", p.what, output.Thousands(records), output.Thousands(rate),
		share)
}

// Close takes the bar away.
func (p *Progress) Close() {
	if p.bar != nil {
		_ = p.bar.Clear() // see add
	}
}

// ProgressReader tells of every read.
type ProgressReader struct {
	In       io.Reader
	Progress *Progress
	Records  func() int64
}

func (r *ProgressReader) Read(buf []byte) (int, error) {
	n, err := r.In.Read(buf)
	r.Progress.Add(int64(n), r.Records())
	return n, err
}
