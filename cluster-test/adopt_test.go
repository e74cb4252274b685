package cluster_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// growing is a node that becomes a cluster of three under load.
type growing struct {
	*testing.T
	nodes   []*process
	addrs   string // of all nodes, as a client takes them
	writers []*grower
	reader  *reader
}

// grower writes batches and keeps what it was answered.
type grower struct {
	writer
	replies []wire.PutReply // of batches from 1 on
}

// write stores batches until ctx ends, whatever becomes of the nodes.
func (w *grower) write(ctx context.Context, t *testing.T, addrs string) {
	for ctx.Err() == nil {
		c, err := client.Dial(ctx, addrs)
		if err != nil {
			pause(t, 10*time.Millisecond)
			continue
		}
		for err == nil {
			var reply wire.PutReply
			reply, err = c.Put(ctx, w.batch(w.next+1), w.id, w.next+1)
			if err != nil {
				break
			}
			if reply.Records != batchRecords {
				t.Errorf("batch %d: %d records are acknowledged", w.next+1, reply.Records)
			}
			w.replies = append(w.replies, reply)
			w.next++
			w.acked.Add(1)
			pause(t, 10*time.Millisecond) // what is stored is also copied and compared
		}
		_ = c.Close()
	}
}

// reader follows everything and goes on from the acq that it had, as a program does that keeps it.
type reader struct {
	closedNs int64
	lastNs   int64
	acqs     map[[3]int64]int64 // of each record by tenant, device and capture time
}

func (r *reader) follow(ctx context.Context, t *testing.T, addrs string, untilNs int64) {
	for ctx.Err() == nil {
		c, err := client.Dial(ctx, addrs)
		if err != nil {
			pause(t, 10*time.Millisecond)
			continue
		}
		for b, err := range c.ChangeBatches(ctx, &record.Query{}, r.closedNs) {
			if err != nil {
				t.Logf("follow: %v", err) // it begins again
				break
			}
			for i := 0; b.Rows != nil && i < b.Rows.Len(); i++ {
				k := b.Rows.Key(i)
				at := [3]int64{int64(k.CID), k.MID, k.CapNs}
				if old, known := r.acqs[at]; known || k.AcqNs < r.lastNs || k.AcqNs < r.closedNs {
					t.Errorf("%v: acq %d, known as %d, after %d", k, k.AcqNs, old, r.lastNs)
				}
				r.acqs[at], r.lastNs = k.AcqNs, k.AcqNs
			}
			if r.closedNs = b.ClosedNs; r.closedNs >= untilNs {
				break
			}
		}
		_ = c.Close()
		if r.closedNs >= untilNs {
			return
		}
	}
}

// load writes and reads for a while, at the nodes that are up, and calls do meanwhile.
func (g *growing) load(do func()) {
	g.Helper()
	ctx, cancel := context.WithCancel(g.Context())
	var wg sync.WaitGroup
	for _, w := range g.writers {
		wg.Go(func() { w.write(ctx, g.T, g.addrs) })
	}
	wg.Go(func() { g.reader.follow(ctx, g.T, g.addrs, record.Acq.Max()) })
	var before []uint64
	for _, w := range g.writers {
		before = append(before, w.acked.Load())
	}
	do()
	for i, w := range g.writers {
		for w.acked.Load() < before[i]+5 && !g.Failed() { // a slow machine takes longer
			pause(g.T, 50*time.Millisecond)
		}
	}
	cancel()
	wg.Wait()
}

// up starts a node and waits until it answers.
func (g *growing) up(i int) {
	g.Helper()
	g.nodes[i].start(g.T)
}

// until waits for what the cluster says.
func (g *growing) until(what string, ok func(c *client.Client) bool) {
	g.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		if c, err := client.Dial(g.Context(), g.addrs); err == nil {
			done := ok(c)
			_ = c.Close()
			if done {
				return
			}
		}
		if time.Now().After(deadline) {
			g.Fatalf("waited %v until %s", startTimeout, what)
		}
		pause(g.T, 50*time.Millisecond)
	}
}

// TestKilledNodeGrowsToThree takes the path of every user: a node is written to and followed, is
// stopped, becomes the first of a cluster, which is killed now and then meanwhile, two others join,
// and one is lost. Every record that was acknowledged is there once, with the acq that it had; the
// follower goes on from its acq; what the node was told is told still.
func TestKilledNodeGrowsToThree(t *testing.T) {
	t.Parallel() // it waits most of the time
	kills := 3
	if text := os.Getenv("PENTAD_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d kills", seed, kills)
	rng := rand.New(rand.NewPCG(seed, 3))
	g := &growing{T: t, reader: &reader{acqs: map[[3]int64]int64{}},
		writers: []*grower{{writer: writer{id: [16]byte{1}, cid: 0}},
			{writer: writer{id: [16]byte{2}, cid: 1}}}}
	bin, gossip := build(t), freeAddress(t)
	token := filepath.Join(t.TempDir(), "token")
	writeToken(t, bin, token)
	var addrs []string
	for i := range 3 {
		n := &process{bin: bin, dir: t.TempDir(), addr: freeAddress(t)}
		t.Cleanup(n.kill)
		if i > 0 {
			n.args = []string{"--cluster-token", token, "--join", gossip, "--gossip-listen",
				freeAddress(t), "--raft-listen", freeAddress(t)}
		}
		g.nodes, addrs = append(g.nodes, n), append(addrs, n.addr)
	}
	g.addrs = strings.Join(addrs, ",")
	first := g.nodes[0]
	g.up(0)
	g.tell()
	g.load(func() { pause(t, 300*time.Millisecond) })
	first.kill() // as hard as a stop can be
	first.args = []string{"--cluster-token", token, "--cluster-init", "--groups", "4",
		"--gossip-listen", gossip, "--raft-listen", freeAddress(t)}
	for range kills { // somewhere on the way, or after it
		first.launch(t)
		pause(t, time.Duration(rng.IntN(800))*time.Millisecond)
		first.kill()
	}
	g.load(func() { g.up(0) })
	g.told()
	g.load(func() {
		g.up(1)
		g.up(2)
		g.until("all groups have three copies", func(c *client.Client) bool {
			return copies(t.Context(), c) == 3
		})
	})
	g.load(func() { first.kill() })
	g.told()
	g.check()
}

// tell gives the node what is not records.
func (g *growing) tell() {
	g.Helper()
	moid := int32(77)
	g.until("the node is told", func(c *client.Client) bool {
		err := c.SetQuantity(g.Context(), client.Quantity{MOID: 1, Name: "energy", Type: "f64"})
		if err == nil {
			_, err = c.CommitCursor(g.Context(), "mirror", 1000, false)
		}
		if err == nil {
			err = c.SetRetention(g.Context(), client.Retention{MOID: &moid,
				MaxCapAgeNs: int64(time.Hour)})
		}
		return err == nil
	})
}

// told compares what is not records with what the node was told.
func (g *growing) told() {
	g.Helper()
	g.until("the cluster knows what the node was told", func(c *client.Client) bool {
		quantities, err := c.Quantities(g.Context())
		cursor, err2 := c.Cursor(g.Context(), "mirror")
		policies, err3 := c.Retention(g.Context())
		if err != nil || err2 != nil || err3 != nil {
			return false
		}
		if len(quantities) != 1 || quantities[0].Name != "energy" || cursor.AcqNs != 1000 ||
			len(policies) != 1 || policies[0].MaxCapAgeNs != int64(time.Hour) {
			g.Errorf("quantities %v, cursor %v, policies %v", quantities, cursor, policies)
		}
		return true
	})
}

// copies returns the least number of voters that a group has, 0 when one has no leader.
func copies(ctx context.Context, c *client.Client) int {
	groups, err := c.ClusterGroups(ctx)
	if err != nil || len(groups) == 0 {
		return 0
	}
	least := 3
	for _, s := range groups {
		voters, leads := 0, 0
		for _, x := range s.Copies {
			if !x.Learner {
				voters++
			}
			if x.Leads {
				leads++
			}
		}
		if least = min(least, voters); leads != 1 || s.Moves != "" {
			return 0
		}
	}
	return least
}

// check compares what is stored with what was acknowledged and followed.
func (g *growing) check() {
	g.Helper()
	acqs := map[[3]int64]int64{}
	var horizon int64
	g.until("all is counted", func(c *client.Client) bool {
		clear(acqs)
		last := int64(0)
		for _, w := range g.writers {
			last = max(last, w.replies[len(w.replies)-1].LastAcqNs)
		}
		var err error
		if horizon, err = c.After(last).Horizon(g.Context(), nil); err != nil || horizon <= last {
			return false
		}
		for r, err := range c.After(last).Query(g.Context(), &record.Query{}) {
			at := [3]int64{int64(r.CID), r.MID, r.CapNs}
			if _, twice := acqs[at]; twice {
				g.Errorf("%v is stored twice", r.Key)
			}
			if acqs[at] = r.AcqNs; err != nil {
				g.Log(err)
				return false
			}
		}
		return true
	})
	ctx, cancel := context.WithTimeout(g.Context(), startTimeout)
	defer cancel()
	g.reader.follow(ctx, g.T, g.addrs, horizon)
	for at, acq := range acqs {
		if g.reader.acqs[at] != acq {
			g.Fatalf("%v has acq %d, and came to the follower with %d", at, acq, g.reader.acqs[at])
		}
	}
	for _, w := range g.writers {
		for i, reply := range w.replies {
			for mid := range int64(batchRecords) {
				at := [3]int64{int64(w.cid), mid << 8, int64(i + 1)}
				if a := acqs[at]; a < reply.FirstAcqNs || a > reply.LastAcqNs {
					g.Fatalf("%v has acq %d, and was acknowledged with %d to %d", at, a,
						reply.FirstAcqNs, reply.LastAcqNs)
				}
				delete(acqs, at)
			}
		}
	}
	for at := range acqs { // of batches in flight at the end
		if w := g.writers[at[0]]; at[2] != int64(w.next+1) {
			g.Fatalf("%v is stored, and was never sent", at)
		}
	}
	g.Logf("%d and %d batches", len(g.writers[0].replies), len(g.writers[1].replies))
}
