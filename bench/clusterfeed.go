package main

import (
	"context"
	"errors"
)

const (
	barClusterFeedP50 = 20.0 // ms from the acknowledgement to a follower
	barClusterFeedP99 = 150.0
)

// feed measures how late a follower of a node of a cluster is, while batches of a few devices are
// put through all nodes, so that most groups are idle. Then it does the same without a follower,
// for what the nodes take.
func (c *clusterRun) feed(ctx context.Context) (err error) {
	s, err := c.startSide(ctx, 3, true, c.groups)
	defer func() { err = errors.Join(err, c.remove(s)) }()
	if err == nil {
		err = pause(ctx, restFor)
	}
	if err != nil {
		return err
	}
	l := lateness{follower: s.clients[0], writers: s.clients, putters: putters, rate: c.rate,
		lasts: c.feedFor}
	before, err := s.processor()
	if err != nil {
		return err
	}
	took, err := l.measure(ctx)
	if err != nil {
		return err
	}
	followed, err := s.processor()
	if err == nil {
		err = l.put(ctx)
	}
	if err != nil {
		return err
	}
	alone, err := s.processor()
	if err != nil {
		return err
	}
	text, p50, p99 := l.tell(took)
	c.say("%d groups, %d records a second: %s", c.groups, c.rate, text)
	c.figures.AtMost("feed of a cluster, acknowledged to arrived, p50", p50, "ms",
		barClusterFeedP50)
	c.figures.AtMost("feed of a cluster, acknowledged to arrived, p99", p99, "ms",
		barClusterFeedP99)
	cores := c.feedFor.Seconds() * float64(len(s.nodes))
	c.figures.Add("feed of a cluster, each node while it is followed",
		(followed-before).Seconds()/cores, "cores")
	c.figures.Add("feed of a cluster, each node while it is not", (alone-followed).Seconds()/cores,
		"cores")
	return nil
}
