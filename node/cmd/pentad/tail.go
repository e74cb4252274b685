package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// commitEvery is how often a cursor is committed while records come.
	commitEvery = time.Second
	// lastCommit bounds the commit after an interrupt.
	lastCommit = 5 * time.Second
	// commitWithin is how long commits may fail while nodes of a cluster come and go, as long as
	// the feed itself goes on.
	commitWithin = 30 * time.Second
)

// tailFlags are the flags of tail.
type tailFlags struct {
	queryflags.Flags

	since, cursor string
	once          bool
	kind          queryflags.TypeFlag
}

func (a *app) tailCommand() *cobra.Command {
	var f tailFlags
	c := &cobra.Command{
		Use:   "tail",
		Short: "Follow changes in the order of acq",
		Long: `Follow changes in the order of acq from any point in time, until interrupted or, with --once, up to
the horizon. The column event says what a row is: put, delete (a tombstone), or erase, purge and
retention, whose selectors are in the other columns. Each change comes exactly once, even if the
connection breaks: tail reconnects and continues.

--select shows a record if its device met the selector when the record came, by what was known of
it then: devices enter and leave as descriptions change, and erases are shown in any case.

--cursor makes the node store the position under this name, and the next run continues there, at
least once for each record. --since is the start of a cursor that does not exist yet. A cursor keeps
a digest of the question, i.e. of the selectors, --select, --where and --filter: another question is
refused, as what the first one left out would not come. Give each question a cursor of its own.

The output is ndjson unless -o says otherwise; a table or one JSON document needs --once or --limit.`,
		Args: cli.NoCommand,
		Example: `  pentad tail --cid 1 --type f64
  pentad tail --once --since now-1h --cid 1 --type f64
  pentad tail --once --cursor energy --since 2026-01-01 --moid 1 -o csv
  pentad tail --once --since now-1h --filter threshold --filter-params value=3 -o table`,
		RunE: func(c *cobra.Command, _ []string) error { return a.tail(c.Context(), &f) },
	}
	f.AddKeyFlags(c)
	f.AddNames(c)
	f.AddSelect(c)
	f.AddFilter(c)
	f.Type = &f.kind
	flags := c.Flags()
	flags.Var((*cli.FilledFlag)(&f.since), "since",
		"start: an acq in ns, a time, or now (default: now; with --once the first record)")
	flags.Var((*cli.FilledFlag)(&f.cursor), "cursor",
		"name of the cursor to continue from and to move")
	flags.BoolVar(&f.once, "once", false, "end at the horizon instead of waiting for more")
	flags.Uint64Var(&f.Limit, "limit", 0, "maximum number of rows, e.g. 100 (0: no limit)")
	f.kind.Add(c, "type of payloads", "PENTAD_TYPE or base64")
	return c
}

// tailing is one run of tail.
type tailing struct {
	app    *cli.App
	db     *client.Client
	out    *output.Writer
	limit  uint64
	cursor string
	// question is the digest of what is asked for.
	question string

	payloads            *queryflags.Payloads
	quantityAt, valueAt int // columns

	closedNs  int64 // all below is in the output
	committed int64
	last      time.Time // of the last commit
	failing   time.Time // since when commits fail; zero: they do not
	row       []output.Value
}

func (a *app) tail(ctx context.Context, f *tailFlags) error {
	if err := f.kind.Check(a.undeclaredType()); err != nil {
		return err
	}
	if a.OutputName == "" {
		a.OutputName = "ndjson"
	}
	format, err := a.Format()
	if err != nil {
		return err
	}
	if !f.once && f.Limit == 0 && (format == output.Table || format == output.JSON) {
		return cli.Usagef("-o table or json: the output has no end; add --once, or use -o ndjson")
	}
	limit := f.Limit
	f.Limit = 0
	q, err := f.Query(ctx, a.App)
	if err != nil {
		return err
	}
	t := tailing{app: a.App, limit: limit, cursor: f.cursor, question: f.Question(q), committed: -1}
	if t.db, err = a.Connect(ctx); err != nil {
		return err
	}
	defer t.db.Close()
	if err := t.open(ctx, a, f, q); err != nil {
		return err
	}
	if q.Filters, err = f.Calls(ctx, t.db, &q.Box); err != nil {
		return err
	}
	if t.closedNs, err = a.tailFrom(ctx, &t, f); err != nil {
		return err
	}
	changes := t.db.ChangeBatches(ctx, q, t.closedNs)
	if f.once {
		changes = t.db.PastChanges(ctx, q, t.closedNs)
	}
	return t.run(ctx, changes)
}

// open begins the output.
func (t *tailing) open(ctx context.Context, a *app, f *tailFlags, q *record.Query) (err error) {
	t.payloads, err = f.kind.Payloads(ctx, a.App, t.db, &f.Flags, q.Box[record.MOID])
	if err != nil {
		return err
	}
	columns := []output.Column{cli.Right("cid"), cli.Right("mid"), cli.Right("moid")}
	t.quantityAt = len(columns)
	columns = append(append(columns, t.payloads.QuantityColumn()...), cli.Left("cap"),
		cli.Left("acq"))
	t.valueAt = len(columns)
	t.out, err = a.Writer(false, append(columns, t.payloads.Column(), cli.Left("event"))...)
	return err
}

// tailFrom chooses where to begin.
func (a *app) tailFrom(ctx context.Context, t *tailing, f *tailFlags) (int64, error) {
	if f.cursor != "" {
		c, err := t.db.Cursor(ctx, f.cursor)
		var remote *wire.Error
		if err == nil || !errors.As(err, &remote) || remote.Kind != wire.KindNotFound {
			if t.committed = c.AcqNs; err == nil {
				err = t.checkQuestion(a, f, &c)
			}
			return c.AcqNs, err
		}
	}
	switch {
	case f.since != "":
		return a.parseSince(f.since)
	case f.once:
		return math.MinInt64, nil // restored records may be older than 1970
	}
	return client.FromNow, nil
}

// checkQuestion refuses the cursor of another question: what that one left out would not come.
func (t *tailing) checkQuestion(a *app, f *tailFlags, c *client.Cursor) error {
	switch {
	case c.Question == t.question:
	case c.Question != "":
		return cli.Usagef("cursor %s belongs to another question: it was made with other "+
			"selectors, --select, --where or --filter, and what these left out does not come; "+
			"use another --cursor with --since, or to continue this question there: pentad cursor "+
			"commit %s %d --force", c.Name, c.Name, c.AcqNs)
	case f.Selects():
		a.Note("continuing after %s; the cursor has no question yet: what an earlier run left out "+
			"does not come", timeparse.Format(c.AcqNs))
	}
	return nil
}

// run writes changes until they end. What was written before an error or an interrupt counts.
func (t *tailing) run(ctx context.Context, changes iter.Seq2[client.ChangeBatch, error]) error {
	var failed error
	came := false
	for b, err := range changes {
		if failed = err; err != nil {
			break
		}
		came = true
		done, err := t.batch(&b)
		t.payloads.NoteOpaque(t.app)
		slice := b.Rows == nil && b.Event == nil // ends here
		if err == nil && slice && time.Since(t.last) >= commitEvery {
			err = t.commitSoon(ctx)
		}
		if failed = err; done || err != nil {
			break
		}
	}
	if failed == nil {
		failed = context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCommit)
	defer cancel()
	t.payloads.Head(t.out, t.quantityAt, t.valueAt)
	if err := t.out.Close(); err != nil {
		return err // nothing is committed that may not have been written
	}
	if failed != nil && !came && ctx.Err() == nil {
		return failed // there is nothing to commit, and --since may be what is wrong
	}
	return errors.Join(failed, t.commit(ctx))
}

// batch writes a batch and hands it over, and reports whether that is enough.
func (t *tailing) batch(b *client.ChangeBatch) (done bool, err error) {
	for i := 0; b.Rows != nil && i < b.Rows.Len(); i++ {
		k := b.Rows.Key(i)
		event := "put"
		if b.Rows.Tomb(i) {
			event = "delete"
		}
		t.row = append(t.row[:0], output.Int(k.CID), output.Int(k.MID), output.Int(k.MOID))
		t.row = append(t.payloads.AppendQuantity(t.row, k.MOID), output.Time(k.CapNs),
			output.Time(k.AcqNs), t.payloads.ValueOf(b.Rows, i), output.Text(event))
		if err := t.out.Row(t.row...); err != nil {
			return true, err
		}
		t.closedNs = b.ClosedBy(i)
		if t.out.Rows() == t.limit {
			return true, nil
		}
	}
	if b.Event != nil {
		if err := t.out.Row(t.eventRow(b.Event)...); err != nil {
			return true, err
		}
	}
	t.closedNs = b.ClosedNs
	return t.limit > 0 && t.out.Rows() >= t.limit, t.out.Flush()
}

// eventRow is an event with its box in the place of a key.
func (t *tailing) eventRow(e *wire.Change) []output.Value {
	var row []output.Value
	for d := range record.Acq {
		part := output.All()
		if set := e.Box.Asked(d); len(set) > 0 {
			part = output.Text(selector.Format(d, set))
		}
		if d == record.Cap {
			row = append(row, make([]output.Value, len(t.payloads.QuantityColumn()))...)
		}
		row = append(row, part)
	}
	return append(row, output.Time(e.AcqNs), output.Null(), output.Text(e.Kind.String()))
}

// commitSoon commits, and leaves it to the next time when nodes cannot do it now, but not for
// longer than commitWithin: the output is ahead of the cursor meanwhile.
func (t *tailing) commitSoon(ctx context.Context) error {
	err := t.commit(ctx)
	switch {
	case err == nil:
		t.failing = time.Time{}
	case !mayPass(err):
		return err
	case t.failing.IsZero():
		t.failing = time.Now()
	case time.Since(t.failing) >= commitWithin:
		return err
	}
	return nil
}

// commit makes the node keep how far the output got, if there is a cursor and it has moved.
func (t *tailing) commit(ctx context.Context) error {
	t.last = time.Now()
	if t.cursor == "" || t.closedNs == t.committed || t.closedNs == client.FromNow {
		return nil
	}
	_, err := t.db.MoveCursor(ctx, client.Cursor{Name: t.cursor, AcqNs: t.closedNs,
		Question: t.question}, false)
	if err != nil {
		return fmt.Errorf("commit cursor %s: %w", t.cursor, err)
	}
	t.committed = t.closedNs
	return nil
}
