package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pentad-db/pentad/bench/process"
)

const (
	barIdleNine = 0.014 // of a core
	barIdle64   = 0.04
	// restFor is until groups rest after a start: their horizons are moved less often then, and
	// nodes have prepared what they keep ready.
	restFor = 20 * time.Second
)

// idle measures what processes of nodes take while nothing is asked of them: a node by itself and
// the nodes of clusters, which have their stores, TLS and gossip.
func (c *clusterRun) idle(ctx context.Context) error {
	for _, one := range []struct {
		name          string
		nodes, groups int
		bar           float64
	}{
		{"idle, a node by itself", 1, 0, barIdle},
		{"idle, 9 groups on three nodes", 3, 8, barIdleNine}, // the one of the cluster's state, too
		{"idle, 64 groups on three nodes", 3, 64, barIdle64},
	} {
		cores, switches, err := c.atRest(ctx, one.nodes, one.groups)
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		mean := 0.0
		for _, n := range cores {
			mean += n / float64(len(cores))
		}
		if len(cores) > 1 {
			c.figures.Add(one.name+", a node on the average", mean, "cores")
			c.figures.AtMost(one.name+", the busiest node", slices.Max(cores), "cores", one.bar)
		} else {
			c.figures.AtMost(one.name, mean, "cores", one.bar)
		}
		c.figures.Add(one.name+", switches of threads of a node", switches, "1/s")
	}
	return nil
}

// atRest starts nodes and returns which share of a core each takes once they rest, and how often
// each switches threads in a second, on the average.
func (c *clusterRun) atRest(
	ctx context.Context, nodes, groups int,
) (cores []float64, switches float64, err error) {
	s, err := c.startSide(ctx, nodes, nodes > 1, groups)
	defer func() { err = errors.Join(err, c.remove(s)) }()
	if err == nil {
		err = pause(ctx, restFor)
	}
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	used, woken, err := s.spent()
	if err == nil {
		err = pause(ctx, c.idleFor)
	}
	if err != nil {
		return nil, 0, err
	}
	took := time.Since(began).Seconds()
	usedThen, wokenThen, err := s.spent()
	for i := range used {
		cores = append(cores, (usedThen[i]-used[i]).Seconds()/took)
		switches += float64(wokenThen[i]-woken[i]) / took / float64(nodes)
	}
	return cores, switches, err
}

// spent returns the processor time of each node so far, and how often it switched threads.
func (s *side) spent() (used []time.Duration, woken []int64, err error) {
	for _, n := range s.nodes {
		cpu, err1 := process.CPU(n.cmd.Process.Pid)
		switches, err2 := process.Switches(n.cmd.Process.Pid)
		used, woken = append(used, cpu), append(woken, switches)
		err = errors.Join(err, err1, err2)
	}
	return used, woken, err
}
