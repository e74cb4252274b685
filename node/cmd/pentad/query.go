package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
)

const selectorHelp = `
Selectors (--cid --mid --moid --cap --acq), left out: everything
  v   a,b,c   a..b (b left out)   a..=b (b included)   a..   ..b   *
Times
  2026-11-21T09:45:00Z   2026-11-21 (the day)   2026-11 (the month)   now-24h   ns since 1970`

// queryFlags are the flags of every command that asks for records.
type queryFlags struct {
	parts      [record.NumDims]string
	view, asOf string
	last       uint32
	order      string
	limit      uint64
	filters    filterFlags
	unchecked  bool
	failEmpty  bool

	loc *time.Location // of times without an offset; nil: UTC
}

// addSelectors adds a selector for each axis.
func (q *queryFlags) addSelectors(c *cobra.Command) {
	long := orElse(c.Long, c.Short+".")
	q.addPlaces(c)
	c.Long = strings.TrimSpace(long) + "\n" + selectorHelp
	c.Flags().StringVar(&q.parts[record.Acq], "acq", "*", "acquisition times")
}

// addPlaces adds a selector for each axis but acq, along which changes are read.
func (q *queryFlags) addPlaces(c *cobra.Command) {
	c.Long = strings.TrimSpace(orElse(c.Long, c.Short+".")) + "\n" +
		strings.ReplaceAll(selectorHelp, " --acq", "")
	q.parts[record.Acq] = "*"
	for d, what := range []string{"tenants", "devices", "quantities", "capture times"} {
		c.Flags().StringVar(&q.parts[d], record.Dim(d).String(), "*", what)
	}
}

// addReadings adds the selectors of questions about the whole history of readings, which refuse a
// range of acq and say why.
func (q *queryFlags) addReadings(c *cobra.Command) {
	q.addPlaces(c)
	c.Flags().StringVar(&q.parts[record.Acq], "acq", "*", "is refused")
	_ = c.Flags().MarkHidden("acq") // it is there
}

// addBox adds the selectors and the view.
func (q *queryFlags) addBox(c *cobra.Command) {
	q.addSelectors(c)
	flags := c.Flags()
	flags.Var((*filledFlag)(&q.view), "view", "all versions, which is the default, or only the "+
		"latest of each reading")
	flags.Var((*filledFlag)(&q.asOf), "asof", "the latest versions known before this time")
	q.addLast(c)
	complete(c, "view", "all\tevery version", "latest\tthe newest version of each reading")
}

// addLast adds how many readings of each series are wanted, and what if there are none.
func (q *queryFlags) addLast(c *cobra.Command) {
	flags := c.Flags()
	flags.Uint32Var(&q.last, "last", 0, "at most this many readings of each series, the "+
		"newest, in their latest versions (0: all)")
	flags.BoolVar(&q.failEmpty, "fail-empty", false, "exit with 3 when nothing matches")
}

// addFilter adds the plugins that keep or drop records.
func (q *queryFlags) addFilter(c *cobra.Command) {
	c.Flags().Var(&q.filters, "filter", "keep only the records that this plugin keeps: NAME, "+
		"NAME@DIGEST or FILE.wasm;\ngiven again, only those of them that the next one keeps, "+
		"up to "+strconv.Itoa(record.MaxFilters))
	c.Flags().Var((*filterParamsFlag)(&q.filters), "filter-params",
		"parameters of the filter before it: name=value,...")
	c.Flags().BoolVar(&q.unchecked, "unchecked", false, "run plugins on payloads that are "+
		"declared as something else")
}

// query puts the flags together and checks them.
func (q *queryFlags) query(a *app) (*record.Query, error) {
	now := a.now().UTC()
	if q.loc != nil {
		now = now.In(q.loc)
	}
	query := &record.Query{Limit: q.limit}
	for d := range record.NumDims {
		set, err := selector.ParseIn(record.Dim(d), q.parts[d], now)
		if err != nil {
			return nil, usagef("--%s: %w", record.Dim(d), err)
		}
		query.Box[d] = set
	}
	switch q.view {
	case "", "all":
	case "latest":
		query.View = record.ViewLatest
	default:
		return nil, usagef("--view %q is unknown; write all or latest", q.view)
	}
	if q.asOf != "" {
		if query.View != record.ViewAll {
			return nil, usagef("--asof and --view latest are two views; give one of them")
		}
		span, err := timeparse.ParseIn(q.asOf, now)
		if err != nil {
			return nil, usagef("--asof: %w", err)
		}
		query.View, query.AsOfAcqNs = record.ViewAsOf, span.FromNs
	}
	if query.Last = q.last; q.last > 0 && q.view == "" && query.View == record.ViewAll {
		query.View = record.ViewLatest // versions are no readings
	}
	switch q.order {
	case "", "none":
	case "acq":
		query.Order = record.OrderAcq
	case "key":
		query.Order = record.OrderKey
	default:
		return nil, usagef("--order %q is unknown; write key, acq or none", q.order)
	}
	if err := query.Normalize(); err != nil {
		return nil, usageError{err}
	}
	return query, nil
}

// complete offers fixed values of a flag, each with a description after a tab.
func complete(c *cobra.Command, flag string, values ...string) {
	completions := make([]cobra.Completion, len(values))
	copy(completions, values)
	err := c.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(completions, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic("BUG: completion of --" + flag + ": " + err.Error())
	}
}

// parseGroup reads --group: parts of the key, and cap=LENGTH for buckets of capture time.
func parseGroup(text string) (record.GroupBy, error) {
	var g record.GroupBy
	if text == "" {
		return g, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, length, hasLength := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case name == "cid" && !hasLength:
			g.CID = true
		case name == "mid" && !hasLength:
			g.MID = true
		case name == "moid" && !hasLength:
			g.MOID = true
		case name == "cap" && hasLength:
			if ns, err := strconv.ParseInt(length, 10, 64); err == nil && ns > 0 {
				g.CapBucketNs = ns
				continue
			}
			bucket, err := timeparse.Duration(length)
			if err != nil || bucket <= 0 {
				return g, usagef("--group cap=%s: write a length as 15m, 1h or 1d", length)
			}
			g.CapBucketNs = int64(bucket)
		default:
			return g, usagef("--group %q: write cid, mid, moid and cap=1h, joined by commas", part)
		}
	}
	return g, nil
}
