package queryflags

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// readDevices reads the names of devices that the node keeps, for answers and selectors.
func (q *Flags) readDevices(ctx context.Context, a *cli.App) error {
	tenants, err := selector.ParseIn(record.CID, q.Parts[record.CID], a.Now())
	if err != nil {
		return cli.Usagef("--cid: %w", err)
	}
	box := record.Box{record.CID: tenants}
	if !box.Pins(record.CID) {
		return cli.Usagef("--names mid: names of devices are those of a tenant; choose one with " +
			"--cid, e.g. --cid 1")
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	asOfNs, err := q.asOfNs(q.now(a))
	if err != nil {
		return err
	}
	devices, err := db.DevicesAsOf(ctx, int32(tenants[0].From), asOfNs)
	if err != nil {
		return err
	}
	ids := make(map[string]int64, len(devices))
	for _, d := range devices {
		ids[d.Name] = d.MID
	}
	q.Parts[record.MID], err = selectNames(q.Parts[record.MID], ids,
		"tenant "+strconv.FormatInt(tenants[0].From, 10))
	if err != nil {
		return cli.Usagef("--mid: %w", err)
	}
	showNames(a, record.MID.String(), ids)
	return nil
}

// parseDevices parses a selector of devices that is no selector of ids, why says why: names of
// devices of one tenant, with ids among them, between commas. Names are those that devices have in
// the view of the query.
func (q *Flags) parseDevices(
	ctx context.Context, a *cli.App, query *record.Query, now time.Time, why error,
) (record.RangeSet, error) {
	text := strings.TrimSpace(q.Parts[record.MID])
	box := record.Box{record.CID: query.Box[record.CID]}
	if registry.ReadsAsIDs(text) {
		return nil, cli.Usagef("--mid: %w", why)
	}
	if !box.Pins(record.CID) {
		return nil, cli.Usagef("--mid: %w; to select by the names that the node keeps, choose a "+
			"tenant with --cid%s", why, q.namesHint(record.MID))
	}
	cid, names := int32(box[record.CID][0].From), []string(nil)
	for part := range strings.SplitSeq(text, ",") {
		names = append(names, strings.TrimSpace(part))
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	ids, err := db.FindDevicesAsOf(ctx, cid, names, query.AsOfAcqNs)
	if err != nil {
		return nil, err
	}
	var set record.RangeSet
	for i, name := range names {
		if id := ids[i]; id != 0 {
			set = append(set, record.At(id))
			continue
		}
		some, err := selector.ParseIn(record.MID, name, now)
		if err != nil {
			then, flag := "", ""
			if q.AsOf != "" {
				then, flag = " as of "+q.AsOf, " --asof "+q.AsOf
			}
			return nil, cli.Usagef("--mid: tenant %d has no device with the name %q%s; pentad "+
				"device ls --cid %d%s lists its names%s", cid, excerpt.Of(name, 80), then, cid,
				flag, q.namesHint(record.MID))
		}
		if len(some) == 0 { // all devices
			return nil, nil
		}
		set = append(set, some...)
	}
	return set, nil
}

// SelectedDevices returns the devices that the selector of a query chooses, ascending, as the view
// of the query knows them.
func SelectedDevices(
	ctx context.Context, db *client.Client, q *record.Query,
) (mids []int64, err error) {
	described := describedBy(q.Select)
	described.Order = record.OrderKey
	if q.View == record.ViewAsOf {
		described.View, described.AsOfAcqNs = q.View, q.AsOfAcqNs
	}
	described.Box[record.CID], described.Box[record.MID] = q.Box[record.CID], q.Box[record.MID]
	end, err := db.Scan(ctx, described, func(b *record.Batch) error {
		mids = append(mids, b.MID...)
		return nil
	})
	if err == nil {
		err = CheckEnd(end)
	}
	return mids, err
}

// NameSelected puts the devices that the selector of a query chooses into its box, in place of the
// selector: for questions whose answers must be checked, without the node, to be about these. It
// reports whether there are any.
func NameSelected(ctx context.Context, db *client.Client, q *record.Query) (some bool, err error) {
	if q.Select == "" {
		return true, nil
	}
	mids, err := SelectedDevices(ctx, db, q)
	if err != nil {
		return false, err
	}
	var set record.RangeSet
	for _, mid := range mids {
		set = append(set, record.At(mid))
	}
	if len(set) > record.MaxRangesPerDim {
		return false, cli.Usagef("--select: %d devices, at most %d can be checked at once; select "+
			"fewer, e.g. by group", len(set), record.MaxRangesPerDim)
	}
	q.Select, q.Box[record.MID] = "", set
	if len(set) == 0 {
		return false, nil
	}
	return true, q.Normalize()
}

// describedBy returns a query for the descriptions of devices that a selector chooses.
func describedBy(selector string) *record.Query {
	q := &record.Query{View: record.ViewLatest, Last: 1, Select: selector, KeysOnly: true}
	q.Box[record.MOID] = record.RangeSet{record.At(record.DescriptionMOID)}
	return q
}
