package clock

import (
	"math"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
)

// world is a cluster of clocks that hear one another.
type world struct {
	t      *testing.T
	trueNs int64
	nodes  []*fake
	clocks []*Clock
	down   map[int]bool
	cut    map[[2]int]bool // from one to another
	delay  time.Duration   // of one way
}

func newWorld(t *testing.T, offsets ...time.Duration) *world {
	w := &world{t: t, trueNs: start(), down: map[int]bool{}, cut: map[[2]int]bool{},
		delay: time.Millisecond}
	for i, d := range offsets {
		w.nodes = append(w.nodes, &fake{wall: w.trueNs + int64(d), monotonic: int64(i+1) * 1e12})
		w.clocks = append(w.clocks, nil)
	}
	for i := range offsets {
		w.boot(i)
	}
	return w
}

// boot starts a node, whose monotonic clock begins anywhere.
func (w *world) boot(i int) {
	w.nodes[i].monotonic += int64(time.Hour)
	w.clocks[i] = New(Options{Machine: w.nodes[i]})
	w.clocks[i].SetNodes(len(w.nodes))
}

func (w *world) pass(d time.Duration) {
	w.trueNs += int64(d)
	for _, n := range w.nodes {
		n.pass(d)
	}
}

// run lets the nodes ask one another once a second.
func (w *world) run(d time.Duration) {
	for ; d > 0; d -= time.Second {
		for i, a := range w.clocks {
			for k, b := range w.clocks {
				if i == k || w.down[i] || w.down[k] || w.cut[[2]int{i, k}] || w.cut[[2]int{k, i}] {
					continue
				}
				ping := a.Ping()
				w.pass(w.delay)
				pong := b.Hear(uint64(i), ping)
				w.pass(w.delay)
				if a.Hear(uint64(k), pong) != nil {
					w.t.Fatal("a pong was answered")
				}
			}
		}
		w.pass(time.Second)
		for i, c := range w.clocks {
			if !w.down[i] {
				c.Judge()
			}
		}
	}
}

// verdict checks what a node thinks of its clock, and how far what it follows is from the truth.
func (w *world) verdict(i int, want Verdict, leads bool, off time.Duration) {
	w.t.Helper()
	c := w.clocks[i]
	s := c.State()
	got := time.Duration(s.NowNs - w.trueNs)
	if s.Verdict != want || c.MayLead() != leads || (got-off).Abs() > time.Second {
		w.t.Errorf("node %d: %v, leads %v, off by %v; want %v, %v, %v", i, s.Verdict, c.MayLead(),
			got, want, leads, off)
	}
}

// undecided checks that nodes give no acqs, say so, and may lead what needs none.
func (w *world) undecided(nodes ...int) {
	w.t.Helper()
	for _, i := range nodes {
		c := w.clocks[i]
		all := c.Problems()
		_, stamps := c.Stamp()
		if stamps || !c.MayLead() || c.State().Verdict != Undecided ||
			len(all) == 0 || all[len(all)-1].Code != "clock_undecided" || c.Read().Confirmed {
			w.t.Errorf("node %d: stamps %v, %+v, problems %+v", i, stamps, c.State(), all)
		}
	}
}

func TestClustersThatAgree(t *testing.T) {
	w := newWorld(t, 0, 200*time.Millisecond, -200*time.Millisecond)
	for i := range w.clocks {
		w.verdict(i, Unknown, false, 0) // it was just started
	}
	w.run(time.Second)
	for i, c := range w.clocks {
		w.verdict(i, Agrees, true, 0)
		if r := c.Read(); !r.Confirmed || len(c.Problems()) != 0 || len(c.State().Peers) != 2 {
			t.Errorf("node %d: %+v, %+v", i, r, c.State())
		}
	}
	p := w.clocks[0].State().Peers[0]
	if p.Node != 1 || !near(p.OffsetNs, int64(200*time.Millisecond), p.UncertaintyNs+1) ||
		p.UncertaintyNs > int64(3*time.Millisecond) {
		t.Errorf("%+v", p)
	}
	w.delay = 400 * time.Millisecond // what was measured before is still known
	w.run(5 * time.Second)
	w.verdict(0, Agrees, true, 0)
}

// A node whose clock steps while it runs goes on by the old time, does not lead, and is the odd one
// out; when the clock is right again, it leads after a moment.
func TestOneClockSteps(t *testing.T) {
	for _, d := range steps() {
		t.Run(d.String(), func(t *testing.T) {
			w := newWorld(t, 0, 0, 0)
			w.run(10 * time.Second)
			w.nodes[0].step(d)
			if ns, ok := w.clocks[0].Stamp(); !ok || ns != w.trueNs {
				t.Errorf("the first stamp is off by %v", time.Duration(ns-w.trueNs))
			}
			for range 20 {
				w.run(time.Second)
				w.verdict(0, Odd, false, 0)
				w.verdict(1, Agrees, true, 0)
				w.verdict(2, Agrees, true, 0)
				if _, ok := w.clocks[0].Stamp(); !ok {
					t.Error("what is followed is right, and is refused")
				}
			}
			c := w.clocks[0]
			if c.OddFor() < 19*time.Second || len(c.Problems()) != 2 || c.Read().Confirmed {
				t.Errorf("odd for %v, %+v", c.OddFor(), c.Problems())
			}
			peers := w.clocks[1].State().Peers
			if !peers[0].Off || !peers[0].Stepped || peers[1].Off {
				t.Errorf("others hear %+v", peers)
			}
			w.run(20 * time.Minute) // to stay there is no evidence against others
			w.verdict(0, Odd, false, 0)
			w.nodes[0].step(-d)
			w.run(time.Second)
			w.verdict(0, Odd, false, 0) // for a moment
			w.run(offFor)
			w.verdict(0, Agrees, true, 0)
			if c.OddFor() != 0 || len(c.Problems()) != 0 || !c.Read().Confirmed {
				t.Errorf("odd for %v, %+v", c.OddFor(), c.Problems())
			}
		})
	}
}

// A node that is started with a wrong clock follows what the others agree on.
func TestOneClockIsWrongAtStart(t *testing.T) {
	rounds.NotUnderRace(t, "it simulates clocks in one goroutine")
	for _, d := range steps() {
		for _, ago := range []time.Duration{0, time.Minute, 30 * day} {
			w := newWorld(t, 0, 0, 0)
			w.run(10 * time.Second)
			w.nodes[0].step(d)
			w.boot(0)
			if ago != 0 {
				w.clocks[0].Begin(w.trueNs-int64(ago), 0)
			}
			if w.clocks[0].MayLead() {
				t.Errorf("%v: it leads before it knows the time", d)
			}
			w.run(time.Second)
			w.verdict(0, Odd, false, 0)
			w.verdict(1, Agrees, true, 0)
			w.run(20 * time.Minute)
			w.verdict(0, Odd, false, 0)
		}
	}
}

// A cluster that was off for long, or whose clocks were all set right, follows them at once.
func TestAllClocksStep(t *testing.T) {
	for _, d := range steps() {
		w := newWorld(t, 0, 0, 0)
		w.run(10 * time.Second)
		for i := range w.nodes {
			w.nodes[i].step(d)
		}
		w.run(time.Second)
		w.verdict(0, Agrees, true, 0) // not yet
		w.run(agreeFor + time.Second)
		for i := range w.nodes {
			w.verdict(i, Agrees, true, d)
		}
		for i := range w.nodes { // and at start
			w.boot(i)
			w.clocks[i].Begin(w.trueNs-int64(30*day), 0)
		}
		w.run(time.Second)
		for i, c := range w.clocks {
			w.verdict(i, Agrees, true, d)
			if !c.Read().Confirmed {
				t.Errorf("%v: node %d is not confirmed", d, i)
			}
		}
	}
}

// Of two wrong clocks and a right one the majority counts, if the two agree.
func TestTwoOfThreeAreWrong(t *testing.T) {
	for _, d := range steps() {
		w := newWorld(t, 0, 0, 0)
		w.run(10 * time.Second)
		w.nodes[1].step(d)
		w.run(2 * time.Second)
		w.nodes[2].step(d)
		w.run(agreeFor + offFor)
		w.verdict(0, Odd, false, d) // it follows the others
		w.verdict(1, Agrees, true, d)
		w.verdict(2, Agrees, true, d)

		w = newWorld(t, 0, 0, 0) // two clocks that differ convince no node
		w.run(10 * time.Second)
		w.nodes[1].step(d)
		w.nodes[2].step(3 * d)
		w.run(time.Minute)
		w.verdict(0, Agrees, true, 0)
		w.verdict(1, Off, false, 0)
		w.verdict(2, Off, false, 0)
	}
}

// Of two nodes the one that has not stepped leads. Two that were started so give no acqs until a
// third one is there, or one of them is set right.
func TestTwoNodesAreHeard(t *testing.T) {
	for _, d := range steps() {
		w := newWorld(t, 0, 0, 0)
		w.run(10 * time.Second)
		w.down[2] = true
		w.nodes[0].step(d)
		w.run(20 * time.Second)
		w.verdict(0, Off, false, 0)
		w.verdict(1, Agrees, true, 0)
		if w.clocks[0].OddFor() != 0 {
			t.Error("one of two is no majority")
		}
		w = newWorld(t, 0, d, 0)
		w.down[2] = true
		w.run(10 * time.Second)
		w.undecided(0, 1)
		w.nodes[1].step(-d)
		w.run(time.Second)
		w.verdict(0, Agrees, true, 0)
		w.verdict(1, Agrees, true, 0)
		w = newWorld(t, 0, d, 0)
		w.down[2] = true
		w.run(10 * time.Second)
		w.undecided(0, 1)
		w.down[2] = false // and the third one decides
		w.run(2 * time.Second)
		w.verdict(0, Agrees, true, 0)
		w.verdict(1, Odd, false, 0)
		w.verdict(2, Agrees, true, 0)
	}
}

// A clock may be further than the bound from one other, if it is not from the middle one.
func TestClocksApartByTheBound(t *testing.T) {
	w := newWorld(t, -300*time.Millisecond, 0, 300*time.Millisecond)
	w.run(10 * time.Second)
	for i := range w.clocks {
		w.verdict(i, Agrees, true, 0)
	}
}

// A node that slept, or a machine that stood still, is measured again.
func TestPeersThatSleep(t *testing.T) {
	w := newWorld(t, 0, 0, 0)
	w.run(10 * time.Second)
	w.nodes[1].sleep(0) // the others' time goes on
	for range 600 {
		for i, n := range w.nodes {
			if i != 1 {
				n.pass(time.Second)
			}
		}
		w.trueNs += int64(time.Second)
	}
	w.nodes[1].sleep(10 * time.Minute)
	w.run(10 * time.Second)
	for i := range w.clocks {
		w.verdict(i, Agrees, true, 0)
	}
	for range 600 { // a virtual machine that was paused: its clock is late
		for i, n := range w.nodes {
			if i != 1 {
				n.pass(time.Second)
			}
		}
		w.trueNs += int64(time.Second)
	}
	w.run(10 * time.Second)
	w.verdict(1, Odd, false, 0)
	w.verdict(0, Agrees, true, 0)
	w.boot(2) // nothing is left of its old monotonic clock
	w.run(time.Second)
	w.verdict(2, Agrees, true, 0)
	w.verdict(0, Agrees, true, 0)
}

// A node that hears no other one keeps its time, and what it had been told.
func TestAlone(t *testing.T) {
	w := newWorld(t, 0, 0, 0)
	w.run(10 * time.Second)
	w.down[0] = true
	w.pass(time.Hour)
	w.clocks[0].Judge()
	w.verdict(0, Unknown, true, 0)
	w.nodes[0].step(400 * day)
	w.clocks[0].Judge()
	w.verdict(0, Unknown, false, 0)
	if _, ok := w.clocks[0].Stamp(); !ok || w.clocks[0].Heard() {
		t.Error("the time that a majority confirmed is not right any more")
	}
	w.down[0], w.down[1], w.down[2] = false, true, true
	w.boot(0)
	if w.clocks[0].MayLead() {
		t.Error("it leads at once")
	}
	w.run(time.Minute)
	w.verdict(0, Unknown, false, 400*day) // it does not know the time
	if _, ok := w.clocks[0].Stamp(); ok {
		t.Error("it stamps by itself")
	}
	w.down[1] = false
	w.run(time.Second)
	w.verdict(0, Off, false, 0) // of the other one, a majority has confirmed the time
	w.verdict(1, Agrees, true, 0)
	one := newWorld(t, 0)
	one.verdict(0, Unknown, true, 0)
	if _, ok := one.clocks[0].Stamp(); !ok {
		t.Error("a cluster of one node does not stamp")
	}
}

// Whatever others say, what comes of it is a time.
func TestHostilePeers(t *testing.T) {
	w := newWorld(t, 0, 0, 0)
	w.run(10 * time.Second)
	for _, ns := range []int64{math.MinInt64, -1, 0, math.MaxInt64} {
		for _, sent := range []int64{math.MinInt64, 0, w.nodes[0].monotonic, math.MaxInt64} {
			w.clocks[0].Hear(1, appendPong(nil, pong{sentNs: sent, monotonicNs: ns, wallNs: ns,
				nowNs: ns, boot: uint64(ns)}))
		}
	}
	w.run(10 * time.Second)
	w.verdict(0, Agrees, true, 0)
	for node := range uint64(3 * maxPeers) {
		w.clocks[0].Hear(node, appendPong(nil, pong{sentNs: w.nodes[0].monotonic}))
	}
	if n := len(w.clocks[0].State().Peers); n != maxPeers {
		t.Errorf("%d nodes are remembered", n)
	}
}

func FuzzMessages(f *testing.F) {
	f.Add(appendPing(nil, 77))
	f.Add(appendPong(nil, pong{stepped: true, off: true, sure: true,
		behind: true, sentNs: 1, boot: 2, monotonicNs: 3,
		wallNs: 4, nowNs: 5}))
	f.Fuzz(func(t *testing.T, src []byte) {
		if ns, err := parsePing(src); err == nil && string(appendPing(nil, ns)) != string(src) {
			t.Errorf("%x", src)
		}
		p, err := parsePong(src)
		if err != nil {
			return
		}
		if again, err := parsePong(appendPong(nil, p)); err != nil || again != p {
			t.Errorf("%+v, %+v, %v", p, again, err)
		}
	})
}

// A node whose clock another one contradicted stamps nothing when it does not hear that one any
// more: neither while the verdict holds, nor after it.
func TestContradictedStampsNothingAlone(t *testing.T) {
	w := newWorld(t, 0, 10*time.Second) // both were started so
	w.run(2 * time.Second)
	w.undecided(0, 1)
	w.down[0] = true
	for range 20 {
		w.run(time.Second)
		if _, ok := w.clocks[1].Stamp(); ok {
			t.Fatalf("it stamps: %+v", w.clocks[1].State())
		}
	}
	w.verdict(1, Unknown, false, 10*time.Second)
}
