package sealing

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

// publishFlags say which windows are published.
type publishFlags struct {
	grantFiles
	caps, grace string
}

func (a *app) grantPublishCommand() *cobra.Command {
	var f publishFlags
	c := &cobra.Command{
		Use:   "publish NAME",
		Short: "Store tokens for the windows of a grant",
		Long: `Have the node add up the windows of a grant, check the sums with the keys, and store a
token for each window whose readings changed since its last one. Windows that end less than --grace
ago, or are only partly in --cap, are left out; those that would tell single readings are kept back
and named. So are those whose sums cannot be authenticated, e.g. as pentad seal rotate fell into
them or a device of them was destroyed; then the exit code is 6.`,
		Args:    cli.Arguments(1, 1, "the name of the grant"),
		Example: "  pentad seal grant publish hours --cap 2026-11 --grace 1d",
		RunE: func(c *cobra.Command, args []string) error {
			return a.grantPublish(c.Context(), &f, args[0])
		},
	}
	f.AddKeys(c)
	c.Flags().StringVar(&f.caps, "cap", "*", "capture times of the windows, e.g. 2026-11")
	c.Flags().StringVar(&f.grace, "grace", "1h", "time that a window waits for late readings")
	return c
}

func (a *app) grantPublish(ctx context.Context, f *publishFlags, name string) error {
	g, err := f.openGrant(name)
	if err != nil {
		return err
	}
	keys, err := f.OpenKeys()
	if err != nil {
		return err
	}
	caps, err := selector.Parse(record.Cap, f.caps, a.Now())
	if err != nil {
		return cli.Usagef("--cap: %w", err)
	}
	grace, err := timeparse.Duration(f.grace)
	if err != nil {
		return cli.Usagef("--grace: %w", err)
	}
	spec := g.Spec()
	t, err := seal.OpenTenant(keys, spec.CID, g.Schema())
	if err != nil {
		return err
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	sums, known, err := changedWindows(ctx, db, g, caps, a.Now().Add(-grace))
	if err != nil {
		return err
	}
	tokens, keptBack, err := g.Release(ctx, t, sums)
	if err != nil {
		return err
	}
	w := db.NewWriter(client.WriterOptions{})
	for _, one := range tokens {
		r := record.Record{Payload: one.Payload, Key: record.Key{CID: spec.CID, MID: spec.ID,
			MOID: spec.TokenMOID, CapNs: int64(one.Window) * spec.WindowNs}}
		if err := w.AddRecord(ctx, r); err != nil {
			return err
		}
	}
	if err := w.Close(ctx); err != nil {
		return err
	}
	var failed error
	for _, err := range keptBack {
		a.Note("kept back: %v", err)
		if !errors.Is(err, seal.ErrNotReleased) {
			failed = cli.Coded(cli.ExitPartial, errors.New("windows whose sums cannot be "+
				"authenticated were kept back; show one with pentad seal sum --require-mac"))
		}
	}
	return cli.FirstError(a.One([]output.Column{cli.Right("published"), cli.Right("unchanged"),
		cli.Right("kept_back")}, output.Count(len(tokens)), output.Count(known),
		output.Count(len(keptBack))), failed)
}

// changedWindows returns the sums of whole windows that ended before a time and that have no token
// of their records, and how many others have one.
func changedWindows(
	ctx context.Context, db *client.Client, g *seal.Grant, caps record.RangeSet, before time.Time,
) (sums []seal.WindowSum, known int, err error) {
	spec := g.Spec()
	_, end, err := db.Count(ctx, &record.Query{Box: record.Box{
		record.CID: {record.At(int64(spec.CID))}, record.MOID: {record.At(int64(spec.MOID))}}})
	if err != nil {
		return nil, 0, err
	}
	all, err := grantSums(ctx, db, &spec, g.Schema(), caps, end.HorizonNs)
	if err != nil {
		return nil, 0, err
	}
	tokens, err := grantTokens(ctx, db, &spec, caps)
	if err != nil {
		return nil, 0, err
	}
	whole := func(from, to int64) bool {
		return to <= before.UnixNano() && (caps == nil ||
			slices.ContainsFunc(caps, func(r record.Range) bool {
				return r.From <= from && to <= r.To
			}))
	}
	for _, window := range slices.Sorted(maps.Keys(all)) {
		from := int64(window) * spec.WindowNs
		switch {
		case !whole(from, from+spec.WindowNs):
		case tokens[window] != nil && seal.TokenFits(tokens[window], all[window]):
			known++
		default:
			sums = append(sums, seal.WindowSum{Window: window, Partial: all[window],
				AsOfNs: end.HorizonNs})
		}
	}
	return sums, known, nil
}

func (a *app) grantReadCommand() *cobra.Command {
	var key, caps string
	c := &cobra.Command{
		Use:   "read SHARE",
		Short: "Show the sums of windows that were shared",
		Long: `Show the sums of the windows of a share that have a token, decrypted here with the key of
the analyst. Each sum is of the state in which its token was made. A node could change a sum
unnoticed: only the owner of the keys can authenticate it.`,
		Args:    cli.Arguments(1, 1, "the file with the share"),
		Example: "  pentad seal grant read anna.share --key anna.key --cap 2026-11",
		RunE: func(c *cobra.Command, args []string) error {
			return a.grantRead(c.Context(), args[0], key, caps)
		},
	}
	c.Flags().StringVar(&key, "key", "", "file with the key of the analyst")
	c.Flags().StringVar(&caps, "cap", "*", "capture times of the windows, e.g. 2026-11")
	_ = c.MarkFlagRequired("key") // it is there
	return c
}

func (a *app) grantRead(ctx context.Context, path, key, capText string) error {
	blob, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	private, err := decodePrivate(key)
	if err != nil {
		return err
	}
	analyst, err := seal.OpenShare(blob, private)
	if err != nil {
		return err
	}
	caps, err := selector.Parse(record.Cap, capText, a.Now())
	if err != nil {
		return cli.Usagef("--cap: %w", err)
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	return a.showWindows(ctx, db, analyst, caps)
}

// showWindows shows the sums of the windows that have tokens and are shared.
func (a *app) showWindows(
	ctx context.Context, db *client.Client, analyst *seal.Analyst, caps record.RangeSet,
) error {
	spec := analyst.Spec()
	tokens, err := grantTokens(ctx, db, &spec, caps)
	if err != nil {
		return err
	}
	w, err := a.Writer(false, cli.Left("cap"), cli.Right("count"), cli.Right(spec.Field+"_sum"))
	if err != nil {
		return err
	}
	states := map[int64]map[uint64]*seal.Partial{} // sums by the state that they are of
	notShared, stale := 0, 0
	for _, window := range slices.Sorted(maps.Keys(tokens)) {
		_, asOfNs, err := seal.TokenState(tokens[window])
		if err != nil {
			return err
		}
		if states[asOfNs] == nil {
			states[asOfNs], err = grantSums(ctx, db, &spec, analyst.Schema(), caps, asOfNs)
			if err != nil {
				return err
			}
		}
		p := states[asOfNs][window]
		if p == nil {
			p = seal.NewPartial(analyst.Schema())
		}
		sum, count, err := analyst.Read(tokens[window], p)
		switch {
		case errors.Is(err, seal.ErrNotShared):
			notShared++
			continue
		case errors.Is(err, seal.ErrStale):
			stale++
			continue
		case err != nil:
			return err
		}
		if err := w.Row(output.Time(int64(window)*spec.WindowNs), output.Count(count),
			output.Raw([]byte(sum))); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if notShared+stale > 0 {
		a.Note("left out: %d windows that are not in the share, %d whose readings are not those "+
			"of their tokens", notShared, stale)
	}
	return nil
}
