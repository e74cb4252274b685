package csvimport

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/timeparse"
)

// TestFoldRules imports a file with every local time around both clock changes of a year, each
// in two lines, and compares with moments found by looking at every minute that existed.
func TestFoldRules(t *testing.T) {
	f := func(zone, spring, autumn string) {
		t.Helper()
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, fold := range []string{FoldFirst, FoldSecond, FoldBoth} {
			var text strings.Builder
			var records, rejects []string
			text.WriteString("t,v\n")
			line := 1
			for _, date := range []string{spring, autumn} {
				shown := momentsOfDay(t, loc, date)
				for minute := 0; minute < 6*60; minute += 10 {
					local := fmt.Sprintf("%s %02d:%02d", date, minute/60, minute%60)
					for value := range 2 {
						line++
						fmt.Fprintf(&text, "%s,%d\n", local, value)
						wantRecords, wantReject := expect(fold, shown[local], value)
						records = append(records, wantRecords...)
						if wantReject != "" {
							rejects = append(rejects, fmt.Sprintf("%d: %s", line, wantReject))
						}
					}
				}
			}
			r := load(t, fmt.Sprintf(`
cid: {constant: 1}
mid: {constant: 1}
cap: {columns: [t], format: "%%Y-%%m-%%d %%H:%%M", zone: %s, fold: %s}
values: [{column: v, moid: 1}]
`, zone, fold), text.String())
			if r.err != nil || !slices.Equal(r.records, records) {
				t.Errorf("%s %s: %v\n%s\nwant\n%s", zone, fold, r.err,
					strings.Join(r.records, "\n"),
					strings.Join(records, "\n"))
			}
			if !slices.EqualFunc(r.rejects, rejects, strings.HasPrefix) {
				t.Errorf("%s %s: rejects\n%s\nwant\n%s", zone, fold, strings.Join(r.rejects, "\n"),
					strings.Join(rejects, "\n"))
			}
		}
	}
	f("Europe/Madrid", "2016-03-27", "2016-10-30")
	f("Europe/Berlin", "2024-03-31", "2024-10-27")
	f("Europe/London", "2016-03-27", "2016-10-30")
}

// momentsOfDay lists the moments at which the clocks of a place showed each local time.
func momentsOfDay(t *testing.T, loc *time.Location, date string) map[string][]int64 {
	t.Helper()
	day, err := time.Parse("2006-01-02", date)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string][]int64{}
	for minute := -24 * 60; minute < 48*60; minute++ {
		at := day.Add(time.Duration(minute) * time.Minute)
		local := at.In(loc).Format("2006-01-02 15:04")
		shown[local] = append(shown[local], at.UnixNano())
	}
	return shown
}

func expect(fold string, moments []int64, value int) (records []string, reject string) {
	switch {
	case len(moments) == 0:
		return nil, "local time"
	case len(moments) == 2 && fold != FoldBoth && value == 1:
		return nil, "local time of"
	}
	at := moments[0]
	if len(moments) == 2 && fold == FoldSecond {
		at = moments[1]
	}
	return []string{fmt.Sprintf("1/1/1 %s = %d", timeparse.Format(at), value)}, ""
}
