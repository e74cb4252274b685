package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

func (a *app) explainCommand() *cobra.Command {
	var q queryflags.Flags
	var name, params string
	var of explainOf
	c := &cobra.Command{
		Use:   "explain",
		Short: "Explain how a query finds its records",
		Long: `Run a query on the node and report how its records were found: the shards, the sealed segments
skipped by their bounds, the blocks left by posting lists and dropped by the zones of each
dimension, then the blocks opened, and the rows examined and found.

Filters, order and limit apply to what is found and are ignored; --where counts, and the report has
the blocks of which it needed no row. --plugin also reports for how many
blocks the node has cached partial results of that plugin with the same parameters and filters;
their records are not read again. A table shows a tree with at most 40 segments that were not
skipped; json and ndjson show all.

--of explains another question about the same devices and ranges: every version, a diff, whose plan
is that of the records acquired --from to --to, or the next part of a change feed from --since on.`,
		Args: cli.NoCommand,
		Example: `  pentad explain --cid 1 --mid 7 --cap now-24h..
  pentad explain --moid 1 --view all -o table
  pentad explain --cid 1 --last 1 -o json
  pentad explain --moid 1 --where 'value > 80' -o table
  pentad explain --moid 1 --plugin stats
  pentad explain --cid 1 --select type=meter --of diff --from 2026-11-01
  pentad explain --cid 1 --of changes --since now-1h`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.explainQuery(c.Context(), name, params, &q, &of)
		},
	}
	q.AddBox(c)
	q.AddFilter(c)
	q.AddWhereType(c, "give --where, too, or leave --type out")
	c.Flags().StringVar(&name, "plugin", "",
		"aggregate plugin to explain: NAME, NAME@DIGEST or FILE.wasm")
	c.Flags().StringVar(&params, "params", "", "parameters of the plugin: NAME=VALUE,...")
	c.Flags().StringVar(&of.of, "of", "", "explain versions, diff or changes, e.g. diff")
	c.Flags().StringVar(&of.from, "from", "", "time at which a diff begins, e.g. 2026-11-01")
	c.Flags().StringVar(&of.to, "to", "now", "time at which a diff ends, e.g. now-1d")
	c.Flags().StringVar(&of.since, "since", "", "time or acq at which changes begin, e.g. now-1h")
	return c
}

// explainOf are the flags of what is explained in place of a query.
type explainOf struct{ of, from, to, since string }

// parse checks the flags.
func (o *explainOf) parse(now time.Time) (of client.ExplainOf, err error) {
	of = client.ExplainOf{Of: o.of, FromNs: record.Acq.Min(), ToNs: record.Acq.Max()}
	switch {
	case o.of != "" && o.of != api.ExplainVersions && o.of != api.ExplainDiff &&
		o.of != api.ExplainChanges:
		return of, cli.Usagef("--of %.80s: use versions, diff or changes", o.of)
	case o.of == api.ExplainDiff && o.from == "":
		return of, cli.Usagef("--of diff: no time at which it begins; add --from")
	case o.of != api.ExplainDiff && (o.from != "" || o.to != "now"):
		return of, cli.Usagef("--from and --to are for --of diff; changes begin at --since")
	case o.of != api.ExplainChanges && o.since != "":
		return of, cli.Usagef("--since is for --of changes; a diff begins at --from")
	}
	for _, one := range []struct {
		flag, text string
		ns         *int64
	}{{"--from", o.from, &of.FromNs}, {"--since", o.since, &of.FromNs}, {"--to", o.to, &of.ToNs}} {
		if one.text == "" || one.flag == "--to" && one.text == "now" {
			continue
		}
		at, err := timeparse.Parse(one.text, now)
		if err != nil {
			return of, cli.Usagef("%s: %w", one.flag, err)
		}
		*one.ns = at.FromNs
	}
	return of, nil
}

func (a *app) explainQuery(
	ctx context.Context, name, params string, q *queryflags.Flags, other *explainOf,
) error {
	format, err := a.Format()
	if err != nil {
		return err
	}
	if format == output.CSV {
		return cli.Usagef("-o csv: not supported, an explanation is not a list; use table or json")
	}
	if name == "" && params != "" {
		return cli.Usagef("--params: no plugin given; add --plugin")
	}
	of, err := other.parse(a.Now())
	if err != nil {
		return err
	}
	query, err := q.Query(ctx, a.App)
	if err != nil {
		return err
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if name != "" {
		_, err = q.AddAggregate(ctx, db, name, params, query)
	} else {
		query.Filters, err = q.Calls(ctx, db, &query.Box)
	}
	if err != nil {
		return err
	}
	x, err := db.ExplainOf(ctx, query, of)
	if err != nil {
		return err
	}
	if format == output.Table {
		_, err = a.Stdout.Write([]byte(explainTree(&x)))
	} else {
		err = json.NewEncoder(a.Stdout).Encode(x)
	}
	if err == nil && x.Found == 0 && q.FailEmpty {
		return cli.ErrEmpty
	}
	return err
}

// branch is a line of a tree and what hangs on it.
type branch struct {
	text string
	subs []branch
}

// lines are what hangs on the root of a tree.
func (b *branch) lines() string {
	var out strings.Builder
	b.appendTo(&out, "")
	return out.String()
}

// appendTo appends the lines below a branch, each behind the stems of what it hangs on.
func (b *branch) appendTo(out *strings.Builder, stems string) {
	for i := range b.subs {
		fork, stem := "├─ ", "│  "
		if i == len(b.subs)-1 {
			fork, stem = "└─ ", "   "
		}
		out.WriteString(stems + fork + b.subs[i].text + "\n")
		b.subs[i].appendTo(out, stems+stem)
	}
}

// explainTree is an explanation for people.
func explainTree(x *client.Explanation) string {
	n := output.Thousands[int]
	count := output.Thousands[uint64]
	opened := branch{text: fmt.Sprintf("blocks opened: %s, %s; rows examined: %s",
		count(x.Opened), output.Size(x.OpenedBytes), count(x.Examined))}
	if x.Partials > 0 {
		opened.subs = []branch{{text: fmt.Sprintf("partial aggregates: %s blocks; cached: %s",
			count(x.Partials), count(x.PartialsKnown))}}
	}
	if x.SkippedByWhere > 0 {
		opened.subs = append(opened.subs, branch{text: fmt.Sprintf("skipped, no payload can meet "+
			"--where: %s; their rows were not looked at", count(x.SkippedByWhere))})
	}
	root := branch{}
	if x.SelectNs > 0 {
		selected := branch{text: fmt.Sprintf("devices selected: %s, in %s",
			n(x.Devices), output.Duration(time.Duration(x.SelectNs)))}
		if x.LocatedBlocks > 0 || x.Located > 0 {
			selected.subs = []branch{{text: fmt.Sprintf("locations read: %s; blocks opened: %s; "+
				"skipped, none is where the selector is met: %s", count(x.Located),
				count(x.LocatedBlocks), count(x.LocatedSkipped))}}
		}
		root.subs = append(root.subs, selected)
	}
	root.subs = append(root.subs, []branch{
		{text: fmt.Sprintf("shards: %s; queried: %s", n(x.Shards), n(x.ShardsAsked))},
		{text: fmt.Sprintf("heads: %s; rows: %s; matching: %s", n(x.Heads),
			output.Thousands(x.HeadRows), count(x.HeadFound))},
		segmentsBranch(x.Segments),
		{text: "blocks: " + n(x.Blocks), subs: []branch{
			{text: "dropped by bounds of segments: " + n(x.DroppedByBounds)},
			{text: "dropped by posting lists: " + n(x.DroppedByLists)},
			{text: zonesText(x.DroppedByZones)},
			{text: candidatesText(x.Candidates, x.Inside)}}},
		opened,
		{text: fmt.Sprintf("rows found: %s; versions hidden by newer ones: %s", count(x.Found),
			count(x.Hidden))},
		{text: fmt.Sprintf("took: %s; planning: %s; workers: %d",
			output.Duration(time.Duration(x.TookNs)), output.Duration(time.Duration(x.PlanNs)),
			x.Workers)},
	}...)
	return "everything below horizon " + record.FormatNs(x.HorizonNs) + "\n" + root.lines()
}

// segmentsBranch counts the segments that were skipped and shows the others, up to a screen.
func segmentsBranch(segments []client.SegmentPlan) branch {
	skipped := map[string]int{}
	var shown []branch
	rest := 0
	for i := range segments {
		switch s := &segments[i]; {
		case s.SkippedBy != "":
			skipped[s.SkippedBy]++
		case len(shown) == cli.TableRows:
			rest++
		default:
			shown = append(shown, segmentBranch(s))
		}
	}
	b := branch{text: "sealed segments: " + output.Thousands(len(segments))}
	for d := range record.NumDims {
		if name := record.Dim(d).String(); skipped[name] > 0 {
			b.subs = append(b.subs, branch{text: fmt.Sprintf("skipped, %s is out of bounds: %s",
				name, output.Thousands(skipped[name]))})
		}
	}
	if b.subs = append(b.subs, shown...); rest > 0 {
		b.subs = append(b.subs, branch{text: output.Thousands(rest) + " more; -o json has all"})
	}
	return b
}

func segmentBranch(s *client.SegmentPlan) branch {
	n := output.Thousands[int]
	return branch{
		text: fmt.Sprintf("segment %d of shard %d: %s; rows: %s; blocks: %s", s.ID, s.Shard,
			output.Size(s.Bytes), n(s.Rows), n(s.Blocks)),
		subs: []branch{
			{text: fmt.Sprintf("posting lists: %s; blocks left: %s", n(s.Lists), n(s.Listed))},
			{text: zonesText(s.DroppedByZones)},
			{text: candidatesText(s.Candidates, s.Inside)}},
	}
}

func candidatesText(candidates, inside int) string {
	return fmt.Sprintf("candidates: %s; inside the box: %s", output.Thousands(candidates),
		output.Thousands(inside))
}

// zonesText says how many blocks the zones of which dimension dropped.
func zonesText(c client.DimCounts) string {
	counts := [record.NumDims]int{record.CID: c.CID, record.MID: c.MID, record.MOID: c.MOID,
		record.Cap: c.Cap, record.Acq: c.Acq}
	total := 0
	var parts []string
	for d, count := range counts {
		if total += count; count > 0 {
			parts = append(parts, record.Dim(d).String()+" "+output.Thousands(count))
		}
	}
	text := "dropped by zones: " + output.Thousands(total)
	if total > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}
