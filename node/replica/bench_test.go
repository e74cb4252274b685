package replica

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// sink is a machine that counts, and calls everything durable so that the log is cut.
type sink struct {
	list
	applied atomic.Uint64
}

func (s *sink) Apply(entries []Entry, results []any) error {
	s.applied.Store(entries[len(entries)-1].Index)
	return nil
}

func (s *sink) Applied() uint64 { return s.applied.Load() }

func (s *sink) Durable() uint64 { return s.applied.Load() }

func benchCluster(b *testing.B, groups int) *cluster {
	c := newCluster(b, groups)
	for id := uint64(1); id <= 3; id++ {
		n := c.open(id)
		for g := range GroupID(groups) {
			err := n.Create(b.Context(), g+1, NewID(id, 1), c.voters(3))
			if err == nil {
				err = n.Start(g+1, &sink{})
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	for g := range GroupID(groups) {
		leader := c.leader(g+1, 1, 2, 3)
		c.nodes[leader].TransferLeader(g+1, NewID(uint64(g%3)+1, 1))
	}
	for g := range GroupID(groups) {
		c.propose(g+1, "begin", 1, 2, 3)
	}
	return c
}

func processorTime(b testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCommit lets three nodes in this process commit batches of 1,000 records of 60 bytes,
// four in progress in each group. All three share processors and disk.
func BenchmarkCommit(b *testing.B) {
	for _, groups := range []int{16, 64} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			c := benchCluster(b, groups)
			batch := bytes.Repeat([]byte("r"), 60_000)
			var left atomic.Int64
			left.Store(int64(b.N))
			before := processorTime(b)
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range 4 * groups {
				wg.Go(func() {
					group := GroupID(i%groups) + 1
					for left.Add(-1) >= 0 {
						c.propose(group, string(batch), 1, 2, 3)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			records := float64(b.N) * 1000
			b.ReportMetric(records/b.Elapsed().Seconds(), "records/s")
			cpu := (processorTime(b) - before).Seconds()
			b.ReportMetric(cpu/records*1e6, "cpu-s/Mrecord")
			b.ReportMetric(0, "ns/op")
			for id := range c.nodes {
				c.stop(id)
			}
		})
	}
}

// BenchmarkIdle measures what 64 groups cost that have nothing to do, in percent of a processor
// for each of three nodes.
func BenchmarkIdle(b *testing.B) {
	benchCluster(b, 64)
	before, start := processorTime(b), time.Now()
	for b.Loop() {
		<-time.After(time.Second)
	}
	used := float64(processorTime(b) - before)
	b.ReportMetric(100*used/float64(time.Since(start))/3, "%cpu/node")
}

// BenchmarkOutage stops a node and measures how long each group that it led takes no writes.
func BenchmarkOutage(b *testing.B) {
	const groups = 16
	c := newCluster(b, groups)
	c.boot(3)
	var outages []time.Duration
	for b.Loop() {
		for g := range GroupID(groups) {
			c.propose(g+1, "before", 1, 2, 3)
		}
		victim := c.leader(1, 1, 2, 3)
		rest := slices.DeleteFunc([]uint64{1, 2, 3}, func(id uint64) bool { return id == victim })
		var led []GroupID
		for g := range GroupID(groups) {
			if c.leader(g+1, 1, 2, 3) == victim {
				led = append(led, g+1)
			}
		}
		start := time.Now()
		c.stop(victim)
		var wg sync.WaitGroup
		var mu sync.Mutex
		for _, g := range led {
			wg.Go(func() {
				for done := false; !done; {
					for _, id := range rest {
						ctx, cancel := context.WithTimeout(b.Context(), time.Second)
						_, err := c.nodes[id].Propose(ctx, g, []byte("after"))
						cancel()
						done = done || err == nil
					}
					if !done {
						<-time.After(5 * time.Millisecond)
					}
				}
				mu.Lock()
				outages = append(outages, time.Since(start))
				mu.Unlock()
			})
		}
		wg.Wait()
		c.open(victim)
		for g := range GroupID(groups) {
			c.caughtUp(g+1, victim, c.leader(g+1, rest...))
		}
	}
	slices.Sort(outages)
	b.ReportMetric(float64(outages[len(outages)/2].Milliseconds()), "ms-p50")
	b.ReportMetric(float64(outages[len(outages)-1].Milliseconds()), "ms-max")
}
