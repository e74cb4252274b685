// Package queryflags holds the flags that select records, filters and aggregates, and shows
// results.
//
// It knows no command. Its main type is Flags; it starts no goroutine.
package queryflags

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/where"
	"github.com/pentad-db/pentad/sdk/wire"
)

const selectorHelp = `
Selectors (--cid --mid --moid --cap --acq, default: everything)
  v   a,b,c   a..b (without b)   a..=b (with b)   a..   ..b   *
Times
  2026-11-21T09:45:00Z   2026-11-21 (the day)   2026-11 (the month)   now-24h   ns since 1970`

// Flags are the flags of every command that asks for records.
type Flags struct {
	Parts      [record.NumDims]string
	View, AsOf string
	selected   string // --select
	moving     string // --moving
	movingAge  string // --moving-age
	last       uint32
	Order      string
	Limit      uint64
	Where      string
	Type       *TypeFlag // of payloads, also of Where; nil: there is no --type
	whereType  string    // what to use in place of a --type without Where; "": it needs none
	Filters    Filters
	Unchecked  bool
	FailEmpty  bool

	// Readings says that the latest view is the default, unless Parts restrict acq: who asks for
	// arrivals wants each of them.
	Readings bool

	Loc *time.Location // of times without an offset; nil: UTC

	names      []string           // --names
	named      bool               // there is --names
	declared   *[]client.Quantity // of the node; nil: not asked for
	unreadable unreadable
}

// AddSelectors adds a selector for each axis.
func (q *Flags) AddSelectors(c *cobra.Command) {
	long := cli.OrElse(c.Long, c.Short+".")
	q.AddKeyFlags(c)
	c.Long = strings.TrimSpace(long) + "\n" + selectorHelp
	c.Flags().StringVar(&q.Parts[record.Acq], "acq", "*",
		"acquisition times, e.g. 2026-11-21 or now-1h..")
	cli.Once(c, "acq", "separate them by commas")
}

// AddKeyFlags adds a selector for each dimension but acq, along which changes are read.
func (q *Flags) AddKeyFlags(c *cobra.Command) {
	c.Long = strings.TrimSpace(cli.OrElse(c.Long, c.Short+".")) + "\n" +
		strings.ReplaceAll(selectorHelp, " --acq", "")
	q.Parts[record.Acq] = "*"
	for d, what := range []string{"tenants, e.g. 1, 1..=3 or acme; also --tenant",
		"devices, e.g. 7, 40..50 or oulu/t7; also --device",
		"quantities, e.g. 1, 1,2 or energy; also --quantity",
		"capture times, e.g. 2026-11 or now-24h.."} {
		c.Flags().StringVar(&q.Parts[d], record.Dim(d).String(), "*", what)
		cli.Once(c, record.Dim(d).String(), "separate them by commas")
	}
}

// AddReadings adds the selectors of queries about the whole history of readings, which refuse a
// range of acq and say why.
func (q *Flags) AddReadings(c *cobra.Command) {
	q.AddKeyFlags(c)
	q.AddSelect(c)
	c.Flags().StringVar(&q.Parts[record.Acq], "acq", "*",
		"not supported: the query needs the whole history")
	_ = c.Flags().MarkHidden("acq") // it is there
	q.AddNames(c)
}

// AddBox adds the selectors and the view, which is the latest unless flags say otherwise.
func (q *Flags) AddBox(c *cobra.Command) {
	q.Readings = true
	q.AddSelectors(c)
	q.AddSelect(c)
	flags := c.Flags()
	flags.StringVar(&q.moving, "moving", "",
		"places in --select are where devices were when readings were captured, by\ntheir "+
			"readings of a quantity with the declared fields lat, lon and alt,\n"+
			registry.LocationQuantity+" unless --moving=QUANTITY names another")
	flags.Lookup("moving").NoOptDefVal = registry.LocationQuantity
	flags.StringVar(&q.movingAge, "moving-age", "",
		"maximum age of a location, e.g. 1h; without it a device is where it was last")
	flags.Var((*cli.FilledFlag)(&q.View), "view",
		"versions to show: latest or all (default latest; with --acq: all)")
	flags.Var((*cli.FilledFlag)(&q.AsOf), asOfFlag,
		"show the latest versions known before this time, e.g. now-1h;\na date means the start "+
			"of the day, in UTC")
	q.AddLast(c)
	cli.Complete(c, "view", "latest\tthe newest version of each reading", "all\tevery version")
}

// AddSelect adds the selector of devices by their descriptions.
func (q *Flags) AddSelect(c *cobra.Command) {
	c.Flags().Var((*cli.FilledFlag)(&q.selected), "select",
		"devices by their descriptions, e.g. 'type=thermometer, group^=oulu/'\n(with one tenant "+
			"as --cid; see pentad device --help)")
	cli.Once(c, "select", "join them with and")
}

// asOfFlag is the name of a flag whose time may be local.
const asOfFlag = "asof"

// TimesInZone says in the help of a command that has --tz that its times are in that zone.
func TimesInZone(c *cobra.Command) {
	flag := c.Flags().Lookup(asOfFlag)
	flag.Usage = strings.Replace(flag.Usage, "in UTC", "in the zone of --tz", 1)
}

// AddLast adds how many readings of each series are wanted, what if there are none, and names.
func (q *Flags) AddLast(c *cobra.Command) {
	flags := c.Flags()
	flags.Uint32Var(&q.last, "last", 0,
		"maximum number of readings per series, newest first, latest versions (0: no limit)")
	flags.BoolVar(&q.FailEmpty, "fail-empty", false, "exit with code 3 if nothing matches")
	q.AddNames(c)
}

// AddFilter adds the condition and the plugins that keep or drop records.
func (q *Flags) AddFilter(c *cobra.Command) {
	c.Flags().Var((*cli.FilledFlag)(&q.Where), "where",
		"condition on declared fields of payloads, e.g. 'value > -5 and quality = 0'")
	cli.Once(c, "where", "join them with and")
	c.Flags().Var(&q.Filters, "filter",
		"filter plugin: NAME, NAME@DIGEST or FILE.wasm; may be repeated,\na record must pass "+
			"all of them, at most "+strconv.Itoa(record.MaxFilters))
	c.Flags().Var((*filterParamsFlag)(&q.Filters), "filter-params",
		"parameters of the preceding --filter: NAME=VALUE,...")
	c.Flags().BoolVar(&q.Unchecked, "unchecked", false,
		"run plugins on payloads that are declared as another type")
}

// AddWhereType adds --type to a command that shows no payloads, for --where; instead says what is
// meant by the flag alone.
func (q *Flags) AddWhereType(c *cobra.Command, instead string) {
	q.Type, q.whereType = &TypeFlag{}, instead
	q.Type.Add(c, "type of payloads that --where is about", "none")
}

// Selects reports whether devices or payloads are selected.
func (q *Flags) Selects() bool {
	return q.selected != "" || q.Where != "" || len(q.Filters) > 0
}

// Query puts the flags together and checks them.
func (q *Flags) Query(ctx context.Context, a *cli.App) (*record.Query, error) {
	now := q.now(a)
	if err := q.replaceNames(ctx, a, now); err != nil {
		return nil, err
	}
	if err := q.readNames(ctx, a); err != nil {
		return nil, err
	}
	condition, err := q.condition()
	if err != nil {
		return nil, err
	}
	query := &record.Query{Limit: q.Limit, Select: q.selected, Where: condition}
	if query.Moving, err = q.movingText(); err != nil {
		return nil, err
	}
	var named error // why the devices are not ids
	for d := range record.NumDims {
		set, err := selector.ParseIn(record.Dim(d), q.Parts[d], now)
		if err != nil && record.Dim(d) == record.MID {
			named = err
		} else if err != nil {
			return nil, cli.Usagef("--%s: %w%s", record.Dim(d), err, q.namesHint(record.Dim(d)))
		}
		query.Box[d] = set
		noteYear(a, record.Dim(d), q.Parts[d])
	}
	if err := q.setView(a, query, now); err != nil {
		return nil, err
	}
	if named != nil {
		if query.Box[record.MID], err = q.parseDevices(ctx, a, query, now, named); err != nil {
			return nil, err
		}
	}
	query.Last = q.last
	if query.Order, err = q.order(); err != nil {
		return nil, err
	}
	if err := query.Normalize(); err != nil {
		return nil, cli.Usage(err)
	}
	if q.selected != "" {
		NoteDoubts(ctx, a, int32(query.Box[record.CID][0].From), q.selected, query.AsOfAcqNs)
	}
	return query, nil
}

func (q *Flags) now(a *cli.App) time.Time {
	if q.Loc != nil {
		return a.Now().In(q.Loc)
	}
	return a.Now().UTC()
}

// setView sets which versions the query shows.
func (q *Flags) setView(a *cli.App, query *record.Query, now time.Time) error {
	switch q.View {
	case "":
		if q.Readings && (len(query.Box[record.Acq]) == 0 || q.last > 0) {
			query.View = record.ViewLatest
		}
	case "all":
	case "latest":
		query.View = record.ViewLatest
	default:
		return cli.Usagef("--view %q is unknown; use latest or all", q.View)
	}
	if q.AsOf != "" {
		if q.View == "latest" {
			return cli.Usagef("--asof and --view latest: mutually exclusive; use one")
		}
		asOfNs, err := q.asOfNs(now)
		if err != nil {
			return err
		}
		NoteMoment(a, "as known before", q.AsOf, asOfNs, now.Location())
		query.View, query.AsOfAcqNs = record.ViewAsOf, asOfNs
	}
	return nil
}

// asOfNs returns the acq of --asof, 0 if there is none.
func (q *Flags) asOfNs(now time.Time) (int64, error) {
	if q.AsOf == "" {
		return 0, nil
	}
	span, err := timeparse.ParseIn(q.AsOf, now)
	if err != nil {
		return 0, cli.Usagef("--asof: %w", err)
	}
	return span.FromNs, nil
}

// movingText returns what --moving and --moving-age say.
func (q *Flags) movingText() (string, error) {
	m := registry.Moving{Quantity: q.moving}
	switch {
	case q.movingAge != "" && q.moving == "":
		return "", cli.Usagef("--moving-age: needs --moving")
	case q.moving == "":
		return "", nil
	case q.movingAge != "":
		age, err := timeparse.Duration(q.movingAge)
		if err != nil || age <= 0 {
			return "", cli.Usagef("--moving-age %.80q: not a time span; use e.g. 90s, 1h or 1d",
				q.movingAge)
		}
		m.MaxAgeNs = int64(age)
	}
	return m.String(), nil
}

// order returns the order of --order.
func (q *Flags) order() (record.Order, error) {
	switch q.Order {
	case "", "none":
		return record.OrderNone, nil
	case "acq":
		return record.OrderAcq, nil
	case "key":
		return record.OrderKey, nil
	}
	return 0, cli.Usagef("--order %q is unknown; use key, acq or none", q.Order)
}

// condition returns the condition of --where, bound to the type that --type names.
func (q *Flags) condition() (string, error) {
	if q.whereType != "" {
		if err := q.Type.Check("base64"); err != nil {
			return "", err
		}
		if q.Type.Given() && q.Where == "" {
			return "", cli.Usagef("--type is the type of the payloads that --where is about; %s",
				q.whereType)
		}
	}
	if q.Where == "" {
		return "", nil
	}
	text, err := q.Where, where.Check(q.Where)
	if err == nil && q.Type != nil && q.Type.Given() && !q.Type.Named().Raw() {
		text, err = where.Typed(text, q.Type.Named().String())
	}
	if err != nil {
		return "", cli.Usagef("--where: %w", err)
	}
	return text, nil
}

// noteYear says that a time which looks like a year is not one, nor a count of seconds.
func noteYear(a *cli.App, d record.Dim, text string) {
	if d != record.Cap && d != record.Acq {
		return
	}
	ends := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '.' })
	for _, part := range ends {
		part = strings.Trim(part, "= ")
		if n, err := strconv.Atoi(part); err == nil && len(part) == 4 && n >= 1900 && n < 2200 {
			a.Note("--%s: %d is in ns since 1970; the year is %d-01..%d-01", d, n, n, n+1)
			return
		}
		if err := timeparse.CheckUnit(part); err != nil {
			a.Note("--%s: %v", d, err)
			return
		}
	}
}

// NoteMoment says which moment a time without an offset was taken for, behind some words.
func NoteMoment(a *cli.App, words, text string, ns int64, loc *time.Location) {
	if timeparse.IsLocal(text) {
		a.Note("%s %s (%s)", words, time.Unix(0, ns).In(loc).Format(time.RFC3339Nano), text)
	}
}

// lengthOf are the lengths of buckets and windows that people name by words.
var lengthOf = map[string]string{"minute": "1m", "hour": "1h", "hourly": "1h", "day": "1d",
	"daily": "1d", "date": "1d", "week": "1w", "weekly": "1w", "month": "1mo", "monthly": "1mo",
	"year": "1y", "time": "1h"}

// GroupFlag is the text of --group. A flag that is given again adds to it.
type GroupFlag string

// String implements pflag.Value.
func (g *GroupFlag) String() string { return string(*g) }

// Set implements pflag.Value.
func (g *GroupFlag) Set(text string) error {
	if *g != "" {
		text = string(*g) + "," + text
	}
	*g = GroupFlag(text)
	return nil
}

// Type implements pflag.Value.
func (g *GroupFlag) Type() string { return "string" }

// ParseGroup reads --group: parts of the key, a key of descriptions of devices, and cap=LENGTH for
// buckets of capture time.
func ParseGroup(text string) (record.GroupBy, error) { return ParseGroupIn(text, "") }

// ParseGroupIn is ParseGroup with cap=LENGTH as windows of the calendar of a zone, if there is one.
func ParseGroupIn(text, zone string) (record.GroupBy, error) {
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
		case name == "cap" && hasLength && zone != "":
			var err error
			if g.Window, err = calendar.ParseEvery(length, zone); err != nil {
				return g, cli.Usagef("--group cap=%.80s: %w", length, err)
			}
		case name == "cap" && hasLength:
			if ns, err := strconv.ParseInt(length, 10, 64); err == nil && ns > 0 {
				g.CapBucketNs = ns
				continue
			}
			bucket, err := timeparse.Duration(length)
			if err != nil || bucket <= 0 {
				hint := ""
				if _, err := calendar.ParseEvery(length, time.UTC.String()); err == nil {
					hint = ", or add --tz, e.g. --tz UTC"
				}
				return g, cli.Usagef("--group cap=%.80s: not a duration; use e.g. 15m, 1h or 1d%s",
					length, hint)
			}
			g.CapBucketNs = int64(bucket)
		default:
			if length := lengthOf[strings.TrimSuffix(strings.ToLower(name), "s")]; length != "" {
				return g, cli.Usagef("--group %q: unknown group; use cap=%s, with --tz for days "+
					"of a time zone", part, length)
			}
			if err := addKey(&g, strings.TrimSpace(part)); err != nil {
				return g, err
			}
		}
	}
	return g, nil
}

// addKey adds a key of descriptions of devices to groups.
func addKey(g *record.GroupBy, part string) error {
	_, err := registry.ParseKey(part)
	switch {
	case err != nil && strings.ContainsAny(part, "= ") || part == "" || part == "cap":
		return cli.Usagef("--group %.80q: unknown group; use cid, mid, moid, cap=LENGTH and what "+
			"devices have, e.g. type or group[2], separated by commas", part)
	case err != nil:
		return cli.Usagef("--group %.80q: unknown group: %w", part, err)
	}
	keys, err := registry.AppendKey(g.Key, part)
	if err != nil {
		return cli.Usagef("--group: %w", err)
	}
	g.Key = keys
	return nil
}

// OnlyParts refuses --group by descriptions of devices, with the reason why there are none.
func OnlyParts(g record.GroupBy, why string) error {
	if g.Key == "" {
		return nil
	}
	return cli.Usagef("--group %s: unknown group; use cid, mid or moid: %s", g.Key, why)
}

// ParseParts reads --group of a command whose windows have another flag: all but cap=LENGTH.
func ParseParts(text string) (record.GroupBy, error) {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		switch name, _, _ := strings.Cut(part, "="); {
		case name == "cap":
			return record.GroupBy{}, cli.Usagef("--group %.80s: windows replace buckets; set "+
				"their length with --every", part)
		case lengthOf[strings.TrimSuffix(strings.ToLower(part), "s")] != "":
			return record.GroupBy{}, cli.Usagef("--group %.80q: unknown group; --every sets the "+
				"length of windows", part)
		}
	}
	return ParseGroup(text)
}

// CheckEnd turns an incomplete answer into an error.
func CheckEnd(end wire.End) error {
	if end.Complete {
		return nil
	}
	return cli.Coded(cli.ExitPartial, errors.New("the answer is incomplete: "+end.Reason))
}

// Count counts on the node what a query without limit finds.
func Count(ctx context.Context, db *client.Client, q *record.Query) (uint64, error) {
	n, end, err := db.Count(ctx, q)
	if err != nil {
		return 0, err
	}
	return n, CheckEnd(end)
}
