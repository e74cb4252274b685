package main

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

func (a *app) latestCommand() *cobra.Command {
	q := queryflags.Flags{View: "latest"}
	var form recordForm
	c := &cobra.Command{
		Use:   "latest",
		Short: "Show the latest version of each reading",
		Args:  cli.NoCommand,
		Example: `  pentad latest --cid 1 --last 1 --type f64
  pentad latest --mid 7,9 --cap 2026-11 -o csv
  pentad latest --acq now-1d.. --order key`,
		RunE: func(c *cobra.Command, _ []string) error { return a.get(c.Context(), &q, &form) },
	}
	q.AddSelectors(c)
	q.AddSelect(c)
	q.AddLast(c)
	q.AddFilter(c)
	a.addRecordFlags(c, &q, &form)
	cli.Elsewhere(c, "asof", "use pentad asof TIME")
	cli.Elsewhere(c, "view", "use pentad get --view")
	noZone(c)
	return c
}

// noZone says how to write a local time for a command without --tz.
func noZone(c *cobra.Command) {
	cli.Elsewhere(c, "tz", "write local times with their offset, e.g. 2026-11-21T00:00:00+01:00; "+
		"pentad windows has --tz")
}

func (a *app) asOfCommand() *cobra.Command {
	var q queryflags.Flags
	var form recordForm
	c := &cobra.Command{
		Use:   "asof TIME",
		Short: "Show readings as known at a point in time",
		Long: `Show readings as known at a point in time: the latest version of each that was acquired before TIME.

Later records, corrections, deletes and erases do not change the answer; only a purge does. --select
chooses devices by what was known of them at TIME.

A date as TIME means the start of the day, and a time without an offset is in UTC.`,
		Args: cli.Arguments(1, 1, "the time, e.g. 2026-03-03T09:45:00Z or now-1d"),
		Example: `  pentad asof now-1d --cid 1 --type f64
  pentad asof 2026-11-20 --mid 7 --last 1
  pentad asof 2026-11-20T09:45:00Z --mid 7,9 --cap 2026-11 -o csv`,
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := timeparse.Parse(args[0], a.Now()); err != nil {
				return cli.Usagef("TIME: %w", err)
			}
			q.AsOf = args[0]
			return a.get(c.Context(), &q, &form)
		},
	}
	q.AddSelectors(c)
	q.AddSelect(c)
	q.AddLast(c)
	q.AddFilter(c)
	a.addRecordFlags(c, &q, &form)
	cli.Elsewhere(c, "asof", "the time is an argument: pentad asof TIME")
	noZone(c)
	return c
}

func (a *app) diffCommand() *cobra.Command {
	var q queryflags.Flags
	var kind queryflags.TypeFlag
	c := &cobra.Command{
		Use:   "diff FROM [TO]",
		Short: "Show what changed between two points in time",
		Long: `Show what changed between two acquisition times: readings that were added, got another payload, or
were deleted or erased, with their old and new versions. TO defaults to now; neither may be in the
future. A date means the start of the day, and a time without an offset is in UTC.

A reading that was stored again with the same payload is not shown. The cost depends on the number
of records acquired or erased in between. --select chooses devices by what was known of them at TO.`,
		Args: cli.Arguments(1, 2, "the start time, e.g. now-1d"),
		Example: `  pentad diff now-1d --cid 1 --type f64
  pentad diff 2026-01-01 2026-02-01 --cap 2025-12 -o csv
  pentad diff 2026-01-20T09:45:00Z now --mid 7..9 --moid 1`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.diff(c.Context(), &q, args, &kind)
		},
	}
	q.AddReadings(c)
	kind.Add(c, "type of payloads", "PENTAD_TYPE or base64")
	c.Flags().BoolVar(&q.FailEmpty, "fail-empty", false, "exit with code 3 if nothing differs")
	noZone(c)
	return c
}

func (a *app) versionsCommand() *cobra.Command {
	var q queryflags.Flags
	var kind queryflags.TypeFlag
	everything := false
	c := &cobra.Command{
		Use:   "versions",
		Short: "Show every version of readings",
		Long: `Show every version of readings in order of acquisition: which is the latest, which are tombstones,
and which an erase hides and since when.

--acq is not supported: all versions are needed to tell which is the latest.`,
		Args: cli.NoCommand,
		Example: `  pentad versions --cid 1 --mid 7 --moid 1 --cap 2026-11-21T09:45:00Z --type f64
  pentad versions --mid 7 --cap 2026-11 -o csv`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.versions(c.Context(), &q, &kind, everything)
		},
	}
	q.AddReadings(c)
	kind.Add(c, "type of payloads", "PENTAD_TYPE or base64")
	flags := c.Flags()
	flags.BoolVar(&everything, "everything", false,
		"select all readings; needed if no selector is given")
	flags.BoolVar(&q.FailEmpty, "fail-empty", false, "exit with code 3 if nothing matches")
	return c
}

// diffTimes reads the arguments of a diff.
func (a *app) diffTimes(args []string) (fromNs, toNs int64, err error) {
	out := [2]int64{0, math.MaxInt64}
	for i, text := range args {
		if i == 1 && text == "now" {
			continue // of the node's clock, as when it is left out
		}
		at, err := timeparse.Parse(text, a.Now())
		if err != nil {
			return 0, 0, cli.Usagef("%s: %w", [...]string{"FROM", "TO"}[i], err)
		}
		out[i] = at.FromNs
		queryflags.NoteMoment(a.App, [...]string{"from", "to"}[i], text, at.FromNs, time.UTC)
	}
	return out[0], out[1], nil
}

func (a *app) diff(
	ctx context.Context, q *queryflags.Flags, args []string, kind *queryflags.TypeFlag,
) error {
	if err := kind.Check(a.undeclaredType()); err != nil {
		return err
	}
	query, err := q.Query(ctx, a.App)
	if err != nil {
		return err
	}
	ask := &record.Diff{Box: query.Box, Select: query.Select}
	if ask.FromNs, ask.ToNs, err = a.diffTimes(args); err != nil {
		return err
	}
	if err := ask.Normalize(); err != nil {
		return cli.Usage(err)
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := kind.Payloads(ctx, a.App, db, q, query.Box[record.MOID])
	if err != nil {
		return err
	}
	s, err := a.diffShower(p)
	if err != nil {
		return err
	}
	var counts [record.DiffDeleted + 1]uint64
	end, err := db.DiffBatches(ctx, ask, func(d *record.Differences) error {
		counts[d.Kind] += uint64(d.Len())
		for i := range d.Len() {
			k := d.New.Key(i)
			oldAcq, oldValue := output.Null(), output.Null()
			if d.Kind != record.DiffAdded {
				oldAcq = output.Time(d.Old.AcqNs[i])
				oldValue = p.ValueOf(&d.Old, i)
			}
			row := []output.Value{output.Text(d.Kind.String()), output.Int(k.CID),
				output.Int(k.MID), output.Int(k.MOID)}
			if err := s.row(k.MOID, row, output.Time(k.CapNs), oldAcq, oldValue,
				output.Time(k.AcqNs), p.ValueOf(&d.New, i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err = s.end(end, err, q.FailEmpty, "nothing differs"); err == nil && s.table && s.rows > 0 {
		a.Note("added %s, changed %s, deleted %s", output.Thousands(counts[record.DiffAdded]),
			output.Thousands(counts[record.DiffChanged]),
			output.Thousands(counts[record.DiffDeleted]))
	}
	return err
}

// diffShower shows differences.
func (a *app) diffShower(p *queryflags.Payloads) (*shower, error) {
	value := p.Column()
	old := value
	old.Name = "old_" + old.Name
	return a.shower(p, []output.Column{cli.Left("change"), cli.Right("cid"), cli.Right("mid"),
		cli.Right("moid")}, cli.Left("cap"), cli.Left("old_acq"), old, cli.Left("acq"), value)
}

func (a *app) versions(
	ctx context.Context, q *queryflags.Flags, kind *queryflags.TypeFlag, everything bool,
) error {
	if err := kind.Check(a.undeclaredType()); err != nil {
		return err
	}
	query, err := q.Query(ctx, a.App)
	if err != nil {
		return err
	}
	if len(query.Box[record.Acq]) > 0 {
		return cli.Usagef("--acq: not supported here; all versions are needed to tell which is " +
			"the latest")
	}
	box := &wire.Box{Box: query.Box, Everything: everything, Select: query.Select}
	if err := box.Check(); err != nil {
		return cli.Usagef("no selector given; use --cid, --mid, --moid or --cap, or --everything")
	}
	format, err := a.Format()
	if err != nil {
		return err
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := kind.Payloads(ctx, a.App, db, q, query.Box[record.MOID])
	if err != nil {
		return err
	}
	columns := []output.Column{cli.Left("cap"), cli.Left("acq"), p.Column(), cli.Left("latest"),
		cli.Left("erased")}
	if format == output.CSV {
		columns = append(columns, cli.Left("deleted"))
	}
	s, err := a.shower(p, []output.Column{cli.Right("cid"), cli.Right("mid"), cli.Right("moid")},
		columns...)
	if err != nil {
		return err
	}
	for v, failed := range db.Versions(ctx, box) {
		if err = failed; err != nil {
			break
		}
		erased := output.Null()
		if v.HiddenAcqNs != 0 {
			erased = output.Time(v.HiddenAcqNs)
		}
		rest := []output.Value{output.Time(v.CapNs), output.Time(v.AcqNs),
			p.Value(v.MOID, v.Tomb, v.Payload), output.Bool(v.Latest), erased}
		if format == output.CSV {
			rest = append(rest, output.Bool(v.Tomb))
		}
		row := []output.Value{output.Int(v.CID), output.Int(v.MID), output.Int(v.MOID)}
		if err = s.row(v.MOID, row, rest...); err != nil {
			break
		}
	}
	return s.end(wire.End{Complete: true}, err, q.FailEmpty, "no versions match")
}

// shower writes rows, of a table the first that fit a screen, and counts all.
type shower struct {
	app   *app
	w     *output.Writer
	table bool
	rows  uint64

	payloads   *queryflags.Payloads
	quantityAt int   // where the column of quantities is, if there is one
	values     []int // columns of payloads
}

// shower returns one whose column of quantities is between key and rest.
func (a *app) shower(
	p *queryflags.Payloads, key []output.Column, rest ...output.Column,
) (*shower, error) {
	format, err := a.Format()
	if err != nil {
		return nil, err
	}
	s := &shower{app: a, table: format == output.Table, payloads: p, quantityAt: len(key)}
	columns := append(append(key, p.QuantityColumn()...), rest...)
	for i := range columns {
		if strings.HasSuffix(columns[i].Name, p.Column().Name) {
			s.values = append(s.values, i)
		}
	}
	s.w, err = a.Writer(false, columns...)
	return s, err
}

// row writes the row of a record of a quantity.
func (s *shower) row(moid int32, key []output.Value, rest ...output.Value) error {
	if s.rows++; s.table && s.rows > cli.TableRows {
		return nil
	}
	return s.w.Row(append(s.payloads.AppendQuantity(key, moid), rest...)...)
}

// end closes the answer, which may have failed or found nothing.
func (s *shower) end(end wire.End, err error, failEmpty bool, nothing string) error {
	if err != nil {
		return errors.Join(err, s.w.Flush()) // what has come is shown, as with get
	}
	s.payloads.Head(s.w, s.quantityAt, s.values...)
	if err := s.w.Close(); err != nil {
		return err
	}
	s.payloads.NoteOpaque(s.app.App)
	switch {
	case s.rows == 0 && failEmpty:
		return cli.ErrEmpty
	case s.rows == 0 && s.table:
		s.app.Note("%s", nothing)
	case s.table && s.rows > cli.TableRows:
		s.app.Note("showing %d of %s; use -o ndjson for all", cli.TableRows,
			output.Thousands(s.rows))
	}
	return queryflags.CheckEnd(end)
}
