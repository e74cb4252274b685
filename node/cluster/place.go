package cluster

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/zeebo/xxh3"
)

// Candidate is a node that may hold replicas.
type Candidate struct {
	ID     NodeID
	Zone   string
	Weight uint32
}

// Wanted is how many copies a group should have, and who holds some now.
type Wanted struct {
	Group    GroupID
	Replicas int
	Now      []NodeID
}

const (
	// loadBound is how much more than its share a node gets at most, where zones allow: without a
	// bound, the fullest of 100 nodes would have half as much again.
	loadBound = 1.10
	// loadFloor is below what part of its share a node takes from others.
	loadFloor = 0.90
)

// Place proposes the nodes of each group, the preferred leader first. It keeps who holds a copy now
// as far as it can, takes others by weighted rendezvous, at most one in a zone while zones suffice,
// and leaves no node with more than loadBound of its share by weight unless zones leave no choice.
// The same input has the same result on machines of one kind; nothing else may rely on it.
func Place(nodes []Candidate, groups []Wanted) [][]NodeID {
	p := newPlacer(nodes, groups)
	for g := range groups {
		p.keep(g)
	}
	for g := range groups {
		p.fill(g)
	}
	p.relieve()
	p.feed()
	out := make([][]NodeID, len(groups))
	for g := range groups {
		slices.SortFunc(p.held[g], func(a, b int) int {
			return cmp.Or(cmp.Compare(p.score(g, b), p.score(g, a)), cmp.Compare(a, b))
		})
		for _, n := range p.held[g] {
			out[g] = append(out[g], p.nodes[n].ID)
		}
	}
	return out
}

// placer is the work of one Place. Nodes and groups are known by their places in slices.
type placer struct {
	nodes  []Candidate // by id
	zone   []int       // of each node
	groups []Wanted
	held   [][]int // nodes of each group
	holds  [][]int // groups of each node
	share  []float64
}

func newPlacer(nodes []Candidate, groups []Wanted) *placer {
	p := &placer{nodes: slices.Clone(nodes), groups: groups, held: make([][]int, len(groups)),
		holds: make([][]int, len(nodes)), zone: make([]int, len(nodes))}
	slices.SortFunc(p.nodes, func(a, b Candidate) int { return cmp.Compare(a.ID, b.ID) })
	zones := map[string]int{}
	for i, n := range p.nodes {
		if _, ok := zones[n.Zone]; !ok {
			zones[n.Zone] = len(zones)
		}
		p.zone[i] = zones[n.Zone]
	}
	p.share = p.shares(len(zones))
	return p
}

// shares works out how many replicas each node should hold. A group has a replica in every zone
// before it has a second one in any, so small zones may have to hold more than their weight.
func (p *placer) shares(zones int) []float64 {
	members := make([][]int, zones)
	weight := make([]float64, zones)
	for i, z := range p.zone {
		members[z] = append(members[z], i)
		weight[z] += float64(p.nodes[i].Weight)
	}
	classes := map[int]int{} // replicas -> groups
	for _, g := range p.groups {
		classes[min(g.Replicas, len(p.nodes))]++
	}
	byZone := make([]float64, zones)
	for replicas, groups := range classes {
		for round := 0; replicas > 0; round++ {
			var active []int
			var weights []float64
			for z := range zones {
				if len(members[z]) > round {
					active, weights = append(active, z), append(weights, weight[z])
				}
			}
			n := min(replicas, len(active))
			for i, s := range spread(float64(n*groups), weights, float64(groups)) {
				byZone[active[i]] += s
			}
			replicas -= n
		}
	}
	share := make([]float64, len(p.nodes))
	for z, in := range members {
		var weights []float64
		for _, i := range in {
			weights = append(weights, float64(p.nodes[i].Weight))
		}
		for i, s := range spread(byZone[z], weights, float64(len(p.groups))) {
			share[in[i]] = s
		}
	}
	return share
}

// spread divides total by weights, giving none more than most.
func spread(total float64, weights []float64, most float64) []float64 {
	out := make([]float64, len(weights))
	open := make([]int, len(weights))
	for i := range open {
		open[i] = i
	}
	for {
		sum := 0.0
		for _, i := range open {
			sum += weights[i]
		}
		for _, i := range open {
			out[i] = min(most, total*weights[i]/sum)
		}
		below := slices.DeleteFunc(slices.Clone(open), func(i int) bool { return out[i] == most })
		if len(below) == len(open) || len(below) == 0 {
			return out
		}
		total -= most * float64(len(open)-len(below))
		open = below
	}
}

// score is weighted rendezvous: a node has the highest score of all for as many groups as its
// weight says, and a node that comes or goes changes nothing among the others.
func (p *placer) score(group, node int) float64 {
	var key [12]byte
	binary.LittleEndian.PutUint32(key[:], uint32(p.groups[group].Group))
	binary.LittleEndian.PutUint64(key[4:], uint64(p.nodes[node].ID))
	h := (float64(xxh3.Hash(key[:])>>11) + 0.5) / (1 << 53) // in (0, 1)
	return -float64(p.nodes[node].Weight) / math.Log(h)
}

func (p *placer) most(n int) int   { return int(math.Ceil(p.share[n] * loadBound)) }
func (p *placer) fewest(n int) int { return int(p.share[n] * loadFloor) }

func (p *placer) add(g, n int) {
	p.held[g] = append(p.held[g], n)
	p.holds[n] = append(p.holds[n], g)
}

func (p *placer) drop(g, n int) {
	p.held[g] = slices.DeleteFunc(p.held[g], func(have int) bool { return have == n })
	p.holds[n] = slices.DeleteFunc(p.holds[n], func(have int) bool { return have == g })
}

// inZone counts the replicas of a group in a zone, but for that of one node.
func (p *placer) inZone(g, zone, but int) int {
	count := 0
	for _, n := range p.held[g] {
		if n != but && p.zone[n] == zone {
			count++
		}
	}
	return count
}

// keep takes over who holds a group, without those that are too many, or too many in a zone.
func (p *placer) keep(g int) {
	for _, id := range p.groups[g].Now {
		i, ok := slices.BinarySearchFunc(p.nodes, id, func(c Candidate, id NodeID) int {
			return cmp.Compare(c.ID, id)
		})
		if ok && !slices.Contains(p.held[g], i) {
			p.add(g, i)
		}
	}
	for len(p.held[g]) > 0 {
		worst := slices.MinFunc(p.held[g], func(a, b int) int {
			return cmp.Or(-cmp.Compare(p.inZone(g, p.zone[a], -1), p.inZone(g, p.zone[b], -1)),
				-cmp.Compare(p.over(a), p.over(b)), cmp.Compare(p.score(g, a), p.score(g, b)))
		})
		crowd, emptier := p.inZone(g, p.zone[worst], worst), false
		for i := range p.nodes {
			emptier = emptier ||
				p.inZone(g, p.zone[i], -1) < crowd && !slices.Contains(p.held[g], i)
		}
		if len(p.held[g]) <= p.groups[g].Replicas && !emptier {
			return
		}
		p.drop(g, worst)
	}
}

// over is 1 when a node holds more than it should.
func (p *placer) over(n int) int { return count(len(p.holds[n]) > p.most(n)) }

// fill gives a group the nodes that it lacks.
func (p *placer) fill(g int) {
	for len(p.held[g]) < min(p.groups[g].Replicas, len(p.nodes)) {
		best, bestZone, bestFull, bestScore := -1, 0, 0.0, 0.0
		for n := range p.nodes {
			if slices.Contains(p.held[g], n) {
				continue
			}
			zone, full := p.inZone(g, p.zone[n], -1), 0.0
			if len(p.holds[n]) >= p.most(n) {
				full = p.fullness(n, 1) // all are: the one that has least beyond
			}
			score := p.score(g, n)
			if best < 0 || cmp.Or(cmp.Compare(zone, bestZone), cmp.Compare(full, bestFull),
				-cmp.Compare(score, bestScore)) < 0 {
				best, bestZone, bestFull, bestScore = n, zone, full, score
			}
		}
		p.add(g, best)
	}
}

// fullness is what part of its share a node has with some more replicas.
func (p *placer) fullness(n, more int) float64 {
	return float64(len(p.holds[n])+more) / max(p.share[n], 1e-9)
}

// relieve moves replicas away from nodes that hold more than they should.
func (p *placer) relieve() {
	for from := range p.nodes {
		for p.over(from) == 1 && (p.unload(from, from) || p.chain(from)) {
		}
	}
}

// unload moves one replica of a node to the emptiest that may have it, but for one.
func (p *placer) unload(from, but int) bool {
	for _, to := range p.byFullness(false) {
		if to != from && to != but && len(p.holds[to]) < p.most(to) && p.move(from, to) >= 0 {
			return true
		}
	}
	return false
}

// chain moves a replica of a node to one that passes another on, where zones leave no direct way.
func (p *placer) chain(from int) bool {
	for _, by := range p.byFullness(false) {
		if by == from {
			continue
		}
		g := p.move(from, by)
		if g < 0 {
			continue
		}
		if p.unload(by, from) {
			return true
		}
		p.drop(g, by)
		p.add(g, from)
	}
	return false
}

// feed moves replicas to nodes that hold less than they should, such as new ones.
func (p *placer) feed() {
	for to := range p.nodes {
		for len(p.holds[to]) < p.fewest(to) && (p.take(to, to) || p.takeBy(to)) {
		}
	}
}

// take moves one replica to a node from the fullest that may give it, but for one.
func (p *placer) take(to, but int) bool {
	for _, from := range p.byFullness(true) {
		if p.fullness(from, 0) <= 1 || p.fullness(to, 1) >= p.fullness(from, 0) {
			break
		}
		if from != but && p.move(from, to) >= 0 {
			return true
		}
	}
	return false
}

// takeBy moves a replica to a node from one that takes another in its place, where zones leave no
// direct way.
func (p *placer) takeBy(to int) bool {
	for _, by := range p.byFullness(true) {
		if by == to {
			continue
		}
		g := p.move(by, to)
		if g < 0 {
			continue
		}
		if p.take(by, to) {
			return true
		}
		p.drop(g, to)
		p.add(g, by)
	}
	return false
}

// byFullness lists the nodes.
func (p *placer) byFullness(fullestFirst bool) []int {
	out := make([]int, len(p.nodes))
	for i := range out {
		out[i] = i
	}
	slices.SortStableFunc(out, func(a, b int) int {
		if fullestFirst {
			a, b = b, a
		}
		return cmp.Compare(p.fullness(a, 0), p.fullness(b, 0))
	})
	return out
}

// move gives one replica of a node to another, of the group that fits the other best, and returns
// the group, -1 for none. It makes no group lie closer together.
func (p *placer) move(from, to int) int {
	best, bestScore := -1, 0.0
	for _, g := range p.holds[from] {
		closer := p.inZone(g, p.zone[to], from) > p.inZone(g, p.zone[from], from)
		if closer || slices.Contains(p.held[g], to) {
			continue
		}
		if s := p.score(g, to); best < 0 || s > bestScore {
			best, bestScore = g, s
		}
	}
	if best >= 0 {
		p.drop(best, from)
		p.add(best, to)
	}
	return best
}
