package queryflags

import (
	"context"
	"strings"
	"time"
	"unicode"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// namesTable returns the ids of names that a node keeps, and what they are names of.
type namesTable func(context.Context, *client.Client) (ids map[string]int64, of string, err error)

// replaceNames replaces names of tenants and quantities, that the node keeps, in the selectors of
// these by numbers. It asks the node only for selectors that are none of numbers.
func (q *Flags) replaceNames(ctx context.Context, a *cli.App, now time.Time) error {
	for d, table := range map[record.Dim]namesTable{record.CID: tenantIDs,
		record.MOID: quantityIDs} {
		if _, err := selector.ParseIn(d, q.Parts[d], now); err == nil ||
			!strings.ContainsFunc(q.Parts[d], unicode.IsLetter) {
			continue
		}
		db, err := a.Connect(ctx)
		if err != nil {
			return err
		}
		ids, of, err := table(ctx, db)
		if err = cli.FirstError(err, db.Close()); err != nil {
			return err
		}
		if q.Parts[d], err = selectNames(q.Parts[d], ids, of); err != nil {
			return cli.Usagef("--%s: %w", d, err)
		}
	}
	return nil
}

func tenantIDs(ctx context.Context, db *client.Client) (map[string]int64, string, error) {
	all, err := db.Tenants(ctx)
	ids := make(map[string]int64, len(all))
	for _, t := range all {
		ids[t.Name] = int64(t.CID)
	}
	return ids, "a tenant (pentad tenant ls)", err
}

// NewestQuantities returns the declared quantities as the cluster has them, or if no node can tell,
// as the node that is asked knows them.
func NewestQuantities(ctx context.Context, db *client.Client) ([]client.Quantity, error) {
	all, err := db.Linearizable().Quantities(ctx)
	if err != nil && ctx.Err() == nil {
		return db.Quantities(ctx)
	}
	return all, err
}

func quantityIDs(ctx context.Context, db *client.Client) (map[string]int64, string, error) {
	all, err := NewestQuantities(ctx, db)
	ids := make(map[string]int64, len(all))
	for _, q := range all {
		ids[q.Name] = int64(q.MOID)
	}
	return ids, "a declared quantity (pentad quantity ls)", err
}

// keptNames returns what lets answers show the names of a part that the node keeps, nil if a text
// is no part.
func (q *Flags) keptNames(part string) func(context.Context, *cli.App) error {
	show := func(table namesTable) func(context.Context, *cli.App) error {
		return func(ctx context.Context, a *cli.App) error {
			db, err := a.Connect(ctx)
			if err != nil {
				return err
			}
			ids, _, err := table(ctx, db)
			if err = cli.FirstError(err, db.Close()); err == nil {
				showNames(a, part, ids)
			}
			return err
		}
	}
	switch part {
	case record.CID.String():
		return show(tenantIDs)
	case record.MID.String():
		return q.readDevices
	case record.MOID.String():
		return show(quantityIDs)
	}
	return nil
}
