package sealing

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/sealer"
	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
	"github.com/pentad-db/pentad/sdk/wire"
)

// sumFlags say what is added up, and what the sums must be.
type sumFlags struct {
	keyFiles
	q          queryflags.Flags
	group      string
	zone       cli.FilledFlag
	minCount   uint64
	requireMAC bool
	where      []string
	by         string
	byKey      bool // the node adds up for each key
}

func (a *app) sumCommand() *cobra.Command {
	var f sumFlags
	c := &cobra.Command{
		Use:   "sum",
		Short: "Aggregate encrypted readings, and decrypt the sums",
		Long: `Have the node add up encrypted readings without a key, and decrypt the sums here: count, and for each
field with them sum, mean, variance, slope and buckets of the histogram. All matching readings must
be of one schema: choose the quantity with --moid. The column authentic says whether the MAC of the
schema proves that a sum is that of the records which the node names.

Of each reading its latest version is added, or with --asof that of a time; with --view all or --acq
all versions are, also those that were corrected.

--select asks the node which devices meet it, names them to it, and checks that it added up these:
that they are those, the node says.

--where selects readings by values, with >=, <=, >, < of a field with "order" in the schema, and ==
of one with "equal" or "order"; --by sums for each value of a field with "equal". The node compares
tags, and learns what sdk/docs/sealing.md says of them. With either, choose the tenant with --cid.`,
		Args: cli.NoCommand,
		Example: `  pentad seal sum --schema meters.json --cid 1 --moid 9 --cap 2026-11
  pentad seal sum --schema meters.json --moid 9 --group mid
  pentad seal sum --schema meters.json --moid 9 --group cap=1mo --tz Europe/Helsinki
  pentad seal sum --schema meters.json --cid 1 --moid 9 --where 'energy>=10' --by state`,
		RunE: func(c *cobra.Command, _ []string) error { return a.sum(c.Context(), &f) },
	}
	f.add(c)
	f.q.AddBox(c)
	flags := c.Flags()
	flags.StringVar(&f.group, "group", "", "groups: cid, mid, moid and cap=LENGTH, e.g. mid,cap=1d")
	flags.Var(&f.zone, "tz", "time zone of --cap and of the windows of --group cap=LENGTH,\n"+
		"e.g. Europe/Helsinki (default: buckets, in UTC)")
	cli.CompleteZone(c, "tz")
	flags.StringArrayVar(&f.where, "where", nil,
		"only readings of which this is true, e.g. 'energy>=10' or state==on (a text is\n"+
			"taken with its spaces); may be repeated: all must be true")
	flags.StringVar(&f.by, "by", "", "sum for each value of a field, e.g. state")
	flags.Uint64Var(&f.minCount, "min-count", 0, "reject sums of fewer readings, e.g. 5 (0: none)")
	flags.BoolVar(&f.requireMAC, "require-mac", false,
		"reject sums that are not authenticated by the MAC of the schema")
	return c
}

// query puts the query together, without its aggregate.
func (f *sumFlags) query(ctx context.Context, a *app) (*record.Query, error) {
	var err error
	if f.zone != "" {
		if f.q.Loc, err = timeparse.Location(string(f.zone)); err != nil {
			return nil, cli.Usagef("--tz: %w", err)
		}
	}
	query, err := f.q.Query(ctx, a.App)
	if err != nil {
		return nil, err
	}
	query.GroupBy, err = queryflags.ParseGroupIn(f.group, string(f.zone))
	if err == nil {
		err = queryflags.OnlyParts(query.GroupBy, "this program could not check which devices the "+
			"node added up")
	}
	return query, err
}

func (a *app) sum(ctx context.Context, f *sumFlags) error {
	s, err := f.Open()
	if err != nil {
		return err
	}
	query, err := f.query(ctx, a)
	if err != nil {
		return err
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if some, err := queryflags.NameSelected(ctx, db, query); err != nil {
		return err
	} else if !some {
		return errors.New("--select: no device meets the selector")
	}
	if err := f.addFilters(ctx, db, s, query); err != nil {
		return err
	}
	groups, err := f.ask(ctx, db, s.Schema, query, 0)
	if err != nil {
		return err
	}
	if f.byKey, err = f.needsKeys(s.Schema, groups); err == nil && f.byKey {
		groups, err = f.ask(ctx, db, s.Schema, query, 0)
	}
	if err != nil {
		return err
	}
	w, err := a.Writer(false, f.columns(s.Schema, query.GroupBy)...)
	if err != nil {
		return err
	}
	shown, err := f.showSums(ctx, w, s, query, groups)
	if err != nil {
		return errors.Join(err, w.Flush())
	}
	if err := w.Close(); err != nil {
		return err
	}
	a.Note("decrypted the sums of %s of %s; authenticated: %s",
		output.Counted(shown.groups, "groups"),
		output.Counted(queryflags.SumRecords(groups), "records"),
		output.Thousands(shown.authentic))
	if query.View == record.ViewAll {
		a.Note("all versions were added up, also those that were corrected since; for one of " +
			"each reading leave out --view all and --acq, or use --asof")
	}
	if queryflags.SumRecords(groups) == 0 && f.q.FailEmpty {
		return cli.ErrEmpty
	}
	return nil
}

// shownSums counts the sums that were shown.
type shownSums struct{ groups, authentic int }

// showSums decrypts the sums of groups, and writes a row for each.
func (f *sumFlags) showSums(
	ctx context.Context, w *output.Writer, s *sealer.Sealer, query *record.Query,
	groups []wire.Group,
) (n shownSums, err error) {
	cal, err := calendar.ForWindow(query.GroupBy.Window)
	if err != nil {
		return n, err
	}
	for i := range groups {
		all, err := f.partials(ctx, s, &groups[i])
		if err != nil {
			return n, fmt.Errorf("sum of the node: %w", err)
		}
		for _, one := range all {
			sums, err := f.decrypt(ctx, s, query, &groups[i], one.parts)
			if err != nil {
				return n, advised(fmt.Errorf("%s%w", groupName(query.GroupBy, &groups[i]), err))
			}
			n.groups++
			if sums.Authentic {
				n.authentic++
			}
			row := queryflags.KeyValues(query.GroupBy, cal, nil, &groups[i])
			if f.by != "" {
				row = append(row, one.value)
			}
			row = append(row, output.Count(sums.Count()))
			if row, err = appendSums(row, s.Schema, sums); err != nil {
				return n, err
			}
			if err := w.Row(append(row, output.Bool(sums.Authentic))...); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// ask has the node add up, in parts where the lists of records are too long for one answer; of
// replicas one that has all below a horizon, 0 for any.
func (f *sumFlags) ask(
	ctx context.Context, db *client.Client, schema *seal.Schema, query *record.Query,
	horizonNs int64,
) ([]wire.Group, error) {
	name, params, err := f.aggregate(schema)
	if err != nil {
		return nil, err
	}
	_, doc, call, err := queryflags.FindPlugin(ctx, db, name)
	if err != nil {
		return nil, err
	}
	if call.Params, err = doc.EncodeParams(params); err != nil {
		return nil, err
	}
	query.Aggregate = call
	if horizonNs > 0 {
		db = db.After(horizonNs - 1)
	}
	groups, err := whole(ctx, db, query)
	if tooLong(err) && query.Limit == 0 {
		p := &parts{db, schema, f.by != "" || f.byKey, map[record.Key]*partedGroup{}}
		return p.all(ctx, query, err)
	}
	return groups, advised(err)
}

// decrypt reads the sums of a group, which must be of records that were asked for.
func (f *sumFlags) decrypt(
	ctx context.Context, s *sealer.Sealer, query *record.Query, g *wire.Group,
	parts []*seal.Partial,
) (*seal.Sums, error) {
	cid, one := parts[0].Tenant()
	for _, p := range parts[1:] {
		other, only := p.Tenant()
		one = one && only && other == cid
	}
	if !one {
		return nil, cli.Usagef("a group has records of several tenants, whose keys differ; " +
			"choose one with --cid, or add cid to --group")
	}
	t, err := s.Tenant(cid)
	if err != nil {
		return nil, err
	}
	by := query.GroupBy
	return t.DecryptAll(ctx, parts, seal.Expect{MinCount: f.minCount, RequireMAC: f.requireMAC,
		NoDeltas: query.View != record.ViewAll,
		Series: func(mid int64, moid int32) bool {
			return query.Box[record.MID].Contains(mid) && (!by.MID || mid == g.MID) &&
				query.Box[record.MOID].Contains(int64(moid)) && (!by.MOID || moid == g.MOID)
		}})
}

// columns are the key of the groups, the count and the sums.
func (f *sumFlags) columns(s *seal.Schema, g record.GroupBy) []output.Column {
	var columns []output.Column
	for _, part := range []struct {
		grouped bool
		column  output.Column
	}{{g.CID, cli.Right("cid")}, {g.MID, cli.Right("mid")}, {g.MOID, cli.Right("moid")},
		{g.ByCap(), cli.Left("cap")}} {
		if part.grouped {
			columns = append(columns, part.column)
		}
	}
	if f.by != "" {
		columns = append(columns, cli.Left(f.by))
	}
	columns = append(columns, cli.Right("count"))
	for _, field := range s.Definition().Fields {
		for _, one := range statistics(&field) {
			columns = append(columns, cli.Right(field.Name+"_"+one.name))
		}
	}
	return append(columns, cli.Left("authentic"))
}

// statistic is one of what sums say of a field.
type statistic struct {
	name string
	of   func(s *seal.Sums, field string) (output.Value, error)
}

// statistics are those that a field has lanes for.
func statistics(f *seal.Field) (all []statistic) {
	if f.Sum {
		all = append(all, statistic{"sum", sumOf}, statistic{"mean", number((*seal.Sums).Mean)})
	}
	if f.SumSquares {
		all = append(all, statistic{"variance", number((*seal.Sums).Variance)})
	}
	if f.Trend != nil {
		all = append(all, statistic{"slope", number(slopeOf)})
	}
	if len(f.Histogram) > 0 {
		all = append(all, statistic{"buckets", bucketsOf})
	}
	return all
}

func sumOf(s *seal.Sums, field string) (output.Value, error) {
	text, err := s.Sum(field)
	return output.Raw([]byte(text)), err
}

func slopeOf(s *seal.Sums, field string) (float64, bool, error) {
	_, slope, ok, err := s.Trend(field)
	return slope, ok, err
}

// number shows nothing where there is no number.
func number(
	of func(*seal.Sums, string) (float64, bool, error),
) func(*seal.Sums, string) (output.Value, error) {
	return func(s *seal.Sums, field string) (output.Value, error) {
		v, ok, err := of(s, field)
		if !ok {
			return output.Null(), err
		}
		return output.Computed(v), err
	}
}

func bucketsOf(s *seal.Sums, field string) (output.Value, error) {
	counts, err := s.Histogram(field)
	text := []byte{'['}
	for i, n := range counts {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, "%d", n)
	}
	return output.Raw(append(text, ']')), err
}

func appendSums(row []output.Value, s *seal.Schema, sums *seal.Sums) ([]output.Value, error) {
	for _, field := range s.Definition().Fields {
		for _, one := range statistics(&field) {
			v, err := one.of(sums, field.Name)
			if err != nil {
				return nil, err
			}
			row = append(row, v)
		}
	}
	return row, nil
}
