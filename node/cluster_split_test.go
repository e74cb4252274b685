package node

import (
	"context"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

// follower reads all changes and remembers how often each record came.
type follower struct {
	mu   sync.Mutex
	seen map[record.Key]int
	last int64
	wg   sync.WaitGroup
}

// follow starts a reader of everything that comes, through a node that stays.
func (c *nodesTogether) follow(n *Node) (f *follower, stop func()) {
	f = &follower{seen: map[record.Key]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	f.wg.Go(func() {
		for from := int64(0); ctx.Err() == nil; {
			to, err := n.Changes(ctx, &record.Query{}, from, true, func(s *store.Slice) error {
				f.mu.Lock()
				defer f.mu.Unlock()
				if s.ClosedNs < f.last {
					c.Errorf("the feed is at %d, and was at %d", s.ClosedNs, f.last)
				}
				f.last = s.ClosedNs
				for i := range s.Rows.Len() {
					k := s.Rows.Key(i)
					k.AcqNs = 0
					f.seen[k]++
				}
				return nil
			})
			if from = to; err != nil && ctx.Err() == nil {
				c.Logf("the feed goes on after %v", err)
			}
		}
	})
	return f, func() {
		cancel()
		f.wg.Wait()
	}
}

// once waits until that many records came, and wants each once.
func (f *follower) once(c *nodesTogether, want int) {
	c.Helper()
	c.until("a reader of changes has everything", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.seen) >= want
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	twice := 0
	for _, n := range f.seen {
		twice += n - 1
	}
	if len(f.seen) != want || twice > 0 {
		c.Errorf("a reader of changes saw %d records, %d of them again; %d were acknowledged",
			len(f.seen), twice, want)
	}
}

// split splits a group, or all of them, and waits until all nodes know that many groups.
func (c *nodesTogether) split(n *Node, group cluster.GroupID, groups int) {
	c.Helper()
	c.until("a split is decided", func() bool {
		if n.member.Load().View().DataGroups() >= groups {
			return true
		}
		p, err := dial(c.T, n).SplitGroup(c.Context(), uint32(group), false)
		if err != nil {
			c.Log(err)
		}
		return err == nil && p.Changed
	})
	c.until("all have the groups", func() bool {
		for _, n := range c.nodes {
			if v := n.member.Load().View(); v.DataGroups() != groups {
				return false
			}
		}
		return true
	})
}

// parted reports whether all splits have come to their ends.
func (c *nodesTogether) parted() bool {
	for _, n := range c.nodes {
		v := n.member.Load().View()
		for g := range v.Groups {
			if v.Splitting(cluster.GroupID(g)) {
				return false
			}
		}
	}
	return true
}

func TestAClusterSplitsUnderLoad(t *testing.T) {
	c := openTogether(t, 3, 1)
	l := c.startLoad(c.nodes[1], c.nodes[2])
	f, stop := c.follow(c.nodes[2])
	defer stop()
	l.goesOn()

	var p api.ClusterPreview
	c.eventually("a split would be possible", func() (err error) {
		p, err = dial(t, c.nodes[1]).SplitGroup(t.Context(), 0, true)
		return err
	})
	if len(p.Running) != 1 || c.nodes[1].member.Load().View().DataGroups() != 1 {
		t.Fatalf("dry run: %+v", p)
	}
	c.split(c.nodes[1], 0, 2)
	l.goesOn()
	c.until("all parts have begun", func() bool { return c.parted() && c.settled(3) })
	c.split(c.nodes[2], 2, 3)
	l.goesOn()
	c.until("all parts have begun", func() bool { return c.parted() && c.settled(3) })

	box := record.Box{record.MID: {{From: 0, To: 100 * 256}}}
	for _, b := range []record.Box{{record.CID: {record.At(9)}}, box} {
		c.eventually("an erase", func() error {
			_, err := c.nodes[0].Erase(t.Context(), b)
			return err
		})
	}
	close(l.stop)
	l.wg.Wait()
	want := int(l.stored.Load())
	for i, n := range c.nodes {
		c.until("a node has what was acknowledged", func() bool {
			return c.count(n, &record.Query{}) >= uint64(want)
		})
		if got := c.count(n, &record.Query{}); got != uint64(want) {
			t.Errorf("node %d counts %d, %d were acknowledged", i, got, want)
		}
	}
	f.once(c, want)
	c.sameReplicas()
}

// A node that is killed at a split, and one that was down, get to where the others are.
func TestAClusterSplitsWithoutANode(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters do the same under load")
	c := openTogether(t, 3, 1)
	l := c.startLoad(c.nodes[1], c.nodes[2])
	f, stop := c.follow(c.nodes[2])
	defer stop()
	l.goesOn()
	all := c.nodes
	c.stop(0) // it led most
	c.nodes = all[1:]
	c.split(c.nodes[0], 1, 2)
	l.goesOn()
	c.nodes = all
	c.options[0].Cluster.Init, c.options[0].Cluster.Groups = false, 0
	c.nodes[0] = openTest(t, c.options[0])
	c.until("the node is back", func() bool { return c.settled(3) && c.parted() })
	c.split(c.nodes[1], 1, 3)
	c.stop(0) // wherever it is
	l.goesOn()
	c.nodes[0] = openTest(t, c.options[0])
	c.until("the node is back", func() bool { return c.settled(3) && c.parted() })
	l.goesOn()
	f.once(c, func() int {
		l.end()
		return int(l.stored.Load())
	}())
}

// A query that is handing over rows while its group is split gets all of them, as it began with
// all: no client has to retry.
func TestAQueryOutlivesASplit(t *testing.T) {
	const rows = 20_000
	c := openTogether(t, 3, 1)
	c.put(c.nodes[0], readings(0, rows), store.WriterSeq{ID: [16]byte{1}, Seq: 1})
	c.sameReplicas()
	began, split := make(chan struct{}, len(c.nodes)), make(chan struct{})
	errs, got := make([]error, len(c.nodes)), make([]int, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() {
			_, errs[i] = n.Query(t.Context(), &record.Query{}, func(b *record.Batch) error {
				if got[i] == 0 {
					began <- struct{}{}
					<-split
				}
				got[i] += b.Len()
				return nil
			})
		})
	}
	for range c.nodes {
		<-began
	}
	c.split(c.nodes[1], 0, 2)
	for _, n := range c.nodes {
		c.until("a replica has parted", func() bool {
			s := n.member.Load().Stores()[1]
			return s != nil && s.Slots().To != 0
		})
	}
	close(split)
	wg.Wait()
	for i := range c.nodes {
		if errs[i] != nil || got[i] != rows {
			t.Errorf("node %d handed over %d of %d rows: %v", i, got[i], rows, errs[i])
		}
	}
}
