package calendar

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// zones have had clock changes of an hour, half an hour and 20 minutes, at and over midnight, and
// days that came twice or never.
var zones = []string{"UTC", "Europe/Berlin", "Europe/Helsinki", "Australia/Lord_Howe",
	"America/Sao_Paulo", "America/St_Johns", "America/Havana", "Asia/Beirut", "Pacific/Apia",
	"Pacific/Kwajalein", "Africa/Casablanca", "Asia/Kathmandu", "Antarctica/Troll",
	"America/New_York", "Africa/Cairo", "Asia/Pyongyang", "+05:45", "-09:30"}

func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 3))
}

func newCalendar(t testing.TB, w record.Window) *Calendar {
	t.Helper()
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	c, err := New(w)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func randomWindow(r *rand.Rand) record.Window {
	w := record.Window{Unit: record.WindowUnit(1 + r.IntN(6)), Zone: zones[r.IntN(len(zones))]}
	lengths := map[record.WindowUnit][]uint32{
		record.WindowMinute: {1, 5, 7, 10, 15, 20, 30, 45, 60, 90, 1440},
		record.WindowHour:   {1, 2, 3, 4, 5, 6, 7, 8, 12, 24},
		record.WindowDay:    {1, 1, 2, 7, 10},
		record.WindowWeek:   {1, 2},
		record.WindowMonth:  {1, 1, 2, 3, 6},
		record.WindowYear:   {1, 1, 2, 10},
	}[w.Unit]
	w.N = lengths[r.IntN(len(lengths))]
	return w
}

// label is what a clock shows, cut down to where its window begins; longer ones are numbers.
type label struct{ day, part int64 }

// watch walks minute by minute, looks at the clock and writes down when a window begins. It knows
// nothing of offsets and changes but what the clock shows.
func watch(w record.Window, loc *time.Location, from, to time.Time) (starts []int64) {
	step := int64(0)
	switch w.Unit {
	case record.WindowMinute:
		step = int64(w.N)
	case record.WindowHour:
		step = 60 * int64(w.N)
	}
	read := func(t time.Time) (day, minute int64) {
		l := t.In(loc)
		y, m, d := l.Date()
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / daySeconds,
			int64(60*l.Hour() + l.Minute())
	}
	latest, before, minuteBefore := int64(math.MinInt64), label{}, int64(0)
	for t := from; t.Before(to); t = t.Add(time.Minute) {
		day, minute := read(t)
		newDay := day > latest
		latest = max(latest, day)
		now := label{day: windowOfDay(w, latest)}
		if step > 0 {
			now = label{day, minute / step}
		}
		due := (minuteBefore+1)%(24*60)%step1440(step) == 0 || minute%step1440(step) == 0
		if now != before || newDay && step > 0 || step > 0 && due {
			starts = append(starts, t.UnixNano())
		}
		before, minuteBefore = now, minute
	}
	return starts[1:] // the first began somewhere before
}

// step1440 is a step of minutes; with none of them, one that never comes due.
func step1440(step int64) int64 {
	if step == 0 {
		return math.MaxInt64
	}
	return step
}

// windowOfDay numbers the windows of days and more, by counting.
func windowOfDay(w record.Window, day int64) int64 {
	date := time.Unix(day*daySeconds, 0).UTC()
	n := int64(w.N)
	switch w.Unit {
	case record.WindowDay:
		return floor(day, n)
	case record.WindowWeek:
		for date.Weekday() != time.Monday {
			date = date.AddDate(0, 0, -1)
		}
		return floor(date.Unix()/daySeconds-mondayDay, 7*n)
	case record.WindowMonth:
		return floor(int64(date.Year())*12+int64(date.Month())-1, n)
	}
	return floor(int64(date.Year()), n)
}

// changes returns when a zone's clock has just been changed, since 1973, when all of that came at
// whole minutes; of two changes in one day not both.
func changes(loc *time.Location) (all []time.Time) {
	const days = 65 * 365
	offset := func(t time.Time) int {
		_, seconds := t.In(loc).Zone()
		return seconds
	}
	t := time.Date(1973, 1, 1, 0, 0, 0, 0, time.UTC)
	for range days {
		next := t.AddDate(0, 0, 1)
		if offset(t) != offset(next) {
			at := t
			for offset(at) != offset(next) {
				at = at.Add(time.Minute)
			}
			all = append(all, at)
		}
		t = next
	}
	return all
}

// checkBorders compares the windows of a time with what a look at the clock says.
func checkBorders(t *testing.T, w record.Window, table *Table, starts []int64) {
	t.Helper()
	c := newCalendar(t, w)
	for i := range len(starts) - 1 {
		from, to := starts[i], starts[i+1]
		for _, ns := range []int64{from, from + 1, from + (to-from)/2, to - 1} {
			gotFrom, gotTo := c.Window(ns)
			if gotFrom != from || gotTo != to {
				t.Fatalf("%v: window of %s is %s to %s, want %s to %s", w, show(c, ns),
					show(c, gotFrom), show(c, gotTo), show(c, from), show(c, to))
			}
			if gotFrom, gotTo = table.Window(ns); gotFrom != from || gotTo != to {
				t.Fatalf("%v: table: window of %s is %s to %s, want %s to %s", w, show(c, ns),
					show(c, gotFrom), show(c, gotTo), show(c, from), show(c, to))
			}
		}
	}
}

func show(c *Calendar, ns int64) string {
	return time.Unix(0, ns).In(c.loc).Format("2006-01-02T15:04:05Z07:00")
}

// windowsTimeVariable says how long TestWindowsAgainstTheClock goes on; 10m in make test-long.
const windowsTimeVariable = "PENTAD_WINDOWS_FOR"

// Windows are what an observer of the clock sees every minute, around clock changes and
// elsewhere.
func TestWindowsAgainstTheClock(t *testing.T) {
	r := seeded(t)
	rounds, until, longest := 250, time.Time{}, 800*24*time.Hour
	if testing.Short() {
		rounds, longest = 80, 60*24*time.Hour
	} else if text := os.Getenv(windowsTimeVariable); text != "" {
		limit, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("%s: %v", windowsTimeVariable, err)
		}
		until = time.Now().Add(limit)
	}
	known := map[string][]time.Time{}
	for round := 0; round < rounds || time.Now().Before(until); round++ {
		w := randomWindow(r)
		c := newCalendar(t, w)
		at := time.Unix(r.Int64N(65*365*daySeconds)+3*366*daySeconds, 0)
		if known[w.Zone] == nil {
			known[w.Zone] = changes(c.loc)
		}
		if all := known[w.Zone]; len(all) > 0 && r.IntN(4) > 0 {
			at = all[r.IntN(len(all))]
		}
		length := time.Duration(1+r.IntN(4)) * 24 * time.Hour
		if c.step() == 0 && r.IntN(3) == 0 {
			length = 2 * time.Duration(c.span()) * time.Second
		}
		length = min(length, longest)
		before := time.Duration(r.Int64N(int64(length))).Truncate(time.Minute)
		from := at.Add(-before).Truncate(time.Minute)
		checkBorders(t, w, NewTable(c), watch(w, c.loc, from, from.Add(length)))
	}
}

// Where midnight comes once a day, days begin where time.Date says.
func TestDaysAgainstDate(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "Europe/Helsinki", "Australia/Lord_Howe"} {
		for _, f := range []struct {
			every string
			date  func(i int, loc *time.Location) time.Time
		}{
			{"1d", func(i int, loc *time.Location) time.Time {
				return time.Date(1990, 1, 1+i, 0, 0, 0, 0, loc)
			}},
			{"1w", func(i int, loc *time.Location) time.Time {
				return time.Date(1990, 1, 1+7*i, 0, 0, 0, 0, loc) // a Monday
			}},
			{"1mo", func(i int, loc *time.Location) time.Time {
				return time.Date(1990, time.Month(1+i), 1, 0, 0, 0, 0, loc)
			}},
			{"3mo", func(i int, loc *time.Location) time.Time {
				return time.Date(1990, time.Month(1+3*i), 1, 0, 0, 0, 0, loc)
			}},
			{"1y", func(i int, loc *time.Location) time.Time {
				return time.Date(1990+i, 1, 1, 0, 0, 0, 0, loc)
			}},
		} {
			w, err := ParseEvery(f.every, zone)
			if err != nil {
				t.Fatal(err)
			}
			c := newCalendar(t, w)
			table := NewTable(c)
			last := 2060
			if testing.Short() {
				last = 2000
			}
			for i := 0; f.date(i, c.loc).Year() < last; i++ {
				checkBorders(t, w, table, []int64{f.date(i, c.loc).UnixNano(),
					f.date(i+1, c.loc).UnixNano()})
			}
		}
	}
}

// The changes that the document names.
func TestClockChanges(t *testing.T) {
	f := func(every, zone, from string, want ...string) {
		t.Helper()
		w, err := ParseEvery(every, zone)
		if err != nil {
			t.Fatal(err)
		}
		c := newCalendar(t, w)
		at, err := time.Parse(time.RFC3339, from)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for ns := at.UnixNano(); len(got) < len(want); {
			start, end := c.Window(ns)
			got = append(got, show(c, start)[5:]+" "+time.Duration(end-start).String())
			ns = end
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s in %s: %q, want %q", every, zone, got, want)
		}
	}
	f("1d", "Europe/Berlin", "2026-03-28T12:00:00Z", "03-28T00:00:00+01:00 24h0m0s",
		"03-29T00:00:00+01:00 23h0m0s", "03-30T00:00:00+02:00 24h0m0s")
	f("1d", "Europe/Helsinki", "2026-10-25T12:00:00Z", "10-25T00:00:00+03:00 25h0m0s",
		"10-26T00:00:00+02:00 24h0m0s")
	f("1d", "Australia/Lord_Howe", "2026-04-05T00:00:00Z", "04-05T00:00:00+11:00 24h30m0s")
	f("1h", "Europe/Berlin", "2026-10-25T00:00:00Z", "10-25T02:00:00+02:00 1h0m0s",
		"10-25T02:00:00+01:00 1h0m0s", "10-25T03:00:00+01:00 1h0m0s")
	f("1h", "Europe/Berlin", "2026-03-29T00:30:00Z", "03-29T01:00:00+01:00 1h0m0s",
		"03-29T03:00:00+02:00 1h0m0s")
	f("6h", "Europe/Berlin", "2026-10-24T22:00:00Z", "10-25T00:00:00+02:00 7h0m0s",
		"10-25T06:00:00+01:00 6h0m0s")
	f("1h", "Australia/Lord_Howe", "2026-04-04T14:10:00Z", "04-05T01:00:00+11:00 1h0m0s",
		"04-05T01:30:00+10:30 30m0s", "04-05T02:00:00+10:30 1h0m0s")
	f("30m", "Australia/Lord_Howe", "2026-04-04T14:30:00Z", "04-05T01:30:00+11:00 30m0s",
		"04-05T01:30:00+10:30 30m0s", "04-05T02:00:00+10:30 30m0s")
	f("1h", "Australia/Lord_Howe", "2026-10-03T15:10:00Z", "10-04T01:00:00+10:30 1h0m0s",
		"10-04T02:30:00+11:00 30m0s", "10-04T03:00:00+11:00 1h0m0s")
	f("5h", "UTC", "2026-10-25T16:00:00Z", "10-25T15:00:00Z 5h0m0s", "10-25T20:00:00Z 4h0m0s",
		"10-26T00:00:00Z 5h0m0s")
	f("1d", "Pacific/Apia", "2011-12-29T20:00:00Z", "12-29T00:00:00-10:00 24h0m0s",
		"12-31T00:00:00+14:00 24h0m0s") // there was no 30th
}

// Any time whatever lies in its window, and so do both ends of time; tables say the same as they
// forget.
func TestWindowsOfAllTime(t *testing.T) {
	r := seeded(t)
	for range 200 {
		w := randomWindow(r)
		if r.IntN(3) == 0 {
			w.Unit, w.N = record.WindowUnit(3+r.IntN(4)), 1+r.Uint32N(10_000)
		}
		c := newCalendar(t, w)
		table := NewTable(c)
		for i := range 300 {
			ns := int64(r.Uint64())
			if i < 2 {
				ns = []int64{math.MinInt64, math.MaxInt64 - 1}[i]
			}
			from, to := c.Window(ns)
			if from > ns || to <= ns {
				t.Fatalf("%v: window of %d is [%d, %d)", w, ns, from, to)
			}
			for _, at := range []int64{ns, from, to - 1} {
				if a, b := table.Window(at); a != from || b != to {
					t.Fatalf("%v: table: window of %d is [%d, %d), want [%d, %d)", w, at, a, b,
						from, to)
				}
			}
		}
	}
}

func TestParseEvery(t *testing.T) {
	f := func(text string, want record.Window) {
		t.Helper()
		want.Zone = "UTC"
		if got, err := ParseEvery(text, "UTC"); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	f("15m", record.Window{Unit: record.WindowMinute, N: 15})
	f("15min", record.Window{Unit: record.WindowMinute, N: 15})
	f("1h", record.Window{Unit: record.WindowHour, N: 1})
	f("10d", record.Window{Unit: record.WindowDay, N: 10})
	f("1w", record.Window{Unit: record.WindowWeek, N: 1})
	f("3mo", record.Window{Unit: record.WindowMonth, N: 3})
	f("1y", record.Window{Unit: record.WindowYear, N: 1})
	for _, text := range []string{"", "1", "m", "0d", "-1d", "1.5h", "1M", "25h", "1441m", "1d2h",
		"99999999999d", "10001y"} {
		if w, err := ParseEvery(text, "UTC"); err == nil {
			t.Errorf("%q is %v", text, w)
		}
	}
	for _, zone := range []string{"", "Local", "Europe/Atlantis", "../etc/passwd", "/etc/hosts"} {
		_, err := Zone(zone)
		if !errors.As(err, new(*record.InvalidError)) {
			t.Errorf("zone %q: %v", zone, err)
		}
	}
}
