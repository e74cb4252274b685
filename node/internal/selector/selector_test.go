package selector

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// now is the fixed clock of these tests.
func now() time.Time { return time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC) }

func TestParse(t *testing.T) {
	f := func(d record.Dim, text string, want ...record.Range) {
		t.Helper()
		got, err := Parse(d, text, now())
		if err != nil || !slices.Equal(got, record.RangeSet(want)) {
			t.Errorf("Parse(%s, %q) = %v, %v, want %v", d, text, got, err, want)
		}
	}
	r := func(from, to int64) record.Range { return record.Range{From: from, To: to} }
	day := int64(24 * time.Hour)
	date := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).UnixNano()

	f(record.CID, "*")
	f(record.CID, "7", r(7, 8))
	f(record.CID, " 7 , 9 ", r(7, 8), r(9, 10))
	f(record.CID, "7..9", r(7, 9))
	f(record.CID, "7..=9", r(7, 10))
	f(record.CID, "7..", r(7, math.MaxInt32))
	f(record.CID, "..9", r(0, 9))
	f(record.CID, "..=9", r(0, 10))
	f(record.CID, "1,3..5,8..", r(1, 2), r(3, 5), r(8, math.MaxInt32))
	f(record.CID, "7..2147483647", r(7, math.MaxInt32))
	f(record.MOID, "-5..-3", r(-5, -3))
	f(record.MOID, "-2147483648", r(math.MinInt32, math.MinInt32+1))
	f(record.MID, "100101010000167", r(100101010000167, 100101010000168))
	f(record.MID, "..=9223372036854775806", r(math.MinInt64, math.MaxInt64))
	f(record.Cap, "2026-11-20", r(date, date+day))
	f(record.Cap, "2026-11-20..2026-11-21", r(date, date+day))
	f(record.Cap, "2026-11-20..=2026-11-21", r(date, date+2*day))
	f(record.Cap, "now-34h..now", r(date, now().UnixNano()))
	f(record.Cap, "now-10h,now", r(date+day, date+day+1), r(now().UnixNano(), now().UnixNano()+1))
	f(record.Cap, "2026-11", r(date-19*day, date+11*day))
	f(record.Acq, "2026-11-20T00:00:00.5Z..", r(date+5e8, math.MaxInt64))
	f(record.Acq, "..1000", r(math.MinInt64, 1000))
}

func TestParseRefuses(t *testing.T) {
	f := func(d record.Dim, text, want string) {
		t.Helper()
		if got, err := Parse(d, text, now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%s, %q) = %v, error %v, want one with %q", d, text, got, err, want)
		}
	}
	f(record.CID, "", "empty; write")
	f(record.CID, "1,", "empty; write")
	f(record.CID, "1,*", "use it alone")
	f(record.CID, "..", "has no end")
	f(record.CID, "1..=", "has no end")
	f(record.CID, "-1", "outside 0 to 2147483646")
	f(record.CID, "2147483647", "no end")
	f(record.CID, "2147483648", "outside")
	f(record.CID, "99999999999999999999", "outside")
	f(record.CID, "7..7", "7..=7 includes it")
	f(record.CID, "9..7", `"9..7" holds nothing; it ends before it begins`)
	f(record.CID, "a", "is not an integer")
	f(record.CID, "1..2..3", "is not an integer")
	f(record.CID, "1..=2147483647", "no end")
	f(record.MID, "1.5", "is not an integer")
	f(record.Cap, "soon", "is not a time")
	f(record.Cap, "now..now-1h", "holds nothing")
	f(record.CID, strings.Repeat("1,", record.MaxRangesPerDim)+"1", "several queries")
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"*", "1,3..5,8..", "..=9", "now-24h..now",
		"2026-11-20..=2026-11"} {
		for d := range record.NumDims {
			f.Add(uint8(d), text)
		}
	}
	f.Fuzz(func(t *testing.T, dim uint8, text string) {
		d := record.Dim(dim % record.NumDims)
		set, err := Parse(d, text, now())
		if err != nil {
			return
		}
		var q record.Query
		q.Box[d] = slices.Clone(set)
		if err := q.Normalize(); err != nil {
			t.Fatalf("Parse(%s, %q) = %v, which the query refuses: %v", d, text, set, err)
		}
		again, err := Parse(d, Format(d, set), now())
		if err != nil || !slices.Equal(again, set) {
			t.Fatalf("%s %q: %v is written %q and read %v, %v", d, text, set, Format(d, set), again,
				err)
		}
	})
}

func TestFormat(t *testing.T) {
	f := func(d record.Dim, text, want string) {
		t.Helper()
		set, err := Parse(d, text, now())
		if got := Format(d, set); err != nil || got != want {
			t.Errorf("%s %s: %s, %v, want %s", d, text, got, err, want)
		}
	}
	f(record.MID, "*", "*")
	f(record.MID, "7", "7")
	f(record.MID, "..3,8..=9", "..3,8..10")
	f(record.Cap, "2026-01", "2026-01-01T00:00:00Z..2026-02-01T00:00:00Z")
	f(record.Cap, "..2026-01-02", "..2026-01-02T00:00:00Z")
	f(record.Acq, "1795266473239759790..", "2026-11-21T13:07:53.239759790Z..")
	f(record.Acq, "0", "1970-01-01T00:00:00Z")
}
