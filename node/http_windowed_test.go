package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// putAt stores a number at a time.
func putAt(t *testing.T, n *Node, k record.Key, at string, v float64) {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	k.CapNs = moment.UnixNano()
	b := &record.Batch{}
	b.Append(k, f64(v))
	if _, err := n.Put(t.Context(), b, store.WriterSeq{}); err != nil {
		t.Fatal(err)
	}
}

func TestWindowsRoute(t *testing.T) {
	n := openTest(t, Options{})
	a := &asker{t, n}
	k := record.Key{CID: 1, MID: 7, MOID: 1}
	putAt(t, n, k, "2026-03-28T22:00:00Z", 1)
	putAt(t, n, k, "2026-03-29T20:59:59Z", 2)
	putAt(t, n, k, "2026-03-29T21:00:00Z", 3)
	putAt(t, n, k, "2026-03-29T21:00:00Z", 5)
	days := "/v1/windows?every=1d&tz=Europe/Helsinki&cid=1&agg="
	a.expect("GET", days+"stats&group=mid", "", 200,
		`{"hours":23,"mid":7,"records":2,"result":{"count":2,"max":2,`,
		`"start":"2026-03-29T00:00:00+02:00","start_ns":1774735200000000000}`,
		`{"hours":24,"mid":7,"records":1,"result":{"count":1,"max":5,`,
		`"start":"2026-03-30T00:00:00+03:00"`, `"end":{"complete":true,"rows":2`)
	a.expect("GET", days+"count&view=all", "", 200, `"records":2,"result":{"count":2}`)
	a.expect("GET", days+"count&last=1", "", 200, `"windows":[{"hours":24,"records":1,`)
	a.expect("GET", days+"quantiles&params=q=0.5&limit=1", "", 200, `"rows":1`)
	a.expect("GET", "/v1/windows?every=1h&agg=count&cap=2026-03-29", "", 200,
		`"start":"2026-03-29T20:00:00Z"`)
	a.expect("GET", days+"count&cap=2026-03-29", "", 200, `"rows":1`, `"hours":23,"records":2`)
	a.expect("GET", days+"count&cap=2026-03-29T00:00..2026-03-29T01:00", "", 200, `"records":1`)
	a.expect("GET", "/v1/windows?tz=UTC&agg=count", "", 400, "parameter every: is missing")
	a.expect("GET", "/v1/windows?every=1d", "", 400, "parameter agg: is missing")
	a.expect("GET", "/v1/windows?every=1.5d&agg=count", "", 400,
		`\"1.5d\": not a length of`)
	a.expect("GET", "/v1/windows?every=1M&agg=count", "", 400,
		`\"1M\": unknown unit; 1mo is a month`)
	a.expect("GET", "/v1/windows?every=1d&agg=stat", "", 404, `did you mean stats`)
	a.expect("GET", "/v1/windowed?every=1d&agg=stats", "", 404, "did you mean /v1/windows?")
	a.expect("GET", "/v1/windows?every=25h&agg=count", "", 400, "not a length from 1 to 24")
	a.expect("GET", "/v1/windows?every=1d&tz=Mars&agg=count", "", 400, `"part":"tz"`,
		`unknown time zone \"Mars\"`)
	a.expect("GET", "/v1/windows?every=1d&tz=+05:30&agg=count", "", 400, "a + is written %2B")
	a.expect("GET", "/v1/windows?every=1d&agg=threshold", "", 400, "not an aggregate")
	a.expect("GET", "/v1/windows?every=1d&agg=count&group=cap", "", 400, "is not cid, mid or moid")
	a.expect("GET", "/v1/windows?every=1d&agg=count&order=key", "", 400,
		`unknown parameter \"order\"`)
}

// More windows than groups are allowed is an error, whatever the span of the box: they are made
// where there are records.
func TestTooManyWindows(t *testing.T) {
	n := openTest(t, Options{MaxGroups: 50})
	a := &asker{t, n}
	for i := range 60 {
		putAt(t, n, record.Key{CID: 1, MID: int64(i % 2)},
			fmt.Sprintf("%d-01-01T00:00:00Z", 1800+i), 1)
	}
	a.expect("GET", "/v1/windows?every=1m&agg=count", "", 422, "more than 50 groups")
	a.expect("GET", "/v1/windows?every=10y&agg=count", "", 200, `"rows":6`)
}

// A day or month that a parameter names is a window of days or months: bills by either agree.
func TestDatesAreWindows(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "Atlantic/Azores", "America/Santiago",
		"America/Havana", "Africa/Cairo", "Asia/Beirut", "Asia/Tehran", "Pacific/Apia"} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for every, layout := range map[string]string{"1d": "2006-01-02", "1mo": "2006-01"} {
			window, err := calendar.ParseEvery(every, zone)
			if err != nil {
				t.Fatal(err)
			}
			cal, err := calendar.New(window)
			if err != nil {
				t.Fatal(err)
			}
			for day := time.Date(2008, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2028; {
				text := day.Format(layout)
				span, err := timeparse.ParseIn(text, time.Unix(0, 0).In(loc))
				from, to := cal.Window(span.FromNs)
				if err != nil && text != "2011-12-30" || err == nil &&
					(from != span.FromNs || to != span.ToNs) {
					t.Fatalf("%s %s: %+v, %v; window %d to %d", zone, text, span, err, from, to)
				}
				if every == "1d" {
					day = day.AddDate(0, 0, 1)
				} else {
					day = day.AddDate(0, 1, 0)
				}
			}
		}
	}
}
