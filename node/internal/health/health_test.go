package health

import (
	"slices"
	"testing"
	"time"
)

// A problem begins once, keeps its first time, is over some seconds after it was reported last, and
// is told apart from others by code and subject.
func TestBoard(t *testing.T) {
	full := Problem{Code: "disk_full", Message: "no space"}
	one := Problem{Code: "stopped", Subject: "group 1"}
	two := Problem{Code: "stopped", Subject: "group 2"}
	start := time.Unix(1000, 0)
	var b Board
	codes := func(all []Problem) []string {
		var out []string
		for _, p := range all {
			out = append(out, p.Code+" "+p.Subject)
		}
		return out
	}
	step := func(after time.Duration, reported []Problem, began, ended, listed []string) {
		t.Helper()
		gotBegan, gotEnded := b.Update(reported, start.Add(after))
		for _, f := range []struct {
			what      string
			got, want []string
		}{{"began", codes(gotBegan), began}, {"ended", codes(gotEnded), ended},
			{"listed", codes(b.List()), listed}} {
			if !slices.Equal(f.got, f.want) {
				t.Errorf("after %v, %s: %q, want %q", after, f.what, f.got, f.want)
			}
		}
	}
	const d, s1, s2 = "disk_full ", "stopped group 1", "stopped group 2"
	step(0, []Problem{two, full}, []string{s2, d}, nil, []string{d, s2})
	step(time.Second, []Problem{full, one}, []string{s1}, nil, []string{d, s1, s2})
	step(2*time.Second, []Problem{one, two}, nil, nil, []string{d, s1, s2}) // back in time
	full.Message = "still no space"
	step(3*time.Second, []Problem{full}, nil, nil, []string{d, s1, s2})
	if p := b.List()[0]; p.Message != full.Message || p.SinceNs != start.UnixNano() {
		t.Errorf("%+v: want the newest message and the first time", p)
	}
	step(5*time.Second, []Problem{full}, nil, []string{s1, s2}, []string{d})
	step(9*time.Second, nil, nil, []string{d}, nil)
	step(10*time.Second, []Problem{full}, []string{d}, nil, []string{d})
	full.NotReady = true // which is listed no longer than it lasts, and is not over twice
	step(11*time.Second, []Problem{full, one}, []string{s1}, nil, []string{d, s1})
	step(12*time.Second, nil, nil, nil, []string{s1})
	step(13*time.Second, []Problem{full}, nil, nil, []string{d, s1})
	step(16*time.Second, nil, nil, []string{d, s1}, nil)
}
