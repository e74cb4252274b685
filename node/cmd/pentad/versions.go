package main

import (
	"context"
	"errors"
	"math"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

func (a *app) latestCommand() *cobra.Command {
	q := queryFlags{view: "latest"}
	var form recordForm
	c := &cobra.Command{
		Use:   "latest",
		Short: "Show the latest version of each reading",
		Args:  noCommand,
		Example: `  pentad latest --cid 1 --last 1 --type f64
  pentad latest --mid 7,9 --cap 2026-11 -o csv
  pentad latest --acq now-1d.. --order key`,
		RunE: func(c *cobra.Command, _ []string) error { return a.get(c.Context(), &q, form) },
	}
	q.addSelectors(c)
	q.addLast(c)
	q.addFilter(c)
	a.addRecordFlags(c, &q, &form)
	return c
}

func (a *app) asOfCommand() *cobra.Command {
	var q queryFlags
	var form recordForm
	c := &cobra.Command{
		Use:   "asof TIME",
		Short: "Show readings as they were known at a moment",
		Long: `Show readings as they were known at a moment: of each the latest version acquired before TIME.

What is acquired, corrected, deleted or erased later does not change the answer; only a purge does.`,
		Args: arguments(1, 1, "the moment, as 2026-03-03T09:45:00Z or now-1d"),
		Example: `  pentad asof now-1d --cid 1 --type f64
  pentad asof 2026-11-20 --mid 7 --last 1
  pentad asof 2026-11-20T09:45:00Z --mid 7,9 --cap 2026-11 -o csv`,
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := timeparse.Parse(args[0], a.now()); err != nil {
				return usagef("TIME: %w", err)
			}
			q.asOf = args[0]
			return a.get(c.Context(), &q, form)
		},
	}
	q.addSelectors(c)
	q.addLast(c)
	q.addFilter(c)
	a.addRecordFlags(c, &q, &form)
	return c
}

func (a *app) diffCommand() *cobra.Command {
	var q queryFlags
	var form recordForm
	c := &cobra.Command{
		Use:   "diff FROM [TO]",
		Short: "Show what became of readings between two moments",
		Long: `Show what became of readings between two moments of acquisition: which were added, which have
another payload than before, and which were deleted or erased, each with its old and its new
version. TO is now when it is left out; neither may lie in the future.

A reading that was put again with the payload that it had is not shown. It costs what was acquired
or erased between the moments, however much there is.`,
		Args: arguments(1, 2, "the moment from which on changes are asked for"),
		Example: `  pentad diff now-1d --cid 1 --type f64
  pentad diff 2026-01-01 2026-02-01 --cap 2025-12 -o csv
  pentad diff 2026-01-20T09:45:00Z now --mid 7..9 --moid 1`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.diff(c.Context(), &q, args, form.payload)
		},
	}
	q.addReadings(c)
	a.addType(c, &form)
	c.Flags().BoolVar(&q.failEmpty, "fail-empty", false, "exit with 3 when nothing differs")
	return c
}

func (a *app) versionsCommand() *cobra.Command {
	var q queryFlags
	var form recordForm
	everything := false
	c := &cobra.Command{
		Use:   "versions",
		Short: "Show every version of readings, and what became of each",
		Long: `Show every version of the readings in a box, in the order in which they were acquired: which is
the latest, which are tombstones, and which an erase hides and since when.

--acq is no part of it: which version is the latest is known from all.`,
		Args: noCommand,
		Example: `  pentad versions --cid 1 --mid 7 --moid 1 --cap 2026-11-21T09:45:00Z --type f64
  pentad versions --mid 7 --cap 2026-11 -o csv`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.versions(c.Context(), &q, form.payload, everything)
		},
	}
	q.addReadings(c)
	a.addType(c, &form)
	flags := c.Flags()
	flags.BoolVar(&everything, "everything", false, "no selector is needed: of all readings")
	flags.BoolVar(&q.failEmpty, "fail-empty", false, "exit with 3 when nothing matches")
	return c
}

// moments reads the arguments of a diff.
func (a *app) moments(args []string) (fromNs, toNs int64, err error) {
	out := [2]int64{0, math.MaxInt64}
	for i, text := range args {
		if i == 1 && text == "now" {
			continue // of the node's clock, as when it is left out
		}
		at, err := timeparse.Parse(text, a.now())
		if err != nil {
			return 0, 0, usagef("%s: %w", [...]string{"FROM", "TO"}[i], err)
		}
		out[i] = at.FromNs
	}
	return out[0], out[1], nil
}

func (a *app) diff(ctx context.Context, q *queryFlags, args []string, payload string) error {
	kind, err := output.ParsePayloadType(payload)
	if err != nil {
		return usageError{err}
	}
	query, err := q.query(a)
	if err != nil {
		return err
	}
	ask := &record.Diff{Box: query.Box}
	if ask.FromNs, ask.ToNs, err = a.moments(args); err != nil {
		return err
	}
	if err := ask.Normalize(); err != nil {
		return usageError{err}
	}
	value := kind.Column()
	old := value
	old.Name = "old_" + old.Name
	s, err := a.shower(left("change"), right("cid"), right("mid"), right("moid"), left("cap"),
		left("old_acq"), old, left("acq"), value)
	if err != nil {
		return err
	}
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	var counts [record.DiffDeleted + 1]uint64
	end, err := db.DiffBatches(ctx, ask, func(d *record.Differences) error {
		counts[d.Kind] += uint64(d.Len())
		for i := range d.Len() {
			k := d.New.Key(i)
			oldAcq, oldValue := output.Null(), output.Null()
			if d.Kind != record.DiffAdded {
				oldAcq = output.Time(d.Old.AcqNs[i])
				oldValue = valueOf(&d.Old, i, kind)
			}
			if err := s.row(output.Text(d.Kind.String()), output.Int(k.CID), output.Int(k.MID),
				output.Int(k.MOID), output.Time(k.CapNs), oldAcq, oldValue, output.Time(k.AcqNs),
				valueOf(&d.New, i, kind)); err != nil {
				return err
			}
		}
		return nil
	})
	if err = s.end(end, err, q.failEmpty, "nothing differs"); err == nil && s.table && s.rows > 0 {
		a.note("added %s, changed %s, deleted %s", output.Thousands(counts[record.DiffAdded]),
			output.Thousands(counts[record.DiffChanged]),
			output.Thousands(counts[record.DiffDeleted]))
	}
	return err
}

func (a *app) versions(
	ctx context.Context, q *queryFlags, payload string, everything bool,
) error {
	kind, err := output.ParsePayloadType(payload)
	if err != nil {
		return usageError{err}
	}
	query, err := q.query(a)
	if err != nil {
		return err
	}
	if len(query.Box[record.Acq]) > 0 {
		return usagef("--acq is no part of this question: which version is the latest is known " +
			"from all")
	}
	box := &wire.Box{Box: query.Box, Everything: everything}
	if err := box.Check(); err != nil {
		return usagef("name readings by --cid, --mid, --moid or --cap, or say --everything")
	}
	columns := []output.Column{right("cid"), right("mid"), right("moid"), left("cap"),
		left("acq"), kind.Column(), left("latest"), left("erased")}
	format, err := a.format()
	if err != nil {
		return err
	}
	if format == output.CSV {
		columns = append(columns, left("deleted"))
	}
	s, err := a.shower(columns...)
	if err != nil {
		return err
	}
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	for v, failed := range db.Versions(ctx, box) {
		if err = failed; err != nil {
			break
		}
		value, erased := output.Deleted(), output.Null()
		if !v.Tomb {
			value = kind.Value(v.Payload)
		}
		if v.HiddenAcqNs != 0 {
			erased = output.Time(v.HiddenAcqNs)
		}
		row := []output.Value{output.Int(v.CID), output.Int(v.MID), output.Int(v.MOID),
			output.Time(v.CapNs), output.Time(v.AcqNs), value, output.Bool(v.Latest), erased}
		if format == output.CSV {
			row = append(row, output.Bool(v.Tomb))
		}
		if err = s.row(row...); err != nil {
			break
		}
	}
	return s.end(wire.End{Complete: true}, err, q.failEmpty, "no versions match")
}

// shower writes rows, of a table the first that fit a screen, and counts all.
type shower struct {
	app   *app
	w     *output.Writer
	table bool
	rows  uint64
}

func (a *app) shower(columns ...output.Column) (*shower, error) {
	format, err := a.format()
	if err != nil {
		return nil, err
	}
	w, err := a.writer(false, columns...)
	return &shower{app: a, w: w, table: format == output.Table}, err
}

func (s *shower) row(values ...output.Value) error {
	if s.rows++; s.table && s.rows > tableRows {
		return nil
	}
	return s.w.Row(values...)
}

// end closes the answer, which may have failed or found nothing.
func (s *shower) end(end wire.End, err error, failEmpty bool, nothing string) error {
	if err != nil {
		return errors.Join(err, s.w.Flush()) // what has come is shown, as with get
	}
	if err := s.w.Close(); err != nil {
		return err
	}
	switch {
	case s.rows == 0 && failEmpty:
		return errEmpty
	case s.rows == 0 && s.table:
		s.app.note("%s", nothing)
	case s.table && s.rows > tableRows:
		s.app.note("shown %d of %s; -o ndjson for all", tableRows, output.Thousands(s.rows))
	}
	return checkEnd(end)
}
