package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// What is promised of a cluster that loses a node, or the disk of one.
const (
	barOutage        = 0.8 // s, median
	barLongestOutage = 1.5 // s
	barFreeze        = 0.8 // s, longest
	barCaughtUp      = 20  // s
	barRestart       = 3   // s

	probed = 64 // devices that are written to while a node is harmed
	// noOutage is what a put may take while nothing is wrong: shorter than any election.
	noOutage = 300 * time.Millisecond

	killedFor  = 6 * time.Second
	frozenFor  = 8 * time.Second
	freezes    = 3
	frozenNode = 1 // whose disk stands still
)

// prober puts readings of one device, as a writer with its default retries does.
func prober(db *client.Client, device int) func(context.Context) error {
	return func(ctx context.Context) error {
		w := db.NewWriter(client.WriterOptions{})
		err := w.Add(ctx, record.Key{CID: 1, MID: int64(device) << 8, MOID: 1,
			CapNs: time.Now().UnixNano()}, make([]byte, system.NumberBytes))
		return errors.Join(err, w.Close(ctx))
	}
}

// outages writes to devices of all groups through all nodes but one, which is harmed meanwhile, and
// returns how long those devices had no answer that waited longer than usual.
func (s *side) outages(
	ctx context.Context, victim int, harm func() error, lasts time.Duration,
) (long []time.Duration, err error) {
	through := slices.Delete(slices.Clone(s.clients), victim, victim+1)
	var p probes
	defer func() { err = errors.Join(err, p.stop()) }()
	all := make([]int, probed)
	for i := range all {
		all[i] = i
		p.start(ctx, prober(through[i%len(through)], i))
	}
	if err := pause(ctx, 3*time.Second); err != nil {
		return nil, err
	}
	p.reset()
	if err := harm(); err != nil {
		return nil, err
	}
	if err := pause(ctx, lasts); err != nil {
		return nil, err
	}
	for _, gap := range p.longest(all) {
		if gap > noOutage {
			long = append(long, gap)
		}
	}
	return long, nil
}

// kill kills nodes of a cluster, one after the other, while devices of all groups are written to
// through the others.
func (c *clusterRun) kill(ctx context.Context, s *side) error {
	var outages []time.Duration
	for round := range c.rounds {
		victim := 1 + round%(len(s.nodes)-1)
		address := s.nodes[victim].addr
		long, err := s.outages(ctx, victim, func() error {
			killed := s.nodes[victim]
			s.nodes[victim] = nil
			return killed.kill()
		}, killedFor)
		outages = append(outages, long...)
		if err == nil {
			err = c.restart(ctx, s, victim, address)
		}
		if err == nil {
			err = s.ready(ctx)
		}
		if err != nil {
			return err
		}
	}
	slices.Sort(outages)
	c.say("%d kills, %d of %d devices had an outage", c.rounds, len(outages), c.rounds*probed)
	if len(outages) > 0 {
		c.figures.AtMost("outage after kill -9 of a leader, median",
			outages[len(outages)/2].Seconds(), "s", barOutage)
		c.figures.AtMost("outage after kill -9 of a leader, longest",
			outages[len(outages)-1].Seconds(), "s", barLongestOutage)
	}
	return nil
}

// freeze measures how long groups take no writes whose leader's disk stands still: the disk is a
// file system of its own, which takes root.
func (c *clusterRun) freeze(ctx context.Context) (err error) {
	s := &side{name: clusterName(3)}
	disk, err := mountDisk(ctx, c.nodeDir(s, frozenNode), filepath.Join(c.work, "frozen.img"))
	if err != nil {
		c.say("freeze is left out: %v", err)
		return nil
	}
	defer func() {
		err = errors.Join(err, disk.thaw(), s.stop(), disk.unmount(), c.remove(&side{name: s.name}))
	}()
	if s, err = c.startSide(ctx, 3, true, c.groups); err != nil {
		return err
	}
	var outages []time.Duration
	for range freezes {
		long, err := s.outages(ctx, frozenNode, disk.freeze, frozenFor)
		outages = append(outages, long...)
		if err = errors.Join(err, disk.thaw()); err == nil {
			err = s.ready(ctx)
		}
		if err != nil {
			return err
		}
	}
	slices.Sort(outages)
	c.say("a disk that stands still for %v, %d times: %d of %d devices had an outage", frozenFor,
		freezes, len(outages), freezes*probed)
	if len(outages) > 0 {
		c.figures.Add("outage when a leader's disk freezes, median",
			outages[len(outages)/2].Seconds(), "s")
		c.figures.AtMost("outage when a leader's disk freezes, longest",
			outages[len(outages)-1].Seconds(), "s", barFreeze)
	}
	return nil
}

// behind measures how long a node takes to catch up with what others stored while it was away, and
// then to start with all of that.
func (c *clusterRun) behind(ctx context.Context) (err error) {
	const late = 2
	s, err := c.startSide(ctx, 3, true, c.groups)
	defer func() { err = errors.Join(err, c.remove(s)) }()
	if err != nil {
		return err
	}
	address := s.nodes[late].addr
	stop := func() error {
		n := s.nodes[late]
		s.nodes[late] = nil
		return n.stop()
	}
	if err := stop(); err != nil {
		return err
	}
	if err := s.put(ctx, s.clients[:late], randomRecords(c.mb)); err != nil {
		return err
	}
	took, err := c.catchUp(ctx, s, late, address)
	if err != nil {
		return err
	}
	c.figures.AtMost(fmt.Sprintf("start after %d MB were missed, until all are applied", c.mb),
		took.Seconds(), "s", barCaughtUp)
	if err := stop(); err != nil {
		return err
	}
	if took, err = c.catchUp(ctx, s, late, address); err != nil {
		return err
	}
	c.figures.AtMost(fmt.Sprintf("start with these %d MB, until all are applied", c.mb),
		took.Seconds(), "s", barRestart)
	return nil
}

// catchUp starts a node and returns how long it takes until its copies have applied all that others
// had when it was started.
func (c *clusterRun) catchUp(
	ctx context.Context, s *side, late int, address string,
) (time.Duration, error) {
	had, err := s.clients[0].ClusterGroups(ctx)
	if err != nil {
		return 0, err
	}
	wanted := map[int]uint64{}
	for _, group := range had {
		for _, copied := range group.Copies {
			wanted[int(group.Group)] = max(wanted[int(group.Group)], copied.Applied)
		}
	}
	began := time.Now()
	if err := c.restart(ctx, s, late, address); err != nil {
		return 0, err
	}
	for {
		took := time.Since(began)
		st, err := s.clients[late].Cluster(ctx)
		var groups []api.ClusterGroup
		if err == nil {
			groups, err = s.clients[late].ClusterGroups(ctx)
		}
		if err == nil && applied(groups, st.Node, wanted) {
			return took, nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// applied reports whether the copies of a node have applied so much.
func applied(groups []api.ClusterGroup, node string, wanted map[int]uint64) bool {
	done := 0
	for _, group := range groups {
		for _, copied := range group.Copies {
			if copied.Node == node && copied.Error == "" &&
				copied.Applied >= wanted[int(group.Group)] {
				done++
			}
		}
	}
	return done == len(wanted)
}
