package influxdb

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// check returns why a query cannot be answered.
func check(q *system.Query, shape system.Shape) error {
	switch {
	case !shape.Versions || q.View == record.ViewLatest:
	case q.Want == system.WantLast && q.View == record.ViewAll && len(q.Box[record.Acq]) == 0:
		return nil // the last of a series is a newest version
	default:
		return system.UnsupportedError("keeps only the newest version of a reading")
	}
	if q.Want == system.WantGroups && len(q.Box[record.Cap]) > 1 {
		return system.UnsupportedError("InfluxQL has one range of time per statement, and groups " +
			"of several cannot be put together")
	}
	return nil
}

// statement returns the query for one of its ranges of cap.
func statement(q *system.Query, shape system.Shape, caps record.Range) string {
	fields := "val, acq"
	if shape.Status() {
		fields += ", status"
	}
	conditions := where(q, shape, caps)
	tail := ""
	if len(conditions) > 0 {
		tail = " WHERE " + strings.Join(conditions, " AND ")
	}
	switch q.Want {
	case system.WantCount:
		return "SELECT count(val) FROM r" + tail
	case system.WantLast:
		return "SELECT last(" + strings.Replace(fields, ",", "),", 1) + " FROM r" + tail +
			" GROUP BY cid, mid, moid"
	case system.WantGroups:
		function := [...]string{system.FuncMax: "max", system.FuncMean: "mean",
			system.FuncSum: "sum"}[q.Func]
		return "SELECT " + function + "(val) FROM r" + tail + groupBy(q.By)
	default: // tags as columns: a series for each took 1.2 to 2 times as long
		return "SELECT " + fields + ", cid, mid, moid FROM r" + tail
	}
}

func groupBy(by record.GroupBy) string {
	var parts []string
	for _, part := range []struct {
		grouped bool
		name    string
	}{{by.CID, "cid"}, {by.MID, "mid"}, {by.MOID, "moid"},
		{by.CapBucketNs > 0, fmt.Sprintf("time(%dns)", by.CapBucketNs)}} {
		if part.grouped {
			parts = append(parts, part.name)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " GROUP BY " + strings.Join(parts, ", ") + " fill(none)"
}

// where returns the conditions of a query.
func where(q *system.Query, shape system.Shape, caps record.Range) []string {
	var all []string
	for _, d := range []record.Dim{record.CID, record.MID, record.MOID} {
		if c := tagCondition(d, q.Box[d], shape.Extent[d]); c != "" {
			all = append(all, c)
		}
	}
	if caps.To == record.Cap.Max() && q.By.CapBucketNs > 0 {
		caps.To = shape.Extent[record.Cap].To // without an end, buckets end now
	}
	all = append(all, between("time", record.Cap, caps)...)
	var acqs []string
	for _, r := range q.Box[record.Acq] {
		acqs = append(acqs, "("+strings.Join(between("acq", record.Acq, r), " AND ")+")")
	}
	if len(acqs) > 0 {
		all = append(all, "("+strings.Join(acqs, " OR ")+")")
	}
	if q.View == record.ViewAsOf {
		all = append(all, "acq < "+strconv.FormatInt(q.AsOfAcqNs, 10))
	}
	if q.Want == system.WantAbove {
		all = append(all, "val > "+strconv.FormatFloat(q.Above, 'f', -1, 64))
	}
	return all
}

// between returns the conditions of the bounds of a range.
func between(name string, d record.Dim, r record.Range) (all []string) {
	if r.From > d.Min() {
		all = append(all, name+" >= "+strconv.FormatInt(r.From, 10))
	}
	if r.To < d.Max() {
		all = append(all, name+" < "+strconv.FormatInt(r.To, 10))
	}
	return all
}
