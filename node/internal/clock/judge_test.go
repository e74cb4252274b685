package clock

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
)

// A time that a majority confirmed outlives the processes that saw it: each that is started takes
// it from one that runs, whatever their wall clocks say.
func TestAConfirmedTimeIsHandedOn(t *testing.T) {
	for _, d := range steps() {
		w := newWorld(t, 0, 0, 0)
		w.run(2 * time.Second)
		w.down[2] = true
		w.run(10 * time.Second)
		w.nodes[0].step(d)
		for range 3 {
			for i := range 2 { // one of them is started again
				w.boot(i)
				w.run(2 * time.Second)
				w.verdict(0, Off, false, 0)
				w.verdict(1, Agrees, true, 0)
			}
		}
		w.down[1] = true // the last that has seen it
		w.boot(1)
		w.boot(0)
		w.run(time.Minute)
		w.down[1] = false
		w.run(2 * time.Second)
		w.undecided(0, 1)
	}
}

// Clocks that agree are enough where no majority is there, as after the loss of most nodes.
func TestClocksThatAgreeWithoutAMajority(t *testing.T) {
	for _, ago := range []time.Duration{time.Minute, 30 * day} {
		w := newWorld(t, 0, 100*time.Millisecond, 0, 0, 0)
		w.down[2], w.down[3], w.down[4] = true, true, true
		w.clocks[0].Begin(w.trueNs-int64(ago), 0)
		w.clocks[1].Begin(w.trueNs-int64(ago), 0)
		w.run(2 * time.Second)
		for i := range 2 {
			w.verdict(i, Agrees, true, 0)
			if _, ok := w.clocks[i].Stamp(); !ok {
				t.Errorf("node %d refuses", i)
			}
		}
	}
}

// A clock that is behind the newest acq of its own log is wrong, so another one counts.
func TestTheLogDisprovesAClock(t *testing.T) {
	w := newWorld(t, 0, -day, 0)
	w.down[2] = true
	for i := range 2 {
		w.clocks[i].Begin(w.trueNs-int64(10*time.Second), 0)
	}
	w.run(2 * time.Second)
	w.verdict(0, Agrees, true, 0)
	if _, ok := w.clocks[1].Stamp(); ok || w.clocks[1].MayLead() {
		t.Errorf("the node with the wrong clock stamps: %+v", w.clocks[1].State())
	}
	w = newWorld(t, 0, -30*day, 0) // back to when they were stopped: nothing disproves that
	w.down[2] = true
	for i := range 2 {
		w.clocks[i].Begin(w.trueNs-int64(30*day)-int64(time.Minute), 0)
	}
	w.run(2 * time.Second)
	w.undecided(0, 1)
}

// A node that joins with a wrong clock stops nothing.
func TestAWrongClockJoins(t *testing.T) {
	for _, d := range steps() {
		w := newWorld(t, 0, d)
		w.clocks[0].SetNodes(1)
		w.clocks[1].SetNodes(0)
		w.clocks[0].Judge()
		for _, c := range w.clocks {
			c.SetNodes(2)
		}
		w.run(10 * time.Second)
		w.verdict(0, Agrees, true, 0)
		w.verdict(1, Off, false, 0)
	}
}

// What a node that hears no other one takes for the time is not what a majority confirmed.
func TestWhatANodeFollowsAloneIsNotConfirmed(t *testing.T) {
	w := newWorld(t, 0, 0, 0)
	w.run(10 * time.Second)
	w.down[0], w.down[2] = true, true
	w.nodes[0].step(day)
	w.pass(20 * time.Minute)
	w.clocks[0].Judge()
	w.pass(20 * time.Minute)
	w.clocks[0].Judge()
	w.verdict(0, Unknown, false, day)
	w.down[0] = false
	w.run(2 * time.Second)
	w.verdict(0, Off, false, 0)
	w.verdict(1, Agrees, true, 0)
}

// Of two confirmed times the later one counts: a virtual machine that was paused is late.
func TestOfTwoConfirmedTimesTheLaterCounts(t *testing.T) {
	w := newWorld(t, 0, 0, 0)
	w.run(10 * time.Second)
	w.down[2] = true
	w.pass(time.Hour)
	w.nodes[0].wall, w.nodes[0].monotonic = w.nodes[0].wall-int64(time.Hour),
		w.nodes[0].monotonic-int64(time.Hour)
	w.run(20 * time.Second)
	w.verdict(0, Off, false, 0)
	w.verdict(1, Agrees, true, 0)
}

// A round trip that is longer than twice the bound proves nothing, for or against a clock.
func TestLongRoundTrips(t *testing.T) {
	w := newWorld(t, 0, 0, 0)
	w.down[2], w.delay = true, 700*time.Millisecond
	w.run(30 * time.Second)
	for i, c := range w.clocks[:2] {
		if s := c.State(); s.Verdict != Agrees || c.peers.sure {
			t.Errorf("node %d: %v, confirmed %v", i, s.Verdict, c.peers.sure)
		}
	}
}

// script lets wall clocks, processes and connections of a cluster do anything, while most wall
// clocks are right, and calls a check of each running node every few seconds.
func script(t *testing.T, seed uint64, anyWrong bool, check func(w *world, node int)) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, make([]time.Duration, 2+rng.IntN(4))...)
	count := len(w.nodes)
	off := make([]time.Duration, count)
	set := func(i int, d time.Duration) {
		w.nodes[i].step(d - off[i])
		off[i] = d
	}
	var wrong []int
	for range 80 {
		i := rng.IntN(count)
		switch kind := rng.IntN(6); {
		case kind == 0 && anyWrong && count > 2 && !slices.Contains(wrong, i):
			if len(wrong) == (count-1)/2 { // another one is set right
				set(wrong[0], 0)
				wrong = wrong[1:]
			}
			wrong = append(wrong, i)
			set(i, time.Duration(rng.Int64N(int64(2*day)))-day)
		case kind == 1 && !slices.Contains(wrong, i):
			set(i, time.Duration(rng.IntN(400)-200)*time.Millisecond)
		case kind == 2:
			w.boot(i)
			if rng.IntN(2) == 0 {
				w.clocks[i].Begin(w.trueNs-rng.Int64N(int64(time.Hour)), 0)
			}
		case kind == 3:
			w.down[i] = !w.down[i] && rng.IntN(2) == 0
		case kind == 4:
			pair := [2]int{i, rng.IntN(count)}
			w.cut[pair] = !w.cut[pair] && rng.IntN(2) == 0
		}
		w.run(time.Duration(1+rng.IntN(8)) * time.Second)
		for k := range w.clocks {
			if !w.down[k] {
				check(w, k)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	clear(w.down)
	clear(w.cut)
	for i := range off {
		set(i, 0)
	}
	w.run(agreeFor + offFor + 2*time.Second)
	for i := range w.clocks {
		w.verdict(i, Agrees, true, 0)
	}
}

// While most wall clocks are right no acq is far from the time, whatever wall clocks, processes and
// connections do; and when all is well again, all nodes lead.
func TestStampsAreRightWhileMostClocksAre(t *testing.T) {
	rounds.NotUnderRace(t, "it simulates clocks in one goroutine")
	// Of a wall clock, of one that confirms it, and of each again.
	const bound = 4 * DefaultMaxOffset
	undecided, given := 0, 0
	for seed := range uint64(150) {
		script(t, seed, true, func(w *world, node int) {
			c := w.clocks[node]
			ns, ok := c.Stamp()
			switch {
			case ok && !near(ns, w.trueNs, int64(bound)):
				t.Errorf("node %d stamps %v off, %+v", node, time.Duration(ns-w.trueNs), c.State())
			case ok:
				given++
			case c.State().Verdict == Undecided:
				undecided++
			}
		})
	}
	t.Logf("%d stamps, %d refused as clocks differ", given, undecided)
	if undecided*20 > given || undecided == 0 {
		t.Errorf("%d stamps were refused as clocks differ, and %d given", undecided, given)
	}
}

// Where clocks agree none is contradicted, and no acq is refused for that.
func TestClocksThatAgreeAreNeverContradicted(t *testing.T) {
	for seed := range uint64(50) {
		script(t, seed, false, func(w *world, node int) {
			if v := w.clocks[node].State().Verdict; v != Agrees && v != Unknown {
				t.Errorf("node %d: %+v", node, w.clocks[node].State())
			}
		})
	}
}
