package victoriametrics

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// span is milliseconds [from, to), asked for in one piece, or per step when step is not 0.
type span struct{ from, to, step int64 }

func (d *db) Ask(
	ctx context.Context, q *system.Query, take func(b *record.Batch),
) (uint64, error) {
	caps := q.Box[record.Cap]
	switch {
	case len(q.Box[record.Acq]) > 0 || q.View == record.ViewAsOf:
		return 0, system.UnsupportedError("a sample does not say when it was acquired")
	case q.Want == system.WantGroups && len(caps) > 1:
		return 0, system.UnsupportedError("groups of several ranges of time cannot be put together")
	case q.By.CapBucketNs%msNs != 0:
		return 0, system.UnsupportedError("buckets that are not whole milliseconds")
	}
	if len(caps) == 0 {
		caps = record.RangeSet{record.All(record.Cap)}
	}
	if q.Want == system.WantLast && len(caps) > 1 { // the last of the lasts
		r := system.NewReducer(q, take)
		_, err := d.each(ctx, q, caps, r.Add)
		return r.Finish(), err
	}
	return d.each(ctx, q, caps, take)
}

// each asks for each range of cap.
func (d *db) each(
	ctx context.Context, q *system.Query, caps record.RangeSet, take func(b *record.Batch),
) (uint64, error) {
	out := &rows{take: take}
	if q.Want == system.WantAbove {
		out.above = &q.Above
	}
	var count uint64
	for _, r := range caps {
		for _, s := range d.spans(r, q.By.CapBucketNs/msNs) {
			n, err := d.ask(ctx, q, s, out)
			if err != nil {
				return 0, err
			}
			count += n
		}
	}
	if out.flush(); q.Want == system.WantCount {
		return count, nil
	}
	return out.count, nil
}

// spans returns what to ask for: a range of time as a whole, or its whole buckets and what is
// before and behind them.
func (d *db) spans(caps record.Range, step int64) []span {
	extent := d.shape.Extent[record.Cap]
	all := span{ceilMs(max(caps.From, extent.From)), ceilMs(min(caps.To, extent.To)), 0}
	if all.from >= all.to {
		return nil
	}
	if step == 0 {
		return []span{all}
	}
	if caps.From <= extent.From {
		all.from = floor(all.from, step) // there is nothing before the first
	}
	if caps.To >= extent.To {
		all.to = -floor(-all.to, step)
	}
	first, last := -floor(-all.from, step), floor(all.to, step)
	if first > last { // within one bucket
		return []span{{all.from, all.to, 0}}
	}
	var out []span
	for _, s := range []span{{all.from, first, 0}, {first, last, step}, {last, all.to, 0}} {
		if s.from < s.to {
			out = append(out, s)
		}
	}
	return out
}

func floor(ms, step int64) int64 { return ms - ((ms%step)+step)%step }

// ceilMs rounds up, also before 1970.
func ceilMs(ns int64) int64 { return -floor(-ns, msNs) / msNs }

// ask asks for a span and returns its number of samples, with WantCount.
func (d *db) ask(ctx context.Context, q *system.Query, s span, out *rows) (uint64, error) {
	series, err := seriesOf(&q.Box, &d.shape.Extent)
	if err != nil {
		return 0, err
	}
	ms := func(v int64) string { return strconv.FormatFloat(float64(v)/1000, 'f', 3, 64) }
	if q.Want == system.WantRows || q.Want == system.WantAbove {
		text, err := d.http.get(ctx, "/api/v1/export", url.Values{"match[]": {series},
			"start": {ms(s.from)}, "end": {ms(s.to - 1)}})
		if err != nil {
			return 0, err
		}
		return 0, out.export(text)
	}
	// A rollup at t looks at (t-window, t].
	path, window := "/api/v1/query", s.to-s.from
	form := url.Values{"time": {ms(s.to - 1)}}
	if s.step > 0 {
		path, window = "/api/v1/query_range", s.step
		form = url.Values{"start": {ms(s.from + s.step - 1)}, "end": {ms(s.to - 1)},
			"step": {fmt.Sprintf("%dms", s.step)}}
	}
	form.Set("query", expression(q, fmt.Sprintf("%s[%dms]", series, window)))
	text, err := d.http.get(ctx, path, form)
	if err != nil {
		return 0, err
	}
	switch q.Want {
	case system.WantCount:
		return out.total(text)
	case system.WantLast:
		return 0, out.last(text)
	default:
		at := func(ms int64) int64 { return 0 }
		if width := q.By.CapBucketNs; width > 0 {
			at = func(ms int64) int64 { return floor(ms*msNs, width) }
		}
		return 0, out.groups(text, at)
	}
}

// expression returns the query of samples of a window.
func expression(q *system.Query, samples string) string {
	switch q.Want {
	case system.WantCount:
		return "sum(count_over_time(" + samples + "))"
	case system.WantLast:
		return `union(label_set(tlast_over_time(` + samples + `),"of","time"),` +
			`label_set(last_over_time(` + samples + `),"of","number"))`
	}
	var by []string
	for _, part := range []struct {
		grouped bool
		name    string
	}{{q.By.CID, "cid"}, {q.By.MID, "mid"}, {q.By.MOID, "moid"}} {
		if part.grouped {
			by = append(by, part.name)
		}
	}
	tail := " by (" + strings.Join(by, ",") + ")"
	sum := "sum(sum_over_time(" + samples + "))" + tail
	switch q.Func {
	case system.FuncMax:
		return "max(max_over_time(" + samples + "))" + tail
	case system.FuncMean:
		if len(by) == 3 {
			return "avg(avg_over_time(" + samples + "))" + tail // of one series each
		}
		return sum + " / sum(count_over_time(" + samples + "))" + tail
	default:
		return sum
	}
}
