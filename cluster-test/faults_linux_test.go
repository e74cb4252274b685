package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pentad-db/pentad/cluster-test/required"
)

// fault is something that happens to nodes, and is over after a while.
type fault struct {
	name  string
	needs func(f *farm) bool
	// strike does it to a node and returns what ends it.
	strike func(f *farm, i int, rng *rand.Rand) (what string, heal func())
	least  time.Duration // how long it lasts
	most   time.Duration
}

func anywhere(*farm) bool    { return true }
func withWires(f *farm) bool { return f.wires != nil }
func withDisks(f *farm) bool { return f.nodes[0].disk != nil }

func faults() []fault {
	const ms = time.Millisecond
	return []fault{
		{"kill -9", anywhere, killOne, 0, 3000 * ms},
		{"kill -9 of all", anywhere, killAll, 0, 1000 * ms},
		{"SIGSTOP", anywhere, stopOne, 200 * ms, 6000 * ms},
		{"clock step", anywhere, stepClock, 500 * ms, 5000 * ms},
		{"isolation", withWires, isolate, 300 * ms, 6000 * ms},
		{"one-way cut", withWires, oneWay, 300 * ms, 6000 * ms},
		{"cut in two", withWires, halves, 300 * ms, 6000 * ms},
		{"loss and delay", withWires, badWires, 1000 * ms, 6000 * ms},
		{"power cut", withDisks, powerOne, 0, 3000 * ms},
		{"power cut of all", withDisks, powerAll, 0, 1000 * ms},
		{"frozen disk", withDisks, freezeOne, 500 * ms, 8000 * ms},
		{"full disk", withDisks, fillOne, 2000 * ms, 5000 * ms},
	}
}

func killOne(f *farm, i int, _ *rand.Rand) (string, func()) {
	f.nodes[i].kill()
	return "", func() { f.start(i) }
}

func killAll(f *farm, _ int, _ *rand.Rand) (string, func()) {
	for _, m := range f.nodes {
		m.kill()
	}
	return "", func() {
		for i := range f.nodes {
			f.start(i)
		}
	}
}

func stopOne(f *farm, i int, _ *rand.Rand) (string, func()) {
	f.nodes[i].signal(syscall.SIGSTOP)
	return "", func() { f.nodes[i].signal(syscall.SIGCONT) }
}

// stepClock sets a clock by up to three seconds, back or ahead, and back again. Larger steps have a
// test of their own, TestClocksOfProcessesStep.
func stepClock(f *farm, i int, rng *rand.Rand) (string, func()) {
	step := time.Duration(rng.Int64N(int64(6*time.Second))) - 3*time.Second
	set := func(by time.Duration) {
		text := []byte(strconv.FormatInt(int64(by), 10))
		if err := os.WriteFile(f.nodes[i].clock, text, 0o644); err != nil {
			f.fatal("set a clock: %v", err)
		}
	}
	set(step)
	return step.String(), func() { set(0) }
}

func isolate(f *farm, i int, _ *rand.Rand) (string, func()) {
	f.wires.around(i, rule{cut: true})
	return "", f.wires.heal
}

func oneWay(f *farm, i int, rng *rand.Rand) (string, func()) {
	j := (i + 1 + rng.IntN(len(f.nodes)-1)) % len(f.nodes)
	f.wires.set(i, j, rule{cut: true})
	return fmt.Sprintf("to node %d", j), f.wires.heal
}

// halves cuts a node from one other, in both directions; the third still hears both.
func halves(f *farm, i int, rng *rand.Rand) (string, func()) {
	j := (i + 1 + rng.IntN(len(f.nodes)-1)) % len(f.nodes)
	f.wires.set(i, j, rule{cut: true})
	f.wires.set(j, i, rule{cut: true})
	return fmt.Sprintf("from node %d", j), f.wires.heal
}

func badWires(f *farm, i int, rng *rand.Rand) (string, func()) {
	r := rule{loss: rng.Float64() * 0.2, delay: time.Duration(rng.IntN(40)) * time.Millisecond,
		jitter: time.Duration(rng.IntN(20)) * time.Millisecond}
	f.wires.around(i, r)
	return fmt.Sprintf("%.0f %%, %s + %s", 100*r.loss, r.delay, r.jitter), f.wires.heal
}

func powerOne(f *farm, i int, _ *rand.Rand) (string, func()) {
	m := f.nodes[i]
	m.losePower()
	m.disk.powerOff()
	m.kill()
	return "", func() {
		m.disk.powerOn()
		f.start(i)
	}
}

func powerAll(f *farm, _ int, _ *rand.Rand) (string, func()) {
	for _, m := range f.nodes {
		m.losePower()
	}
	for _, m := range f.nodes {
		m.disk.powerOff()
	}
	for _, m := range f.nodes {
		m.kill()
	}
	return "", func() {
		for i, m := range f.nodes {
			m.disk.powerOn()
			f.start(i)
		}
	}
}

func freezeOne(f *farm, i int, _ *rand.Rand) (string, func()) {
	f.nodes[i].disk.freeze()
	return "", f.nodes[i].disk.thaw
}

func fillOne(f *farm, i int, _ *rand.Rand) (string, func()) {
	f.nodes[i].disk.fill()
	return "", f.nodes[i].disk.empty
}

// deck deals faults in a random order, each of them once before any comes again.
type deck struct {
	left  []fault
	drawn int
}

func (d *deck) draw(rng *rand.Rand, all []fault) fault {
	if len(d.left) == 0 {
		d.left = slices.Clone(all)
		rng.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	d.drawn++
	x := d.left[0]
	d.left = d.left[1:]
	return x
}

// strike lets a fault happen to a node, lets it last, and heals it.
func (f *farm) strike(rng *rand.Rand, x fault) string {
	i := rng.IntN(len(f.nodes))
	lasts := x.least + time.Duration(rng.Int64N(int64(x.most-x.least)+1))
	f.note("%s, node %d, for %s", x.name, i, lasts.Round(time.Millisecond))
	what, heal := x.strike(f, i, rng)
	if what != "" {
		f.note("  %s", what)
	}
	pause(f.T, lasts)
	heal()
	f.note("healed")
	f.supervise()
	return x.name
}

// mostGroups are still few enough that each is met by many faults.
const mostGroups = 24

// split has the cluster part one of its groups, which goes on while the next fault comes.
func (f *farm) split(rng *rand.Rand) {
	f.Helper()
	f.until("the cluster takes a split", func() bool {
		i := rng.IntN(len(f.nodes))
		v, err := f.view(i)
		if err != nil || len(v.Groups) > mostGroups {
			return err == nil
		}
		group := 1 + rng.Uint32N(uint32(len(v.Groups))-1)
		c := f.client(i)
		defer func() { _ = c.Close() }()
		ctx, cancel := short(f.Context())
		defer cancel()
		_, err = c.SplitGroup(ctx, group, false)
		f.note("group %d is to be split: %v", group, err)
		return err == nil
	})
}

// possible returns the faults that this machine can make, and notes the others.
func (f *farm) possible() (out []fault) {
	f.Helper()
	var not []string
	for _, x := range faults() {
		if x.needs(f) {
			out = append(out, x)
		} else {
			not = append(not, x.name)
		}
	}
	slices.Sort(not)
	why := fmt.Sprintf("%s; this machine lacks %s", strings.Join(not, ", "),
		strings.Join(f.missing, ", "))
	if f.wires == nil {
		required.Lacks(f.T, required.Network, why)
	}
	if !withDisks(f) {
		required.Lacks(f.T, required.Disks, why)
	}
	return out
}
