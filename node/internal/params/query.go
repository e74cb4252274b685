package params

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/where"
	"github.com/valyala/fasthttp"
)

// Query parses the parameters of a query without its filters: a selector per dimension, select,
// moving, view or asof, last, order, limit, keys=1. Dates are those of the zone in tz, else of now.
// Its box is normalized.
func Query(args *fasthttp.Args, now time.Time) (*record.Query, error) {
	now, err := inZone(args, now)
	if err != nil {
		return nil, err
	}
	q := &record.Query{}
	for d := range record.NumDims {
		dim := record.Dim(d)
		if text := string(args.Peek(dim.String())); text != "" {
			set, err := selector.ParseIn(dim, text, now)
			if err != nil {
				return nil, Bad(dim.String(), err)
			}
			q.Box[d] = set
		}
	}
	q.Select = string(args.Peek("select"))
	if q.Moving, err = moving(args); err != nil {
		return nil, err
	}
	if err := parseView(args, q, now); err != nil {
		return nil, err
	}
	if text := string(args.Peek("limit")); text != "" {
		limit, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, Bad("limit", fmt.Errorf("%q is not a count", Clip(text)))
		}
		q.Limit = limit
	}
	if q.KeysOnly, err = Flag(args, "keys"); err != nil {
		return nil, err
	}
	if err := q.Box.Normalize(); err != nil {
		return nil, err
	}
	return q, nil
}

// moving parses moving=location and moving_age=1h.
func moving(args *fasthttp.Args) (string, error) {
	m := registry.Moving{Quantity: string(args.Peek("moving"))}
	var err error
	if m.MaxAgeNs, err = Age(args, "moving_age"); err != nil || m.Quantity == "" {
		if err == nil && m.MaxAgeNs != 0 {
			err = Bad("moving_age", errors.New("is of locations; say moving=location"))
		}
		return "", err
	}
	text := m.String()
	if _, err := registry.ParseMoving(text); err != nil {
		return "", Bad("moving", err)
	}
	return text, nil
}

// inZone returns now in the zone of the parameter tz.
func inZone(args *fasthttp.Args, now time.Time) (time.Time, error) {
	zone := timeparse.ZoneName(string(args.Peek("tz")))
	if zone == "" {
		return now, nil
	}
	loc, err := calendar.Zone(zone)
	var unknown *record.InvalidError
	switch {
	case errors.As(err, &unknown) && zone[0] == ' ':
		return now, Bad("tz", fmt.Errorf("%s; a + is written %%2B in a URL",
			unknown.Detail))
	case errors.As(err, &unknown):
		return now, Bad("tz", errors.New(unknown.Detail))
	case err != nil:
		return now, err
	}
	return now.In(loc), nil
}

// LatestByDefault makes the latest view that of a query whose parameters name none, unless they
// restrict acq: who asks for arrivals wants each of them. With last the view is never that of all
// versions, as it counts readings.
func LatestByDefault(args *fasthttp.Args, q *record.Query) {
	if !args.Has("view") && q.View == record.ViewAll &&
		(len(q.Box[record.Acq]) == 0 || q.Last > 0) {
		q.View = record.ViewLatest
	}
}

func parseView(args *fasthttp.Args, q *record.Query, now time.Time) error {
	switch view := string(args.Peek("view")); view {
	case "", "all":
	case "latest":
		q.View = record.ViewLatest
	default:
		return Bad("view", fmt.Errorf("%q is not latest or all", Clip(view)))
	}
	if text := string(args.Peek("asof")); text != "" {
		if q.View != record.ViewAll {
			return Bad("asof", errors.New("cannot be combined with view"))
		}
		at, err := timeparse.ParseIn(text, now)
		if err != nil {
			return Bad("asof", err)
		}
		q.View, q.AsOfAcqNs = record.ViewAsOf, at.FromNs
	}
	if text := string(args.Peek("last")); text != "" {
		last, err := strconv.ParseUint(text, 10, 32)
		if err != nil || last == 0 {
			return Bad("last", fmt.Errorf("%q is not a count of readings from 1 on",
				Clip(text)))
		}
		q.Last = uint32(last)
	}
	switch order := string(args.Peek("order")); order {
	case "", "none":
	case "acq":
		q.Order = record.OrderAcq
	case "key":
		q.Order = record.OrderKey
	default:
		return Bad("order", fmt.Errorf("%q is not none, acq or key", Clip(order)))
	}
	return nil
}

// Where parses where, a condition on payloads. With type it is about payloads of that type,
// whatever their quantities are declared as.
func Where(args *fasthttp.Args) (string, error) {
	text, kind := string(args.Peek("where")), string(args.Peek("type"))
	if text == "" {
		return "", nil
	}
	err := where.Check(text)
	if err == nil && kind != "" && kind != "base64" {
		text, err = where.Typed(text, kind)
	}
	if err != nil {
		return "", Bad("where", err)
	}
	return text, nil
}

// FilterCall is a filter in a query.
type FilterCall struct {
	Name string
	Text string // its filter_params
}

// Filters parses the chain of filters. Each filter_params belongs to the filter before it.
func Filters(args *fasthttp.Args) (chain []FilterCall, err error) {
	for key, value := range args.All() {
		last := len(chain) - 1
		switch string(key) {
		case "filter":
			chain = append(chain, FilterCall{Name: string(value)})
		case "filter_params":
			if last < 0 {
				return nil, Bad("filter_params", errors.New("no filter precedes it"))
			}
			if chain[last].Text != "" {
				return nil, Bad("filter_params", fmt.Errorf("occurs twice for filter "+
					"%q; separate parameters by commas", Clip(chain[last].Name)))
			}
			chain[last].Text = string(value)
		}
	}
	return chain, nil
}

// Values parses "name=value,name=value", the value of the parameter part.
func Values(part, text string) (map[string]string, error) {
	values := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if _, twice := values[key]; !ok || twice {
			return nil, Bad(part, fmt.Errorf("%q: write name=value, joined by commas, each "+
				"once", Clip(text)))
		}
		values[key] = value
	}
	return values, nil
}

// GroupParts parses group=cid,mid,moid, and keys of descriptions of devices among them.
func GroupParts(args *fasthttp.Args, q *record.Query) error {
	for part := range strings.SplitSeq(string(args.Peek("group")), ",") {
		switch part {
		case "":
		case "cid":
			q.GroupBy.CID = true
		case "mid":
			q.GroupBy.MID = true
		case "moid":
			q.GroupBy.MOID = true
		case "cap":
			return Bad("group",
				errors.New("cap is not cid, mid or moid; for groups by time say every=1h"))
		default:
			if err := groupKey(part, q); err != nil {
				return err
			}
		}
	}
	return nil
}

// groupKey adds a key of descriptions of devices.
func groupKey(part string, q *record.Query) error {
	if _, err := registry.ParseKey(part); err != nil {
		return Bad("group", fmt.Errorf("%q is not cid, mid, moid or what descriptions of devices "+
			"have: %w", Clip(part), err))
	}
	keys, err := registry.AppendKey(q.GroupBy.Key, part)
	if err != nil {
		return Bad("group", err)
	}
	q.GroupBy.Key = keys
	return nil
}

// Groups parses group=cid,mid,moid and every=15m.
func Groups(args *fasthttp.Args, q *record.Query) error {
	if err := GroupParts(args, q); err != nil {
		return err
	}
	text := string(args.Peek("every"))
	if text == "" {
		return nil
	}
	width, err := timeparse.Duration(text)
	if err != nil || width <= 0 {
		return Bad("every", fmt.Errorf("%q is not a time span such as 15m or 1d",
			Clip(text)))
	}
	q.GroupBy.CapBucketNs = int64(width)
	return nil
}

// DiffTimes parses the two times of a diff; the second is now when it is left out.
func DiffTimes(args *fasthttp.Args, now time.Time) (fromNs, toNs int64, err error) {
	if !args.Has("from") {
		return 0, 0, Bad("from", errors.New("is missing; name the time from which on "+
			"changes are asked for"))
	}
	toNs = record.Acq.Max()
	for name, ns := range map[string]*int64{"from": &fromNs, "to": &toNs} {
		if text := string(args.Peek(name)); text != "" && (name != "to" || text != "now") {
			at, err := timeparse.Parse(text, now)
			if err != nil {
				return 0, 0, Bad(name, err)
			}
			*ns = at.FromNs
		}
	}
	return fromNs, toNs, nil
}

// ID parses one tenant or quantity, nil for all.
func ID(args *fasthttp.Args, d record.Dim) (*int32, error) {
	text := string(args.Peek(d.String()))
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < d.Min() || n == math.MaxInt32 {
		return nil, Bad(d.String(), fmt.Errorf("%q is not one number of %d to %d",
			Clip(text), d.Min(), d.Max()-1))
	}
	id := int32(n)
	return &id, nil
}

// Age parses a time span, in ns; 0 without one.
func Age(args *fasthttp.Args, name string) (int64, error) {
	text := string(args.Peek(name))
	if text == "" {
		return 0, nil
	}
	age, err := timeparse.Duration(text)
	if err != nil || age <= 0 {
		return 0, Bad(name, fmt.Errorf("%q is not a time span such as 24h or 90d",
			Clip(text)))
	}
	return int64(age), nil
}
