package cluster_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// killsOfLeaders are enough for a median.
const killsOfLeaders, fewKills = 10, 3 // of long runs, and of make test

// TestWriteOutageAfterKill kills nodes that lead groups, and prints how long it took until a put
// into each of these groups, by a client with default retries of a node that lives, was answered.
// How long is for people to judge, as machines differ; that no client saw an error is not.
func TestWriteOutageAfterKill(t *testing.T) {
	p := planOf(t)
	t.Logf("PENTAD_SEED=%d", p.seed)
	f := newFarm(t, 3)
	devices := f.devicesOfGroups(t.Context())
	rng := rand.New(rand.NewPCG(p.seed, 2))
	var outages []time.Duration
	var heart pulse
	beating, cancel := context.WithCancel(t.Context())
	var beats sync.WaitGroup
	beats.Go(func() { heart.beat(beating) })
	defer beats.Wait()
	defer cancel()
	kills := 0
	enough := killsOfLeaders
	if testing.Short() {
		enough = 2
	} else if p.faults <= 8 {
		enough = fewKills
	}
	for kill := 0; kills < enough && kill < 3*enough; kill++ {
		f.until("the cluster is well", f.settled)
		f.until("all nodes are ready", f.ready)
		victim := rng.IntN(len(f.nodes))
		through := (victim + 1 + rng.IntN(len(f.nodes)-1)) % len(f.nodes)
		led := f.led(victim)
		if len(led) == 0 {
			led = f.led(through) // the others lead all
			victim, through = through, victim
		}
		began := time.Now()
		f.note("kill -9, node %d, which leads %v", victim, led)
		f.nodes[victim].kill()
		took, errs := make([]time.Duration, len(led)), make([]error, len(led))
		var wg sync.WaitGroup
		for i, g := range led {
			wg.Go(func() {
				errs[i] = f.putOne(t.Context(), through, devices[g], int64(kill+2))
				took[i] = time.Since(began)
			})
		}
		wg.Wait()
		f.start(victim)
		if heart.missed(began) {
			t.Logf("kill %d does not count: this machine stood still", kill)
			continue
		}
		if err := errors.Join(errs...); err != nil {
			t.Errorf("kill %d: a put into one of groups %v: %v", kill, led, err)
		}
		outages = append(outages, took...)
		kills++
	}
	if len(outages) == 0 {
		t.Log("this machine stood still during each kill: no outage was measured")
		return
	}
	slices.Sort(outages)
	t.Logf("write outage after kill -9 of a leader: %d groups in %d kills, p50 %s, max %s",
		len(outages), kills, outages[len(outages)/2].Round(time.Millisecond),
		outages[len(outages)-1].Round(time.Millisecond))
	for _, wrong := range f.logged("\npanic: ", "BUG:", "\nfatal error: ") {
		t.Error(wrong)
	}
}

// outageBars are what a client may wait at most for its put after a single fault, on a machine with
// nothing else to do: half of the puts, and each.
const (
	outageHalf = 2 * time.Second
	outageMost = 4 * time.Second
)

// cutInTwo is a network in which a third node reaches two that do not reach each other.
const cutInTwo = "cut in two"

// outage is a fault that stays until a put into each group that its victim led is answered.
type outage struct {
	name   string
	short  bool // it is in the short form of the test
	needs  func(f *farm) bool
	strike func(f *farm, victim, other int) (heal func())
}

func outages() []outage {
	cut := rule{cut: true}
	between := func(from, to bool) func(f *farm, victim, other int) func() {
		return func(f *farm, victim, other int) func() {
			if from {
				f.wires.set(victim, other, cut)
			}
			if to {
				f.wires.set(other, victim, cut)
			}
			return f.wires.heal
		}
	}
	around := func(r rule) func(f *farm, victim, _ int) func() {
		return func(f *farm, victim, _ int) func() {
			f.wires.around(victim, r)
			return f.wires.heal
		}
	}
	return []outage{
		{"kill -9", false, anywhere, func(f *farm, victim, _ int) func() {
			f.nodes[victim].kill()
			return func() { f.start(victim) }
		}},
		{"SIGSTOP", true, anywhere, func(f *farm, victim, _ int) func() {
			f.nodes[victim].signal(syscall.SIGSTOP)
			return func() { f.nodes[victim].signal(syscall.SIGCONT) }
		}},
		{"isolation", false, withWires, around(cut)},
		{"cut from one node", false, withWires, between(true, false)},
		{"cut to one node", false, withWires, between(false, true)},
		{cutInTwo, true, withWires, between(true, true)},
		{"30 % loss", false, withWires, around(rule{loss: 0.3})},
	}
}

// TestWriteOutageOfEachFault strikes nodes that lead groups with one fault at a time, and prints
// for each kind how long clients waited until a put into each of these groups was answered: one
// whose first address is the victim's, and one whose first is that of a node which cannot reach it.
// With PENTAD_OUTAGE_BARS what took too long is an error; PENTAD_OUTAGE chooses one kind.
func TestWriteOutageOfEachFault(t *testing.T) {
	p := planOf(t)
	rounds := 1
	if p.faults > 8 {
		rounds = 5
	}
	t.Logf("PENTAD_SEED=%d", p.seed)
	f := newFarm(t, 3)
	devices := f.devicesOfGroups(t.Context())
	rng := rand.New(rand.NewPCG(p.seed, 3))
	var heart pulse
	beating, cancel := context.WithCancel(t.Context())
	var beats sync.WaitGroup
	beats.Go(func() { heart.beat(beating) })
	defer beats.Wait()
	defer cancel()
	capNs := int64(100)
	for _, x := range outages() {
		only := os.Getenv("PENTAD_OUTAGE")
		if !x.needs(f) || only != "" && only != x.name || only == "" && rounds == 1 && !x.short {
			continue
		}
		var took []time.Duration
		for done, tries := 0, 0; done < rounds && tries < 3*rounds; tries++ {
			f.until("the cluster is well", f.settled)
			f.until("all nodes are ready", f.ready)
			victim := rng.IntN(len(f.nodes))
			for len(f.led(victim)) == 0 {
				victim = (victim + 1) % len(f.nodes)
			}
			other := (victim + 1 + rng.IntN(len(f.nodes)-1)) % len(f.nodes)
			capNs++
			some, began := f.strikeAndPut(x, victim, other, devices, capNs)
			if heart.missed(began) {
				t.Logf("%s: this machine stood still: a round does not count", x.name)
				continue
			}
			took = append(took, some...)
			done++
		}
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		half, most := took[len(took)/2], took[len(took)-1]
		t.Logf("write outage, %s: %d puts, p50 %s, max %s", x.name, len(took),
			half.Round(time.Millisecond), most.Round(time.Millisecond))
		if os.Getenv("PENTAD_OUTAGE_BARS") != "" && (half > outageHalf || most > outageMost) {
			t.Errorf("write outage, %s: more than %s or %s", x.name, outageHalf, outageMost)
		}
	}
	for _, wrong := range f.logged("\npanic: ", "BUG:", "\nfatal error: ") {
		t.Error(wrong)
	}
}

// strikeAndPut returns how long puts took into each group that the victim led.
func (f *farm) strikeAndPut(
	x outage, victim, other int, devices []int64, capNs int64,
) (took []time.Duration, began time.Time) {
	f.Helper()
	led := f.led(victim)
	var clients []*client.Client
	for _, first := range []int{victim, other} {
		var addrs []string
		for i := range f.nodes {
			addrs = append(addrs, f.nodes[(first+i)%len(f.nodes)].http)
		}
		c, err := client.New(strings.Join(addrs, ","))
		if err != nil {
			f.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		clients = append(clients, c)
	}
	began = time.Now()
	f.note("%s, node %d, which leads %v, and node %d", x.name, victim, led, other)
	heal := x.strike(f, victim, other)
	took = make([]time.Duration, len(led)*len(clients))
	errs := make([]error, len(took))
	var wg sync.WaitGroup
	for n := range took {
		wg.Go(func() {
			errs[n] = putThrough(f.Context(), clients[n%2], devices[led[n/2]], capNs<<1+int64(n%2))
			took[n] = time.Since(began)
		})
	}
	wg.Wait()
	if x.name == cutInTwo {
		at := time.Now()
		third := 3 - victim - other
		f.until("the node that both others reach leads all groups", func() bool {
			return len(f.led(third)) == groupsOfFarm
		})
		f.Logf("after %s it leads all", time.Since(at).Round(time.Millisecond))
	}
	heal()
	if err := errors.Join(errs...); err != nil {
		f.Errorf("%s: a put into one of groups %v: %v", x.name, led, err)
	}
	f.note("healed after %v", took)
	return took, began
}

// putOne stores one record with what a client has by default.
func (f *farm) putOne(ctx context.Context, node int, device, capNs int64) error {
	c := f.client(node)
	defer func() { _ = c.Close() }()
	return putThrough(ctx, c, device, capNs)
}

func putThrough(ctx context.Context, c *client.Client, device, capNs int64) error {
	w := c.NewWriter(client.WriterOptions{})
	err := w.Add(ctx, record.Key{CID: 1, MID: device, MOID: 1, CapNs: capNs}, []byte{1})
	if err != nil {
		return err
	}
	return w.Close(ctx)
}

// led returns the groups of slots that a node leads.
func (f *farm) led(i int) (groups []int) {
	v, err := f.view(i)
	if err != nil {
		return nil
	}
	for _, g := range v.Groups {
		if g.Group > 0 && g.Leader == v.Node {
			groups = append(groups, int(g.Group)-1)
		}
	}
	return groups
}

// devicesOfGroups finds a device of each group by asking each for what it has of many.
func (f *farm) devicesOfGroups(ctx context.Context) []int64 {
	f.Helper()
	b := &record.Batch{}
	for i := range int64(64 * groupsOfFarm) {
		b.Append(record.Key{CID: 1, MID: i << 8, MOID: 1, CapNs: 1}, []byte{1})
	}
	c := f.client(0)
	defer func() { _ = c.Close() }()
	f.until("a put is answered", func() bool {
		_, err := c.Put(ctx, b, [16]byte{0xdd}, 1)
		return err == nil
	})
	out := make([]int64, groupsOfFarm)
	for g, nodes := range f.replicas() {
		of := f.client(nodes[0]).OfGroups([]int{g + 1})
		f.until("a group tells a device of its", func() bool {
			for r, err := range of.Query(ctx, &record.Query{}) {
				if err != nil {
					return false
				}
				out[g] = r.MID
			}
			return out[g] != 0
		})
		_ = of.Close()
	}
	return out
}
