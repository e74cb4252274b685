package clock

import (
	"cmp"
	"slices"
)

// Verdict is what the clocks of the other nodes say of the one here.
type Verdict uint8

// Verdicts.
const (
	// Unknown: the node is alone, or has heard no other one lately.
	Unknown Verdict = iota
	// Agrees: it is within the bound of the time that is right as far as is known.
	Agrees
	// Off: it is not, and the node follows another time, which a majority confirmed before.
	Off
	// Odd: it is not, and a majority of all nodes of the cluster agree with one another now.
	Odd
	// Undecided: clocks that are heard differ, and nothing says which of them is right.
	Undecided
)

// String returns the verdict in one word.
func (v Verdict) String() string {
	switch v {
	case Agrees:
		return "agrees"
	case Off:
		return "off"
	case Odd:
		return "odd one out"
	case Undecided:
		return "undecided"
	}
	return "unknown"
}

// against reports whether a node with this verdict should leave leadership to others.
func (v Verdict) against() bool { return v == Off || v == Odd || v == Undecided }

// opinion is the clock of a node, as offsets from the monotonic clock here.
type opinion struct {
	wall        int64
	now         int64 // what the node follows
	uncertainty int64
	stepped     bool // now is not wall
	behind      bool // its log has acqs that are later than wall
	sure        bool // a majority has confirmed now
}

// judgement is what follows from some clocks.
type judgement struct {
	verdict  Verdict
	majority bool  // of all nodes, whose wall clocks agree with the one here
	follows  int64 // the offset that is right as far as is known
	sure     bool  // a majority has confirmed it
}

// judge compares the clock of a node with those that it hears. Nodes is how many the cluster has.
//
// The strongest evidence is a majority of all nodes whose wall clocks agree now: of any two
// majorities, one node is in both, so while most clocks are right such a majority is. Without one,
// a time counts that a majority confirmed before: a process counts on from there by its monotonic
// clock, whatever its wall clock does, and one that was started since takes it from another node.
// Without that, clocks count as long as they agree. Where they differ nothing is followed: an acq
// that is too high is followed by none that is right.
func judge(own opinion, heard []opinion, nodes int, boundNs int64) judgement {
	if len(heard) == 0 {
		return judgement{verdict: Unknown, follows: own.now, sure: own.sure}
	}
	nodes = max(nodes, len(heard)+1)
	var precise []opinion
	for _, o := range heard {
		if o.uncertainty <= boundNs { // a longer round trip proves nothing
			precise = append(precise, o)
		}
	}
	if (1+len(together(precise, own.wall, boundNs)))*2 > nodes {
		return judgement{verdict: Agrees, majority: true, follows: own.wall, sure: true}
	}
	for _, o := range precise {
		same := together(precise, o.wall, boundNs)
		if len(same)*2 <= nodes {
			continue
		}
		slices.SortFunc(same, func(a, b opinion) int { return cmp.Compare(a.wall, b.wall) })
		middle := same[(len(same)-1)/2]
		if near(middle.wall, own.wall, boundNs+middle.uncertainty) {
			return judgement{verdict: Agrees, majority: true, follows: own.wall, sure: true}
		}
		return judgement{verdict: Odd, follows: followed(own, same, middle.wall, boundNs),
			sure: true}
	}
	if j, ok := confirmed(own, precise, boundNs); ok {
		return j
	}
	return unconfirmed(own, heard, nodes, boundNs)
}

// together returns the opinions whose wall clocks are within the bound of one.
func together(all []opinion, wall, boundNs int64) (out []opinion) {
	for _, o := range all {
		if near(o.wall, wall, boundNs) {
			out = append(out, o)
		}
	}
	return out
}

// followed returns the time that a majority follows whose wall clocks agree: what was confirmed
// before, as wall clocks that step together are followed a moment later, or else these clocks.
func followed(own opinion, majority []opinion, wall, boundNs int64) int64 {
	var sure []int64
	for _, o := range majority {
		if o.sure {
			sure = append(sure, o.now)
		}
	}
	if len(sure) > 0 {
		slices.Sort(sure)
		wall = sure[(len(sure)-1)/2]
	}
	if own.sure && near(own.now, wall, boundNs) {
		return own.now
	}
	return wall
}

// confirmed judges by times that a majority confirmed before; ok is false without any. Of two the
// later one counts: a machine may stand still meanwhile, but does not count ahead.
func confirmed(own opinion, heard []opinion, boundNs int64) (j judgement, ok bool) {
	best := own
	for _, o := range heard {
		if o.sure && (!best.sure || o.now > best.now && !near(o.now, best.now,
			2*boundNs+o.uncertainty)) {
			best = o
		}
	}
	switch {
	case !best.sure:
		return j, false
	case !near(own.wall, best.now, boundNs):
		return judgement{verdict: Off, follows: best.now, sure: true}, true
	case own.sure && best == own:
		return judgement{verdict: Agrees, follows: own.now, sure: true}, true
	}
	return judgement{verdict: Agrees, follows: own.wall, sure: true}, true
}

// unconfirmed judges where no majority has confirmed a time: clocks count where none contradicts
// them, or where they and those that are surely wrong are a majority, so that most others would
// agree. A wall clock is surely wrong that is behind what its own node knows of the past.
func unconfirmed(own opinion, heard []opinion, nodes int, boundNs int64) judgement {
	walls, agree, wrong := 0, 1, 0
	for _, o := range heard {
		if near(o.wall, own.wall, boundNs+o.uncertainty) {
			walls++
		}
		switch {
		case o.behind:
			wrong++
		case near(o.wall, own.now, boundNs+o.uncertainty):
			agree++
		}
	}
	same := agree > 1 && agree+wrong == len(heard)+1
	switch {
	case (own.stepped || own.behind) && walls == len(heard):
		return judgement{verdict: Agrees, follows: own.wall}
	case own.stepped && same:
		return judgement{verdict: Off, follows: own.now}
	case !own.stepped && !own.behind && (same || (agree+wrong)*2 > nodes):
		return judgement{verdict: Agrees, follows: own.now}
	}
	return judgement{verdict: Undecided, follows: own.now}
}

// near reports whether two times are within a distance, wherever they are.
func near(a, b, within int64) bool {
	return uint64(max(a, b))-uint64(min(a, b)) <= uint64(max(0, within))
}
