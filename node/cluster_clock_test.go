package node

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// stepping is a machine whose wall clock a test steps.
type stepping struct {
	began  time.Time
	offset atomic.Int64
	synced bool
}

func (s *stepping) Read() (wallNs, monotonicNs int64) {
	now := time.Now()
	return now.UnixNano() + s.offset.Load(), int64(now.Sub(s.began))
}
func (s *stepping) SleptNs() int64     { return 0 }
func (s *stepping) Synchronized() bool { return s.synced }

// clockworks are the machines of a cluster.
type clockworks []*stepping

// inTurn returns what gives each node the next machine.
func (m clockworks) inTurn() func(opt *Options) {
	next := 0
	return func(opt *Options) {
		m.give(next, opt)
		next++
	}
}

func (m clockworks) give(i int, opt *Options) {
	m[i].began = time.Now()
	opt.Store.WallClock = clock.New(clock.Options{Machine: m[i]})
}

// has reports whether a node has a problem.
func has(n *Node, code string) bool {
	for _, p := range n.Problems() {
		if p.Code == code {
			return true
		}
	}
	return false
}

// leads returns how many groups a node leads.
func leads(n *Node) int {
	m := n.member.Load()
	return m.Figures(n.open, 0).Leads
}

// rightNow checks that an acq is of the present.
func (c *nodesTogether) rightNow(what string, acqNs int64) {
	c.Helper()
	if d := time.Since(time.Unix(0, acqNs)); d < -10*time.Second || d > 10*time.Minute {
		c.Errorf("%s: acq %s is %v old", what, record.FormatNs(acqNs), d)
	}
}

// A clock that steps on a node, whatever it leads, changes no acq and no answer: the node leads no
// groups and says so until the clock is right.
func TestClocksStepInACluster(t *testing.T) {
	rounds.NotUnderRace(t, "TestSimulatedCluster steps clocks, too")
	machines := clockworks{{}, {}, {}}
	c := openTogetherWith(t, 3, 4, machines.inTurn())
	if err := c.nodes[0].SetRetention(t.Context(), retention.Rule{
		MaxCapAgeNs: int64(60 * day)}); err != nil {
		t.Fatal(err)
	}
	total := uint64(0)
	put := func(n *Node) int64 {
		t.Helper()
		b := readings(int64(total), 100)
		for i := range b.CapNs {
			b.CapNs[i] = time.Now().Add(-day).UnixNano() + int64(i)
		}
		total += 100
		res := c.put(n, b, store.WriterSeq{})
		c.rightNow("put", res.LastAcqNs)
		return res.LastAcqNs
	}
	put(c.nodes[0])
	for i, step := range []time.Duration{year, -day} {
		wrong, last := c.nodes[i], int64(0)
		machines[i].offset.Store(int64(step))
		for range 20 { // in the moments after the step, too
			for _, n := range c.nodes {
				last = max(last, put(n))
			}
		}
		c.until("the node knows that its clock is wrong, and leads nothing", func() bool {
			return has(wrong, "clock_off") && leads(wrong) == 0
		})
		for _, n := range c.nodes {
			last = max(last, put(n))
		}
		c.until("another node knows which clock is wrong, and how far", func() bool {
			right := true
			for _, n := range c.nodes[(i+1)%3].member.Load().Status().Nodes {
				off := n.ID == self(wrong)
				right = right && n.ClockOff == off && (!off || n.ClockAheadNs != nil &&
					time.Duration(*n.ClockAheadNs).Round(time.Minute) == step)
			}
			return right
		})
		for k, n := range c.nodes {
			q := &record.Query{View: record.ViewAsOf, AsOfAcqNs: last + 1}
			if got := c.count(n, q); got != total {
				t.Errorf("step of %v on node %d: node %d counts %d, want %d", step, i, k, got,
					total)
			}
			c.fed(n, total)
			if k != i && (has(n, "clock_off") || has(n, "clock_stepped")) {
				t.Errorf("step of %v on node %d: node %d says %+v", step, i, k, n.Problems())
			}
		}
		if figure(t, wrong, "clock_off") != 1 || figure(t, wrong, "clock_steps_total") != 1 ||
			time.Duration(figure(t, wrong, "clock_step_seconds")*1e9).Round(time.Second) != step {
			t.Errorf("step of %v on node %d: metrics say %v", step, i, figure(t, wrong,
				"clock_step_seconds"))
		}
		if i > 0 {
			break
		}
		machines[i].offset.Store(0)
		c.until("the node knows that its clock is right", func() bool {
			return !has(wrong, "clock_off") && !has(wrong, "clock_stepped")
		})
	}
	c.sameReplicas()
}

// A node that is started with a wrong clock follows the others, and leads nothing.
func TestANodeStartsWithAWrongClock(t *testing.T) {
	machines := clockworks{{}, {}, {}}
	c := openTogetherWith(t, 3, 2, machines.inTurn())
	c.put(c.nodes[0], readings(0, 100), store.WriterSeq{})
	c.stop(0)
	c.options[0].Cluster.Init, c.options[0].Cluster.Groups = false, 0
	machines[0].offset.Store(int64(400 * day))
	machines.give(0, &c.options[0])
	c.nodes[0] = openTest(t, c.options[0])
	c.until("the node knows that its clock is wrong", func() bool {
		return has(c.nodes[0], "clock_off")
	})
	for i := range 10 {
		for _, n := range c.nodes {
			res := c.put(n, readings(int64(1000*(i+1)), 100), store.WriterSeq{})
			c.rightNow("put", res.LastAcqNs)
		}
	}
	c.until("the node follows the time of the others", func() bool {
		return time.Since(c.nodes[0].clock.Now()).Abs() < time.Minute
	})
	if got := leads(c.nodes[0]); got != 0 {
		t.Errorf("it leads %d groups", got)
	}
	c.sameReplicas()
}

// fed waits until a reader of changes from the beginning gets all records, each once.
func (c *nodesTogether) fed(n *Node, want uint64) {
	c.Helper()
	got := uint64(0)
	db := dial(c.T, n)
	c.until("a reader of changes has all", func() bool {
		got = 0
		err := db.ChangesOnce(c.Context(), &record.Query{}, 0, false, 0,
			func(b client.ChangeBatch) error {
				if b.Rows != nil {
					got += uint64(b.Rows.Len())
				}
				return nil
			})
		if err != nil {
			c.Log(err)
		}
		return err == nil && got >= want
	})
	if got != want {
		c.Errorf("a reader of changes got %d records, want %d", got, want)
	}
}
