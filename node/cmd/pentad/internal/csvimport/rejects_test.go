package csvimport

import (
	"strings"
	"testing"
)

// Rejected lines that follow each other are one place of a message.
func TestRejectGroups(t *testing.T) {
	f := func(want string, lines ...string) {
		t.Helper()
		r := load(t, simple, "meter,time,kwh\n"+strings.Join(lines, "\n")+"\n")
		if got := r.summary.Rejects.String(); got != want || r.err != nil {
			t.Errorf("%s, want %s, %v", got, want, r.err)
		}
	}
	const good, short, bad = "1,0,1", "1,0", "1,0,x"
	f("", good)
	f("a.csv line 3: 2 fields, expected 3", good, short, good)
	f("a.csv lines 3 to 5: 2 fields, expected 3", good, short, short, short, good)
	f(`a.csv lines 2 to 3: the first: column "kwh": "x" is not an f64`, bad, "1,0,y", good)
	f(`a.csv lines 2 to 3: 2 fields, expected 3; line 4: column "kwh": "x" is not an f64; line 6: `+
		`2 fields, expected 3; 2 more places`, short, short, bad, good, short, bad, bad, good, bad)
	f(`a.csv line 2: 2 fields, expected 3; line 4: 2 fields, expected 3; line 6: 2 fields, `+
		`expected 3; 1 more place`, short, good, short, good, short, good, short, short)

	r := load(t, simple, "meter,time,kwh\n"+strings.Repeat(good+"\n", 498)+
		strings.Repeat(short+"\n", 100)+strings.Repeat(good+"\n", 4402))
	if r.summary.Rejects.String() != "a.csv lines 500 to 599: 2 fields, expected 3" ||
		r.summary.Lines != 5000 || r.summary.Rejected != 100 {
		t.Errorf("%s, %+v", &r.summary.Rejects, r.summary)
	}
}
