package clock

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	// keptSamples is the number of round trips with a node that are stored, of which the fastest
	// counts, as in the clock filter of NTP: its error is at most half its duration.
	keptSamples = 8
	// driftPerSec is how far two monotonic clocks may diverge in a second, in ns: 200 ppm.
	driftPerSec = 200_000
	// heardFor is how long a node counts as heard after its last answer.
	heardFor = 5 * time.Second
	// agreeFor is how long a majority must agree with a clock that has stepped while it ran.
	agreeFor = 5 * time.Second
	// offFor is how long a verdict against a clock holds at least, so that leadership does not
	// flap.
	offFor = 5 * time.Second
	// maxPeers bounds the nodes that are remembered, forgetAfter for how long without a word.
	maxPeers    = 256
	forgetAfter = 10 * time.Minute
)

// Peer is what is known of the clock of another node.
type Peer struct {
	Node          uint64
	OffsetNs      int64 // its wall clock is ahead of the one here by this
	UncertaintyNs int64 // the offset may be wrong by as much
	Stepped       bool  // its wall clock has stepped, and it does not follow it yet
	Off           bool  // it says that others contradict its clock: it leaves leadership to others
	AgoNs         int64 // since it answered last
}

// peers are the clocks of other nodes, as far as this one has heard of them. The clock's mutex
// guards them.
type peers struct {
	boot  uint64 // of this process
	nodes int    // of the cluster, this one included; 0: it is in none
	all   map[uint64]*peer

	verdict  Verdict
	judgedAt int64
	sure     bool  // a majority confirms the time that is followed, or did since the process began
	agreesAt int64 // since when a majority of all agree with the wall clock; 0: they do not
	offAt    int64 // since when the verdict has been against the clock; 0: it is not
	badAt    int64 // when it was last Off or Odd
	oddAt    int64 // since when it has been Odd; 0: it is not
}

// peer is one other node.
type peer struct {
	boot    uint64 // of the process there, whose monotonic clock it is
	samples [keptSamples]sample
	count   int
	heardNs int64 // on the monotonic clock here

	wall, now int64 // offsets of its clocks from its monotonic one, as it said last
	stepped   bool
	behind    bool
	off       bool
	sure      bool
}

// sample is one round trip.
type sample struct {
	apartNs int64 // its monotonic clock is ahead of the one here by this
	delayNs int64
	atNs    int64 // on the monotonic clock here
}

func (s sample) uncertainty(monotonic int64) int64 {
	return s.delayNs/2 + (monotonic-s.atNs)/int64(time.Second)*driftPerSec
}

func (p *peers) begin() {
	p.boot, p.all = drawBoot(), map[uint64]*peer{}
}

// add notes a round trip with a node.
func (p *peers) add(node uint64, boot uint64, s sample) *peer {
	one := p.all[node]
	if one == nil {
		if len(p.all) >= maxPeers {
			return nil
		}
		one = &peer{}
		p.all[node] = one
	}
	if one.count > 0 {
		best := one.best(s.atNs)
		most := best.uncertainty(s.atNs) + s.uncertainty(s.atNs) + driftPerSec
		if one.boot != boot || !near(s.apartNs, best.apartNs, most) {
			one.count = 0 // it was started again, or one of the machines has slept
		}
	}
	one.boot, one.heardNs = boot, s.atNs
	one.samples[one.count%keptSamples] = s
	if one.count++; one.count == 2*keptSamples {
		one.count = keptSamples
	}
	return one
}

// best returns the sample that says most.
func (p *peer) best(monotonic int64) sample {
	return slices.MinFunc(p.samples[:min(p.count, keptSamples)], func(a, b sample) int {
		return cmp.Compare(a.uncertainty(monotonic), b.uncertainty(monotonic))
	})
}

// heard returns the clocks of the nodes that have answered recently.
func (p *peers) heard(monotonic int64) (out []opinion) {
	for _, node := range slices.Sorted(maps.Keys(p.all)) { // the same judgement each time
		one := p.all[node]
		if monotonic-one.heardNs > int64(forgetAfter) {
			delete(p.all, node)
		}
		if monotonic-one.heardNs <= int64(heardFor) {
			best := one.best(monotonic)
			out = append(out, opinion{best.apartNs + one.wall, best.apartNs + one.now,
				best.uncertainty(monotonic), one.stepped, one.behind, one.sure})
		}
	}
	return out
}

// SetNodes says how many nodes the cluster has, this one included; 0: it is in none yet.
func (c *Clock) SetNodes(count int) {
	if c.given != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peers.nodes = count
	c.publishVerdict()
}

// Judge compares the clock with those of the nodes that were heard lately, and lets it follow its
// wall clock, or a majority of the others, where they say so. It is called every second.
func (c *Clock) Judge() Verdict {
	if c.given != nil {
		return Agrees
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.judge()
}

// judge is Judge; the caller holds mu.
func (c *Clock) judge() Verdict {
	c.look()
	p := &c.peers
	wall, monotonic := c.read()
	own := opinion{wall: wall - monotonic, now: c.anchor.Load(), stepped: c.stepped,
		behind: c.behind(wall), sure: p.sure}
	if !c.stepped {
		own.now = own.wall
	}
	j := judge(own, p.heard(monotonic), p.nodes, c.boundNs)
	if p.nodes <= 1 { // alone: what others say is none of its cluster's
		j = judgement{verdict: Unknown, follows: own.now, sure: p.nodes == 1 && !c.opening}
	}
	p.note(j, monotonic)
	switch {
	case !j.majority:
		if p.sure = j.sure; j.follows != own.now {
			c.adopt(j.follows, j.sure)
		}
	case !c.stepped:
		c.accept(own.wall)
		p.sure = true
	case !p.sure || monotonic-max(p.agreesAt, c.since) >= int64(agreeFor):
		c.followed++
		c.accept(own.wall)
		p.sure = true
	}
	c.publishVerdict()
	return p.verdict
}

// adopt makes time continue at an offset, which the wall clock may be far from. The caller holds
// mu.
func (c *Clock) adopt(offset int64, sure bool) {
	c.anchor.Store(offset)
	c.confirmed, c.settled = sure, true
	c.look()
}

// publishVerdict makes what follows from the verdict known to those that take no lock. The caller
// holds mu.
func (c *Clock) publishVerdict() {
	p := &c.peers
	fine, leads := true, true
	switch p.verdict {
	case Unknown: // what was confirmed before still is, whatever other nodes do
		fine = p.sure || p.nodes <= 1
		leads = p.sure && !c.stepped || p.nodes <= 1
	case Off, Odd:
		leads = false
	case Undecided:
		fine, leads = false, !p.othersLead()
	}
	c.heard.Store(p.verdict != Unknown)
	c.fine.Store(fine)
	c.leads.Store(leads)
}

// othersLead reports whether a node whose clock no other one contradicts was among those that were
// heard last. Where there is none, all are as undecided as this one: then one of them leads what
// needs no acq, and reads go on.
func (p *peers) othersLead() bool {
	for _, one := range p.all {
		if p.isRecent(one) && !one.off {
			return true
		}
	}
	return false
}

// isRecent reports whether a node counted at the last judgement.
func (p *peers) isRecent(one *peer) bool { return p.judgedAt-one.heardNs <= int64(heardFor) }

// note makes a judgement the verdict; one against the clock holds for some seconds.
func (p *peers) note(j judgement, monotonic int64) {
	p.judgedAt = monotonic
	if !j.majority {
		p.agreesAt = 0
	} else if p.agreesAt == 0 {
		p.agreesAt = max(monotonic, 1)
	}
	bad := j.verdict == Off || j.verdict == Odd
	switch {
	case bad:
		p.badAt = monotonic
	case (p.verdict == Off || p.verdict == Odd) && monotonic-p.badAt < int64(offFor) &&
		j.verdict != Undecided:
		return // it was off a moment ago
	}
	if !j.verdict.against() {
		p.offAt = 0
	} else if p.offAt == 0 {
		p.offAt = max(monotonic, 1)
	}
	if j.verdict != Odd {
		p.oddAt = 0
	} else if p.oddAt == 0 {
		p.oddAt = max(monotonic, 1)
	}
	p.verdict = j.verdict
}

// MayLead reports whether this node may lead groups: the other nodes that it hears do not
// contradict its clock, or not one of them is better off. One that has heard none since it was
// started waits: else it could be elected, and give acqs, in the moment before it hears them.
func (c *Clock) MayLead() bool { return c.given != nil || c.leads.Load() }

// Heard reports whether other nodes have told their clocks lately.
func (c *Clock) Heard() bool { return c.given != nil || c.heard.Load() }

// Stamp returns the time to begin acqs with. It is false while clocks differ and nothing says which
// one is right, or none has confirmed it and none is heard: then it must not be used, but by a node
// that needs no other one.
func (c *Clock) Stamp() (nowNs int64, ok bool) {
	if c.given != nil {
		return c.given(), true
	}
	return c.NowNs(), c.fine.Load()
}

// OddFor returns for how long this node has been the odd one out.
func (c *Clock) OddFor() time.Duration {
	if c.given != nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peers.oddAt == 0 {
		return 0
	}
	_, monotonic := c.read()
	return time.Duration(monotonic - c.peers.oddAt)
}

// describe adds to a state what is known of other nodes.
func (p *peers) describe(s *State, offset, monotonic int64) {
	s.Verdict = p.verdict
	if p.offAt != 0 {
		s.OffForNs = monotonic - p.offAt
	}
	for node, one := range p.all {
		best := one.best(monotonic)
		s.Peers = append(s.Peers, Peer{Node: node, OffsetNs: best.apartNs + one.wall - offset,
			UncertaintyNs: best.uncertainty(monotonic), Stepped: one.stepped, Off: one.off,
			AgoNs: monotonic - one.heardNs})
	}
	slices.SortFunc(s.Peers, func(a, b Peer) int { return cmp.Compare(a.Node, b.Node) })
}
