package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/demodata"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/sdk/client"
)

// demoDevices gives the towns and meters of a plan names and descriptions, and returns the ids of
// the meters, from index 1 on.
func demoDevices(ctx context.Context, db *client.Client, p demodata.Plan) ([]int64, error) {
	mids := make([]int64, 1, p.Meters+1)
	for _, meters := range p.Tenants() {
		cid := demodata.CID(meters[0])
		names := make([]string, len(meters))
		devices := make([]client.DescribedDevice, len(meters))
		for i, meter := range meters {
			names[i] = demodata.Name(meter)
			devices[i] = client.DescribedDevice{FromNs: p.Start().UnixNano(),
				Description: demodata.Device(meter)}
		}
		if err := db.NameTenant(ctx, cid, demodata.Town(cid)); err != nil {
			return nil, err
		}
		ids, _, err := db.NameDevices(ctx, cid, names)
		if err != nil {
			return nil, err
		}
		for i, mid := range ids {
			devices[i].MID = mid
		}
		if err := db.DescribeDevices(ctx, cid, devices); err != nil {
			return nil, err
		}
		mids = append(mids, ids...)
	}
	return mids, nil
}

// shown is the meter that the demo asks about, and its building.
func (s *demoShow) shown() (town, name, building string) {
	meter := s.plan.Meters/2 + 1
	d := demodata.Device(meter)
	return demodata.Town(demodata.CID(meter)), d.Name, d.Group[:strings.LastIndex(d.Group, "/")+1]
}

// described counts readings of devices that descriptions choose.
func (s *demoShow) described(ctx context.Context) error {
	town, _, building := s.shown()
	place := demodata.Device(s.plan.Meters/2 + 1).Place
	s.title("By what is known of devices: pentad count --tenant %s ...", town)
	w := s.table(cli.Left("query"), cli.Right("records"), cli.Right("time"))
	for _, words := range [][]string{
		{"--select", "group^=" + building},
		{"--select", "group^=" + building + ", floor=2..4"},
		{"--select", "type=meter, alt>=6", "--quantity", "power", "--where", "value > 2"},
		{"--select", fmt.Sprintf("near(%g,%g,500m)", place.Lat, place.Lon), "--quantity",
			"temperature"},
	} {
		q, err := s.askWords(ctx, append([]string{"--tenant", town}, words...))
		if err != nil {
			return err
		}
		start := s.app.Now()
		n, err := queryflags.Count(ctx, s.db, q)
		if err != nil {
			return err
		}
		if err := w.Row(output.Text(shellWords(words)), output.Count(n),
			output.Span(s.app.Now().Sub(start))); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return s.days(ctx, []string{"--tenant", town, "--select", "group^=" + building + ", floor=2",
		"--quantity", "power"})
}

// maxShownDays keeps the table of the demo on one screen.
const maxShownDays = 5

// days shows local days of devices that a description chooses.
func (s *demoShow) days(ctx context.Context, words []string) error {
	const zone = "Europe/Berlin"
	q, err := s.askWords(ctx, words)
	if err != nil {
		return err
	}
	if q.GroupBy.Window, err = calendar.ParseEvery("1d", zone); err != nil {
		return err
	}
	groups, doc, err := queryflags.AskGroups(ctx, s.db, q, "stats", "")
	if err != nil {
		return err
	}
	s.title("Days of one floor, the last %d of %d: pentad windows %s \\\n  --every 1d --tz %s "+
		"--agg stats", min(maxShownDays, len(groups)), len(groups), shellWords(words), zone)
	w := s.table(queryflags.GroupColumns(q.GroupBy, doc, nil)...)
	return queryflags.WriteGroups(w, q.GroupBy, doc, nil,
		groups[max(0, len(groups)-maxShownDays):])
}

// shellWords is how words are typed.
func shellWords(words []string) string {
	typed := make([]string, len(words))
	for i, word := range words {
		if typed[i] = word; strings.ContainsAny(word, " ^()<>!") {
			typed[i] = "'" + word + "'"
		}
	}
	return strings.Join(typed, " ")
}
