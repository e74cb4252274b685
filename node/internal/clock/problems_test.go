package clock

import (
	"strings"
	"testing"
	"time"
)

func TestProblemsSayHowFar(t *testing.T) {
	f := func(step time.Duration, want string) {
		t.Helper()
		m := newFake()
		c := New(Options{Machine: m})
		m.step(step)
		all := c.Problems()
		if len(all) != 1 || all[0].Code != "clock_stepped" || all[0].Advice == "" ||
			!strings.Contains(all[0].Message, want) || !strings.Contains(all[0].Message, "10m0s") {
			t.Errorf("%v: %+v", step, all)
		}
	}
	f(400*day, "400 days ahead of")
	f(-400*day, "400 days behind")
	f(time.Hour, "1h0m0s ahead of")
	f(-700*time.Millisecond, "700ms behind")
	w := newWorld(t, 0, 0, 0)
	w.run(10 * time.Second)
	w.nodes[2].step(-day)
	w.run(time.Second)
	all := w.clocks[2].Problems()
	if len(all) != 2 || all[1].Code != "clock_off" || !all[1].NotReady ||
		!strings.Contains(all[1].Message, "24h0m0s ahead of") {
		t.Errorf("%+v", all)
	}
}
