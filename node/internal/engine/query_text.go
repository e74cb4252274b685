package engine

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/where"
)

// maxRangesShown limits the text of a query to a line.
const maxRangesShown = 8

// QueryText describes a query in text, similar to its parameters.
func QueryText(q *record.Query) string {
	var parts []string
	add := func(name, value string) { parts = append(parts, name+"="+value) }
	for d := range record.NumDims {
		if set := q.Box.Asked(record.Dim(d)); len(set) > 0 {
			add(record.Dim(d).String(), rangesText(record.Dim(d), set))
		}
	}
	if q.Select != "" {
		add("select", strconv.Quote(excerpt.Of(q.Select, 200)))
	}
	if q.Moving != "" {
		add("moving", strconv.Quote(excerpt.Of(q.Moving, 200)))
	}
	switch q.View {
	case record.ViewLatest:
		add("view", "latest")
	case record.ViewAsOf:
		add("asof", record.FormatNs(q.AsOfAcqNs))
	}
	if q.Last > 0 {
		add("last", strconv.FormatUint(uint64(q.Last), 10))
	}
	if q.Where != "" {
		add("where", strconv.Quote(where.Text(q.Where)))
	}
	for i, call := range append(slices.Clip(q.Filters), q.Aggregate) {
		if call.Name == "" {
			continue
		}
		what := "aggregate"
		if i < len(q.Filters) {
			what = "filter"
		}
		name, digest, _ := record.SplitPluginRef(call.Name)
		if digest != "" {
			name += "@" + digest[:record.MinDigestDigits]
		}
		add(what, name)
		if len(call.Params) > 0 {
			add(what+"_params_hex", hex.EncodeToString(call.Params[:min(len(call.Params), 64)]))
		}
	}
	var group []string
	for _, by := range []struct {
		on   bool
		name string
	}{{q.GroupBy.CID, "cid"}, {q.GroupBy.MID, "mid"}, {q.GroupBy.MOID, "moid"}} {
		if by.on {
			group = append(group, by.name)
		}
	}
	if q.GroupBy.Key != "" {
		group = append(group, q.GroupBy.Key)
	}
	if len(group) > 0 {
		add("group", strings.Join(group, ","))
	}
	if q.GroupBy.CapBucketNs > 0 {
		add("every", time.Duration(q.GroupBy.CapBucketNs).String())
	}
	if w := q.GroupBy.Window; w != (record.Window{}) {
		add("window", w.String())
	}
	return strings.Join(parts, " ")
}

// rangesText formats ranges as selectors.
func rangesText(d record.Dim, set record.RangeSet) string {
	value := func(v int64) string {
		if d == record.Cap || d == record.Acq {
			return record.FormatNs(v)
		}
		return strconv.FormatInt(v, 10)
	}
	var out []string
	for i, r := range set {
		if i == maxRangesShown {
			out = append(out, fmt.Sprintf("and %d more", len(set)-i))
			break
		}
		from, to := value(r.From), value(r.To)
		if r.From == d.Min() {
			from = ""
		}
		if r.To == d.Max() {
			to = ""
		}
		if r == record.At(r.From) {
			out = append(out, value(r.From))
		} else {
			out = append(out, from+".."+to)
		}
	}
	return strings.Join(out, ",")
}
