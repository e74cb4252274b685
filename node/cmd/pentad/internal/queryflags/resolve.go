package queryflags

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
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

func quantityIDs(ctx context.Context, db *client.Client) (map[string]int64, string, error) {
	all, err := db.Quantities(ctx)
	ids := make(map[string]int64, len(all))
	for _, q := range all {
		ids[q.Name] = int64(q.MOID)
	}
	return ids, "a declared quantity (pentad quantity ls)", err
}

// Resolver finds the numbers of names that records are written under. It is not for many
// goroutines.
type Resolver struct {
	DB     *client.Client
	Create bool   // devices that are not there
	Prefix string // of parts in errors: -- for flags
	Hint   string // ends the error of a device that is not there

	tenants, quantities map[string]int64 // nil: not asked for
	devices             map[deviceName]int64
}

type deviceName struct {
	cid  int32
	name string
}

// Key returns the parts of a key of texts that are numbers or names.
func (r *Resolver) Key(ctx context.Context, cid, mid, moid string) (key record.Key, err error) {
	if key.CID, err = r.Part(ctx, record.CID, cid); err != nil {
		return key, err
	}
	if key.MOID, err = r.Part(ctx, record.MOID, moid); err != nil {
		return key, err
	}
	key.MID, err = r.device(ctx, key.CID, mid)
	return key, err
}

// number reads a part that is a number, and reports whether it is one.
func (r *Resolver) number(d record.Dim, text string) (n int64, is bool, err error) {
	if text == "" {
		return 0, true, fmt.Errorf("%s%s: missing", r.Prefix, d)
	}
	n, err = strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, false, nil
	}
	if n < d.Min() || n >= d.Max() {
		err = fmt.Errorf("%s%s %d is outside %d to %d", r.Prefix, d, n, d.Min(), d.Max()-1)
	}
	return n, true, err
}

// Part returns the number of a tenant or a quantity of a text that is a number or a name.
func (r *Resolver) Part(ctx context.Context, d record.Dim, text string) (int32, error) {
	n, is, err := r.number(d, text)
	if is || err != nil {
		return int32(n), err
	}
	known, table, what := &r.tenants, tenantIDs, "tenant"
	if d == record.MOID {
		known, table, what = &r.quantities, quantityIDs, "quantity"
	}
	if *known == nil && !registry.ReadsAsIDs(text) {
		if *known, _, err = table(ctx, r.DB); err != nil {
			return 0, err
		}
	}
	n, ok := (*known)[text]
	if !ok {
		return 0, fmt.Errorf("%s%s %q is neither an integer nor the name of a %s; pentad "+
			"%s ls lists them", r.Prefix, d, excerpt.Of(text, 80), what, what)
	}
	return int32(n), nil
}

func (r *Resolver) device(ctx context.Context, cid int32, text string) (int64, error) {
	n, is, err := r.number(record.MID, text)
	if is || err != nil {
		return n, err
	}
	key := deviceName{cid, text}
	if mid := r.devices[key]; mid != 0 {
		return mid, nil
	}
	var ids []int64
	if r.Create {
		ids, _, err = r.DB.NameDevices(ctx, cid, []string{text})
	} else {
		ids, err = r.DB.FindDevices(ctx, cid, []string{text})
	}
	if err != nil {
		return 0, err
	}
	if ids[0] == 0 {
		return 0, fmt.Errorf("%smid: tenant %d has no device with the name %q; pentad device "+
			"ls --cid %d lists its names%s", r.Prefix, cid, excerpt.Of(text, 80), cid, r.Hint)
	}
	if r.devices == nil {
		r.devices = map[deviceName]int64{}
	}
	if len(r.devices) < maxKnownDevices {
		r.devices[key] = ids[0]
	}
	return ids[0], nil
}

// maxKnownDevices bounds the names that a Resolver remembers, some 100 bytes each.
const maxKnownDevices = 1 << 20

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
