package cluster_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// killsOfLeaders are enough for a median.
const killsOfLeaders = 10

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
	}
	for kill := 0; kills < enough && kill < 3*enough; kill++ {
		f.until("the cluster is well", f.settled)
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

// putOne stores one record with what a client has by default.
func (f *farm) putOne(ctx context.Context, node int, device, capNs int64) error {
	c := f.client(node)
	defer func() { _ = c.Close() }()
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
		of := f.client(nodes[0]).OfGroups([]int{g})
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
